//! A worker's sums: made by its evaluator, and sent, some while their values still come.

use std::sync::Arc;

use resilin_core::machine::shard::Push;
use resilin_core::machine::worker::{Computed, Event};
use resilin_core::message::Use;
use resilin_core::time::Time;
use resilin_core::tree::Node;
use resilin_core::{PartitionId, SliceId, Step, Tensor, Timeline};
use resilin_learn::kernel::BlockHasher;

use super::events::{Chore, End, Happening, Packet};
use super::{Checked, Sim};
use crate::invariants::{Fact, Violation};

impl Sim<'_> {
    pub(super) fn evaluate(
        &mut self,
        id: u32,
        (step, node): (Step, Node),
        weights: &[f32],
    ) -> Result<Computed, Violation> {
        let rows_of = self.bug_in_rows(id, step);
        let host = self.hosts.get_mut(&id).expect("seen by the caller");
        let mut values = vec![0.0; weights.len()];
        let result = host.evaluator.evaluate(weights, rows_of, node, &mut values);
        let mut result = result.expect("rows of the tests can be read");
        if host.spoilt > 0 {
            host.spoilt -= 1;
            let leaf = self.rules.first_leaf(step, node);
            values[0] = f32::NAN;
            // No two failures are alike, or they would confirm each other.
            values[1] = self.stats.events as f32;
            let digest = BlockHasher::default().digest(&values);
            result.non_finite = vec![(leaf, digest)];
        }
        let flips = host.flips > 0 && result.non_finite.is_empty();
        if flips {
            host.flips -= 1;
            // Large enough to be seen in any sum, and finite.
            values[0] = f32::from_bits(values[0].to_bits() ^ (1 << 22));
            let leaf = self.rules.first_leaf(step, node);
            let digest = BlockHasher::default().digest(&values);
            let audited = result.audited.iter_mut();
            let found = audited.filter(|(of, _)| *of == leaf);
            found.for_each(|(_, known)| *known = digest);
            self.stats.flips += 1;
            let flipped = Fact::Flipped(host.incarnation, step, leaf);
            self.checker.see(&flipped)?;
        }
        let host = self.hosts.get_mut(&id).expect("seen by the caller");
        host.next_tensor += 1;
        let tensor = Tensor(host.next_tensor);
        host.tensors.insert(tensor, Arc::new(values));
        Ok(Computed {
            node,
            tensor,
            samples: result.outcome.samples,
            weight: result.outcome.weight,
            loss_sum: result.outcome.loss_sum,
            non_finite: result.non_finite,
            audited: result.audited,
        })
    }

    /// The values of a sum come until `ends`. As with real workers, not of a sum with audited leaves.
    pub(super) fn begin_sum(&mut self, id: u32, finish: Chore, ends: Time) -> Checked {
        let Chore::Finish {
            timeline,
            step,
            computed,
            ..
        } = &finish
        else {
            unreachable!("what a sum ends with")
        };
        if !computed.audited.is_empty() {
            self.queue.push(ends, Happening::Chore(id, finish));
            return Ok(());
        }
        let host = self.hosts.get_mut(&id).expect("it has just evaluated");
        host.unsent.insert(computed.tensor, Vec::new());
        let event = Event::Coming {
            timeline: *timeline,
            step: *step,
            computed: Computed {
                non_finite: Vec::new(),
                ..computed.clone()
            },
        };
        self.queue.push(ends, Happening::Chore(id, finish));
        self.worker(id, event)
    }

    /// What was begun is sent to its end on links that are still there, unless it was given up.
    pub(super) fn send_rest(&mut self, id: u32, computed: &Computed) {
        let host = self.hosts.get_mut(&id).expect("seen by the caller");
        let unsent = host.unsent.remove(&computed.tensor).unwrap_or_default();
        if !computed.non_finite.is_empty() {
            return;
        }
        for (link, push, values) in unsent {
            let host = &self.hosts[&id];
            if host.data.values().any(|open| *open == Some(link)) {
                self.send(link, End::Listener, Packet::Pushed(push, values));
            }
        }
    }

    pub(super) fn send_push(&mut self, id: u32, slice: SliceId, push: Push) {
        let host = self.hosts.get_mut(&id).expect("it pushes");
        let Some(Some(link)) = host.data.get(&slice).copied() else {
            return;
        };
        let layout = &self.oracle.task.layout;
        let range = layout.values(host.slices.range(slice));
        let values = Arc::new(host.tensors[&push.tensor][range].to_vec());
        if let Some(unsent) = host.unsent.get_mut(&push.tensor) {
            return unsent.push((link, push, values));
        }
        self.send(link, End::Listener, Packet::Pushed(push, values));
    }

    pub(super) fn compute(&mut self, id: u32, timeline: Timeline, step: Step, nodes: &[Node]) {
        let weights = self.hosts[&id].whole(Use::Train, step);
        let slowness = u64::from(self.hosts[&id].slowness);
        let with_samples = self.rules.sampling.with_samples(step);
        let mut at = self.now;
        for (index, node) in nodes.iter().enumerate() {
            let leaves = (node.first()..node.end())
                .filter(|p| with_samples.contains(PartitionId(*p)))
                .count() as u64;
            let takes = self.micros(400, 1_600).times(slowness * leaves);
            let (begins, ends) = (at + takes.part(2), at + takes);
            // Of every other one the values come from half-way on.
            let comes = takes.0.is_multiple_of(2);
            at = ends;
            let chore = Chore::Evaluate {
                timeline,
                step,
                node: *node,
                weights: Arc::clone(&weights),
                last: index + 1 == nodes.len(),
                ends: comes.then_some(ends),
            };
            let at = if comes { begins } else { ends };
            self.queue.push(at, Happening::Chore(id, chore));
        }
    }
}
