//! What planted bugs do at their places; without its plant each function leaves things as they are.

use std::ops::Range;
use std::sync::Arc;

use resilin_core::ledger::Record;
use resilin_core::machine::fleet::Member;
use resilin_core::machine::shard::{Effect, Push};
use resilin_core::message::{ReplicaSays, ShardSays, Use, WorkerAsks, WorkerSays};
use resilin_core::tree::{Node, PartitionSet};
use resilin_core::{LinkId, SliceId, Step, Timeline};
use resilin_learn::kernel::SliceKernel;

use super::Sim;
use super::events::{End, Packet};
use super::plant::Plant;
use super::shards::SliceHost;
use super::store::{Found, Part};

impl Sim<'_> {
    fn has(&self, plant: Plant) -> bool {
        self.plant == Some(plant)
    }

    /// What a start finds.
    pub(super) fn bug_in_start(&mut self, found: &mut Found) {
        let now = (found.reign, found.lineage.branch.timeline);
        let (reign, timeline): (u64, Timeline) = *self.first_numbers.get_or_insert(now);
        if self.has(Plant::ReignReused) {
            found.reign = reign;
        }
        if self.has(Plant::TimelineReused) {
            found.lineage.branch.timeline = timeline;
        }
        if self.has(Plant::CheckpointIgnored) {
            (found.base, found.tensors) = (Step(0), None);
            found.lineage.branch.base = Step(0);
        }
    }

    /// Whether a pull is answered at once with what the slice has.
    pub(super) fn bug_in_pull(&mut self, slice: SliceId, link: LinkId, asks: WorkerAsks) -> bool {
        let WorkerAsks::Pull {
            timeline,
            step,
            purpose,
            ..
        } = asks;
        let Some(slices) = self.coordinator.as_ref().map(|c| &c.slices) else {
            return false;
        };
        let others_have = slices.iter().any(|other| other.machine.version() >= step);
        let host = slices.get(usize::from(slice.0)).filter(|_| others_have);
        let Some(host) = host.filter(|_| self.has(Plant::PullNotHeld)) else {
            return false;
        };
        let newest = host.machine.version();
        if purpose != Use::Train || step <= newest {
            return false;
        }
        let values = Arc::clone(host.kernel.weights(newest).expect("the newest is live"));
        let packet = Packet::Weights {
            timeline,
            step,
            purpose,
            values,
            based_on: None,
        };
        self.send(link, End::Dialler, packet);
        true
    }

    /// The step whose rows a worker reads for another's.
    pub(super) fn bug_in_rows(&self, worker: u32, step: Step) -> Step {
        if self.has(Plant::RowsByWorker) && worker.is_multiple_of(2) {
            return step.next();
        }
        step
    }

    /// What a worker tells the coordinator; a leaf's first evaluation is taken for the second too.
    pub(super) fn bug_in_report(&self, says: &WorkerSays) -> Option<WorkerSays> {
        let mut again = says.clone();
        let WorkerSays::NonFinite { evaluations, .. } = &mut again else {
            return None;
        };
        *evaluations += 1;
        self.has(Plant::NonFiniteBelieved).then_some(again)
    }

    /// Whether the job never hears of it.
    pub(super) fn bug_in_news(&self, news: &Member) -> bool {
        self.has(Plant::LossNotTold) && matches!(news, Member::Down(..))
    }

    /// What a slice tells a worker.
    pub(super) fn bug_in_coverage(&self, says: &mut ShardSays) {
        if let ShardSays::Coverage { step, covered, .. } = says
            && self.has(Plant::CoverageClaimed)
        {
            *covered = self.rules.sampling.with_samples(*step);
        }
    }

    /// What a primary believes to have heard of its backup, beside what it asks for.
    pub(super) fn bug_in_replica(&self, linked: bool, effect: &Effect) -> Option<Effect> {
        match effect {
            Effect::SendCopy { view, .. } if self.has(Plant::InSyncEarly) => {
                Some(Effect::InSync(*view))
            }
            _ => None,
        }
        .filter(|_| linked)
    }

    /// What a primary hears of its backup that this one never said.
    pub(super) fn bug_in_mirror(&self, linked: bool, effect: &Effect) -> Option<ReplicaSays> {
        let alone = self.has(Plant::AloneInSync) && !linked;
        match effect {
            Effect::Mirror(ReplicaSays::Pledge { view, vote, .. }) if alone => {
                let (view, step) = (*view, vote.step);
                Some(ReplicaSays::Pledged { view, step })
            }
            Effect::Mirror(ReplicaSays::Record { view, step, .. })
                if alone || self.has(Plant::PublishedEarly) =>
            {
                let (view, step) = (*view, *step);
                Some(ReplicaSays::Recorded { view, step })
            }
            _ => None,
        }
    }

    /// Whether a line is lost before it is written.
    pub(super) fn bug_in_ledger(&self, record: &Record) -> bool {
        let lost = matches!(record, Record::Step(line) if line.step.0 % 4 == 3);
        self.has(Plant::LedgerLost) && lost
    }

    /// A slice's part of a cut.
    pub(super) fn bug_in_cut(&self, kernel: &SliceKernel, part: &mut Part) {
        let (slice, step) = part.place();
        if !self.has(Plant::CutMixed) || slice != SliceId(0) {
            return;
        }
        let before = step.0.checked_sub(1).map(Step);
        if let Some(before) = before.and_then(|before| kernel.weights(before)) {
            part.replace_weights(before);
        }
    }
}

