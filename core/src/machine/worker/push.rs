//! What becomes of sums: each goes to every slice, but for leaves that are not finite.

use super::{Computed, Effect, PartitionSet, Sum, Withheld, Worker};
use crate::id::{PartitionId, SliceId, Step, Timeline};
use crate::message::WorkerSays;
use crate::sorted::SortedSet;

impl Worker {
    /// The values of a sum come: they go out as they do, so that little is left to send when the last
    /// is there. Until then nobody counts on them.
    pub(super) fn coming(
        &mut self,
        timeline: Timeline,
        step: Step,
        computed: &Computed,
        effects: &mut Vec<Effect>,
    ) {
        if self.timeline() != Some(timeline) || step != self.step {
            return;
        }
        let slices: SortedSet<SliceId> = self.up().collect();
        for slice in &slices {
            self.send(*slice, computed, effects);
        }
        self.coming.insert(computed.tensor, slices);
    }

    pub(super) fn computed(
        &mut self,
        timeline: Timeline,
        step: Step,
        computed: Computed,
        last: bool,
        effects: &mut Vec<Effect>,
    ) {
        if last {
            self.computing = None;
        }
        let sent = self.coming.remove(&computed.tensor).unwrap_or_default();
        // Also of a step that is over: the sum came too late, the opinion did not.
        if computed.non_finite.is_empty() {
            for (partition, digest) in &computed.audited {
                self.audited(timeline, step, *partition, *digest);
            }
        }
        if self.timeline() != Some(timeline) || step != self.step {
            effects.push(Effect::Free(computed.tensor));
            return;
        }
        if !computed.non_finite.is_empty() {
            return self.withhold(timeline, step, computed, effects);
        }
        let node = computed.node;
        let sum = Sum {
            computed,
            answered: SortedSet::new(),
        };
        for slice in self.up().filter(|slice| !sent.contains(slice)) {
            self.send(slice, &sum.computed, effects);
        }
        if let Some(replaced) = self.sums.insert(node, sum) {
            effects.push(Effect::Free(replaced.computed.tensor));
        }
    }

    /// A leaf that is not finite is reported, not pushed; the rest of its node is evaluated again
    /// without it.
    fn withhold(
        &mut self,
        timeline: Timeline,
        step: Step,
        computed: Computed,
        effects: &mut Vec<Effect>,
    ) {
        effects.push(Effect::Free(computed.tensor));
        for (partition, digest) in computed.non_finite {
            let before = self.withheld.get(&partition);
            let leaf = Withheld {
                digest: Some(digest),
                evaluations: before.map_or(0, |leaf| leaf.evaluations) + 1,
            };
            self.withheld.insert(partition, leaf);
            self.extra = self.extra.iter().filter(|p| *p != partition).collect();
            self.report(timeline, step, (partition, leaf), effects);
        }
    }

    pub(super) fn is_withheld(&self, partition: PartitionId) -> bool {
        let leaf = self.withheld.get(&partition);
        leaf.is_some_and(|leaf| leaf.digest.is_some())
    }

    pub(super) fn send(&self, slice: SliceId, computed: &Computed, effects: &mut Vec<Effect>) {
        let Some(assignment) = &self.assignment else {
            return;
        };
        if let Some(view) = assignment.views.iter().find(|view| view.slice == slice) {
            effects.push(Effect::Push {
                view: view.clone(),
                timeline: assignment.timeline,
                map: assignment.map,
                step: self.step,
                computed: computed.clone(),
            });
        }
    }

    pub(super) fn push_uncovered(
        &mut self,
        slice: SliceId,
        covered: &PartitionSet,
        effects: &mut Vec<Effect>,
    ) {
        let with_samples = self.rules.sampling.with_samples(self.step);
        let mut sums = std::mem::take(&mut self.sums);
        for (node, sum) in &mut sums {
            if covered.includes_node(*node, &with_samples) {
                sum.answered.insert(slice);
            } else {
                self.send(slice, &sum.computed, effects);
            }
        }
        self.sums = sums;
    }

    /// Nothing is said between two lives: the coordinator would take it for the next one's, which
    /// has evaluated nothing yet, and so for a second evaluation.
    pub(super) fn report(
        &self,
        timeline: Timeline,
        step: Step,
        (partition, leaf): (PartitionId, Withheld),
        effects: &mut Vec<Effect>,
    ) {
        let evaluations = leaf.evaluations;
        let digest = leaf.digest.filter(|_| self.incarnation.is_some());
        effects.extend(digest.map(|digest| {
            Effect::Say(WorkerSays::NonFinite {
                timeline,
                step,
                partition,
                digest,
                evaluations,
            })
        }));
    }
}
