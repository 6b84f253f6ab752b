//! A worker: it evaluates its partitions on whole versions and pushes until all slices went on.

use resilin_core::machine::Rules;
use resilin_core::machine::shard::Push;
use resilin_core::sorted::{SortedMap, SortedSet};
use resilin_core::tree::Node;
use resilin_core::{
    Incarnation, LinkId, MapNumber, PartitionId, SliceId, Step, Tensor, Timeline, View,
};

use super::arithmetic::{contribution, sum};

pub(super) struct Worker {
    pub(super) link: LinkId,
    /// Two partitions that are one node of the tree.
    node: Node,
    pub(super) step: Step,
    here: SortedMap<Step, SortedMap<SliceId, u64>>,
    /// Replicas that it has a link to.
    pub(super) linked: SortedSet<u32>,
}

impl Worker {
    pub(super) fn new(number: u32) -> Self {
        Self {
            link: LinkId(u64::from(number) + 1),
            node: Node {
                level: 1,
                index: number,
            },
            step: Step(0),
            here: SortedMap::new(),
            linked: SortedSet::new(),
        }
    }

    /// The version that it lacks of the slice: that of its step, or the next.
    pub(super) fn lacks(&self, slice: SliceId) -> Option<Step> {
        [self.step, self.step.next()].into_iter().find(|step| {
            !self
                .here
                .get(step)
                .is_some_and(|here| here.contains_key(&slice))
        })
    }

    pub(super) fn weights(&mut self, rules: &Rules, slice: SliceId, step: Step, weights: u64) {
        if step == self.step || step == self.step.next() {
            self.here.entry(step).or_default().insert(slice, weights);
        }
        let next = self.here.get(&self.step.next());
        if next.is_some_and(|next| next.len() == usize::from(rules.slices.slices())) {
            self.go_to(self.step.next());
        }
    }

    pub(super) fn gone(&mut self, step: Step, at: Step) {
        if step >= self.step && at > self.step {
            self.go_to(at);
        }
    }

    fn go_to(&mut self, step: Step) {
        self.step = step;
        self.here.retain(|version, _| *version >= step);
    }

    /// Its contributions to the slice, with their values: one node, or its two leaves.
    pub(super) fn contributions(
        &self,
        rules: &Rules,
        slice: SliceId,
        apart: bool,
        noise: u64,
    ) -> Vec<(Push, u64)> {
        let Some(here) = self.here.get(&self.step) else {
            return Vec::new();
        };
        if here.len() < usize::from(rules.slices.slices()) || self.step >= rules.last() {
            return Vec::new();
        }
        let weights: Vec<u64> = here.values().copied().collect();
        let with_samples = rules.sampling.with_samples(self.step);
        let leaf = |node: Node| {
            let sampled = node.level == 0 && with_samples.contains(PartitionId(node.index));
            let value = || contribution(&weights, self.step, node.index, slice) ^ noise;
            sampled.then(value)
        };
        let nodes = match self.node.children().filter(|_| apart) {
            Some((left, right)) => vec![left, right],
            None => vec![self.node],
        };
        let push = |node| {
            let samples = rules.samples(self.step, node);
            let push = Push {
                timeline: Timeline::first(1),
                map: MapNumber(1),
                view: View::first(1),
                step: self.step,
                node,
                incarnation: Incarnation::first(1),
                tensor: Tensor(0),
                samples,
                weight: samples as f64,
                loss_sum: samples as f64 / 3.0,
            };
            Some((push, sum(node, &leaf)?))
        };
        nodes.into_iter().filter_map(push).collect()
    }
}
