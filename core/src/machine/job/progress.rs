//! What the slices report: the ledger's records, and how far the run is.

use super::{Effect, Job, SliceState};
use crate::fact::Fact;
use crate::id::{SliceId, Step, Timeline};
use crate::job::Bits;
use crate::ledger::{Part, Record, marks};
use crate::machine::saver;
use crate::message::{ShardOrder, ShardReport, StepRecord};
use crate::sorted::SortedMap;
use crate::time::{Span, Time};
use crate::tree::PartitionSet;

/// Commits kept for the rate shown in status.
const COMMITS: usize = 64;

/// Least time between two facts about ordinary commits.
const TELL_EVERY: Span = Span::from_millis(1000);

/// When a commit is told: steps are many, and people ask how long a run stood still after a loss.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    told: Option<Time>,
    /// Somebody was lost since the last commit.
    lost: bool,
}

impl Pace {
    /// The next commit is told at once.
    pub(super) fn lost(&mut self) {
        self.lost = true;
    }

    fn is_due(&mut self, now: Time) -> bool {
        let due = self.lost || self.told.is_none_or(|told| told + TELL_EVERY <= now);
        if due {
            *self = Self {
                told: Some(now),
                lost: false,
            };
        }
        due
    }
}

impl Job {
    pub(super) fn report(&mut self, now: Time, report: ShardReport, effects: &mut Vec<Effect>) {
        match report {
            ShardReport::Progress {
                slice,
                timeline,
                step,
                covered,
                pinned,
                cutting,
                resting,
                voted,
                behind,
                kept: _,
            } => {
                if timeline == self.branch.timeline {
                    let state = SliceState {
                        step,
                        seen: step,
                        covered,
                        pinned,
                        resting,
                        voted,
                        behind,
                    };
                    self.progress(slice, state, effects);
                    let busy = cutting.filter(|_| self.slices.contains_key(&slice));
                    let cutting = |step| Effect::Saver(saver::Event::Cutting(slice, step));
                    effects.extend(busy.map(cutting));
                }
            }
            ShardReport::Committed(record) => {
                let known = self.slices.contains_key(&record.slice);
                if known && record.timeline == self.branch.timeline {
                    self.committed(now, record, effects);
                }
            }
            ShardReport::Halted {
                timeline,
                step,
                blocks,
                slice,
            } => {
                if timeline == self.branch.timeline && self.slices.contains_key(&slice) {
                    self.slice_halted(slice, step, &blocks, effects);
                }
            }
            ShardReport::Differs {
                timeline,
                step,
                node,
                members,
                slice: _,
            } => {
                if timeline == self.branch.timeline {
                    self.copies_differ(step, node, members, effects);
                }
            }
        }
    }

    pub(super) fn progress(&mut self, slice: SliceId, new: SliceState, effects: &mut Vec<Effect>) {
        let low = self.low();
        let Some(state) = self.slices.get_mut(&slice) else {
            return;
        };
        // An older report may arrive later.
        if new.step < state.step
            || (new.step == state.step && !new.covered.includes(&state.covered))
        {
            return;
        }
        let rests = new.resting;
        // A slice at a step proves that all have made that step's version or the one before
        // (PROTOCOL 11), whether their own reports came or not.
        let proven = Step(new.step.0.saturating_sub(1));
        *state = new;
        for other in self.slices.values_mut().filter(|s| s.step < proven) {
            other.step = proven;
            other.covered = PartitionSet::default();
            (other.resting, other.voted) = (false, false);
        }
        if self.low() > low {
            self.suspects.clear();
        }
        if self.low() > low || rests {
            self.release(effects);
        }
        self.begin_evaluation(slice, effects);
    }

    fn committed(&mut self, now: Time, record: StepRecord, effects: &mut Vec<Effect>) {
        let (slice, step) = (record.slice, record.step);
        let stale = step < self.recorded;
        if !stale {
            self.records
                .entry(record.step)
                .or_default()
                .insert(record.slice, record);
        }
        let (slices, before) = (self.slices.len(), self.recorded);
        while let Some(parts) = self.records.remove(&self.recorded) {
            if parts.len() < slices {
                self.records.insert(self.recorded, parts);
                break;
            }
            self.record(now, parts, effects);
            self.recorded = self.recorded.next();
            if !self.has_halted() {
                effects.push(Effect::Saver(saver::Event::Recorded(self.recorded)));
            }
        }
        if stale {
            self.acknowledge_again(slice, step, effects);
        } else if self.recorded > before && self.settings.hosts.is_none() {
            self.acknowledge(effects);
        }
    }