impl Plant {
    /// A contribution that a slice is about to judge; `true` if it is dealt with.
    pub(super) fn bug_in_push(
        self,
        host: &mut SliceHost,
        same_samples: bool,
        push: &mut Push,
        values: &mut Arc<Vec<f32>>,
    ) -> bool {
        if self == Self::StaleAccepted && push.step < host.machine.version() && same_samples {
            push.step = host.machine.version();
        }
        if self == Self::DuplicateTwice {
            let known = host.stored.get(&(push.step, push.node));
            if let Some(stored) = known.and_then(|known| host.tensors.get_mut(known)) {
                add(Arc::<Vec<f32>>::make_mut(stored), values);
                return true;
            }
        }
        if self == Self::ParentBeside {
            for ((step, node), tensor) in &host.stored {
                let child = *node != push.node && push.node.covers(*node);
                if let Some(stored) = host.tensors.get(tensor).filter(|_| child)
                    && *step == push.step
                {
                    add(Arc::<Vec<f32>>::make_mut(values), stored);
                }
            }
        }
        false
    }
}

/// The rows of an evaluation task.
pub(super) fn score_rows(plant: Option<Plant>, rows: Range<u64>) -> Range<u64> {
    let short = u64::from(plant == Some(Plant::RowMissed));
    rows.start..rows.end - short
}

/// All contributions of a step in the order in which they came.
pub(super) fn arrival_order(host: &SliceHost, nodes: &[(Node, resilin_core::Tensor)]) -> Vec<f32> {
    let mut arrived = nodes.to_vec();
    arrived.sort_by_key(|(_, tensor)| *tensor);
    let mut sum = vec![0.0; host.tensors[&arrived[0].1].len()];
    for (_, tensor) in arrived {
        add(&mut sum, &host.tensors[&tensor]);
    }
    sum
}

/// A step with no gradient at all, which moments go on from.
pub(super) fn skip_by_moments(
    kernel: &mut SliceKernel,
    step: Step,
    root: Node,
    with_samples: &PartitionSet,
) -> resilin_learn::kernel::AppliedStep {
    let weights = kernel.weights(step).expect("the newest is live");
    let nothing = vec![0.0; weights.len()];
    kernel.combine(step, &[(root, &nothing)], with_samples, 1.0);
    kernel.apply(step, 1.0, 0.0)
}

fn add(sum: &mut [f32], values: &[f32]) {
    for (sum, value) in sum.iter_mut().zip(values) {
        *sum += value;
    }
}