    /// Whoever repeats a record did not hear that it is in the ledger. Others are not told: where
    /// many repeat, as on a busy machine, that would be most of what is said.
    fn acknowledge_again(&self, slice: SliceId, step: Step, effects: &mut Vec<Effect>) {
        let before = self.acknowledged();
        if step < before {
            self.order_slice(slice, ShardOrder::Recorded { before }, effects);
        }
    }

    /// Hosts outlive this process, and with them what they keep: what the store has not taken yet
    /// is not acknowledged to them.
    fn acknowledge(&self, effects: &mut Vec<Effect>) {
        let before = self.acknowledged();
        effects.push(Effect::Order(ShardOrder::Recorded { before }));
    }

    fn acknowledged(&self) -> Step {
        match self.settings.hosts {
            None => self.recorded,
            Some(_) => self.hosting.taken,
        }
    }

    /// The store has every record of the timeline before this step.
    pub(super) fn taken(&mut self, timeline: Timeline, before: Step, effects: &mut Vec<Effect>) {
        let news = timeline == self.branch.timeline && before > self.hosting.taken;
        if news && self.settings.hosts.is_some() {
            self.hosting.taken = before;
            self.acknowledge(effects);
        }
    }

    /// Every slice has applied the step: one line of the ledger.
    fn record(
        &mut self,
        now: Time,
        parts: SortedMap<SliceId, StepRecord>,
        effects: &mut Vec<Effect>,
    ) {
        let digests: Vec<[u8; 32]> = parts
            .values()
            .flat_map(|part| part.digests.iter().copied())
            .collect();
        let chain = *blake3::hash(digests.as_flattened()).as_bytes();
        let discarded = parts.values().map(|part| part.discarded).max().unwrap_or(0);
        let first = parts
            .into_values()
            .next()
            .expect("a run has at least one slice");
        self.judge_backups(first.step, &first.nodes, effects);
        let part = |c: &crate::message::Contributor| Part {
            node: c.node,
            contributor: c.incarnation,
            samples: c.samples,
        };
        let contributors = first.nodes.iter().map(|sent| sent.incarnation);
        self.touch(first.step, contributors);
        self.audits_overdue(first.step);
        self.counters.samples += first.samples;
        self.counters.discarded += discarded;
        self.counters.cuts_missed += u64::from(first.cut_missed);
        self.counters.skipped += u64::from(first.skipped);
        if first.weight > 0.0 {
            self.last_loss = Some(first.loss_sum / first.weight);
        }
        self.commits.push_back((now, first.samples));
        if self.commits.len() > COMMITS {
            self.commits.pop_front();
        }
        effects.push(Effect::Append(Record::Step(crate::ledger::StepRecord {
            timeline: first.timeline,
            step: first.step,
            chain,
            marks: marks(&digests),
            nodes: first.nodes.iter().map(part).collect(),
            samples: first.samples,
            loss_sum: first.loss_sum,
            weight: first.weight,
            skipped: first.skipped,
            discarded,
        })));
        let version = first.step.next();
        if self.pace.is_due(now) || version == self.rules.last() {
            let loss = self.last_loss;
            effects.push(Effect::Tell(Fact::Committed { version, loss }));
        }
        if self.settings.hosts.is_some() && self.durable < Some(version) {
            self.chain.insert(version, chain);
        }
        self.compare(version, chain, effects);
    }

    pub(super) fn is_durable(&mut self, version: Step, effects: &mut Vec<Effect>) {
        self.durable = self.durable.max(Some(version));
        self.chain = self.chain.split_off(&version.next());
        (self.degraded, self.unsaved) = (None, None);
        effects.push(Effect::Tell(Fact::Durable { version }));
        self.commit_over(version, effects);
        // The last cut may have been left out because this one was being written.
        self.cut_at_rest(effects);
    }

    /// Replay must make the lines that a superseded branch had (PROTOCOL 2).
    fn compare(&mut self, version: Step, chain: [u8; 32], effects: &mut Vec<Effect>) {
        let Some(before) = self.settings.superseded.remove(&version) else {
            return;
        };
        if before == chain {
            return;
        }
        let step = Step(version.0 - 1);
        if self.rules.bits == Bits::Off {
            return effects.push(Effect::Tell(Fact::ReplayDiffers { step }));
        }
        let cause = format!(
            "replaying step {step} made other weights than before the restart; the model or a \
             processor is not deterministic: set bits = \"off\", or find the worker that differs"
        );
        self.end(super::Outcome::Halted { step, cause }, effects);
    }

    /// Repeats what may have been lost.
    pub(super) fn ask_again(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.audits_again(now, effects);
        self.evaluation_again(effects);
        self.suspects_again(effects);
        self.backups_again(effects);
        self.stop_again(effects);
    }
}
