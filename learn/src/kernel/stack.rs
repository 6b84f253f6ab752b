//! Sums a node's leaves in tree order as a model makes them.
//!
//! The right leaf of a pair may be added by the model itself while it makes the values, which saves a
//! pass over both.

use resilin_core::PartitionId;
use resilin_core::tree::{Node, PartitionSet};

use super::digest::{BlockHasher, Digest};
use super::sum::{add, merges_after};
use crate::model::{Outcome, Sink};

/// The sums that wait for their right sibling, lowest first; the lowest place is the output.
pub(super) struct Stack<'a> {
    pub(super) node: Node,
    pub(super) with_samples: &'a PartitionSet,
    pub(super) leaves: &'a [PartitionId],
    /// The leaf, of `leaves`, that the model is at.
    pub(super) next: usize,
    pub(super) out: &'a mut [f32],
    pub(super) waiting: &'a mut Vec<Vec<f32>>,
    /// One for each place in use.
    pub(super) outcomes: &'a mut Vec<Outcome>,
    pub(super) drawn: &'a PartitionSet,
    pub(super) audited: &'a mut Vec<(PartitionId, Digest)>,
    pub(super) hasher: &'a mut BlockHasher,
}

impl Stack<'_> {
    /// What all leaves add up to.
    pub(super) fn result(&self) -> Outcome {
        assert_eq!(
            self.outcomes.len(),
            1,
            "every leaf below the node was summed"
        );
        self.outcomes[0]
    }

    fn place(&mut self, place: usize) -> &mut [f32] {
        match place.checked_sub(1) {
            None => self.out,
            Some(waiting) => &mut self.waiting[waiting],
        }
    }

    fn merge(&mut self) {
        self.merge_outcomes();
        let place = self.outcomes.len();
        let (low, high) = self.waiting.split_at_mut(place - 1);
        let left = low.last_mut().map_or(&mut *self.out, Vec::as_mut_slice);
        add(left, &high[0]);
    }

    fn merge_outcomes(&mut self) {
        let right = self.outcomes.pop().expect("a right sibling");
        let left = self.outcomes.last_mut().expect("a left sibling");
        left.samples += right.samples;
        left.weight += right.weight;
        left.loss_sum += right.loss_sum;
    }

    /// Whether leaf `k` is added to the one before it and nothing else, and nobody asks for its own
    /// gradient.
    fn is_right_of_pair(&self, k: usize) -> bool {
        let Some(left) = k.checked_sub(1) else {
            return false;
        };
        let parent = |k: usize| Node::leaf(self.leaves[k]).parent();
        let pair = Node::leaf(self.leaves[k]) != self.node && parent(left) == parent(k);
        pair && !self.drawn.contains(self.leaves[k])
    }
}

impl Sink for Stack<'_> {
    fn gradient(&mut self, k: usize) -> &mut [f32] {
        assert_eq!(k, self.next, "gradients come in ascending order");
        let Some(place) = self.outcomes.len().checked_sub(1) else {
            return self.out;
        };
        if self.waiting.len() == place {
            self.waiting.push(vec![0.0; self.out.len()]);
        }
        &mut self.waiting[place]
    }

    fn done(&mut self, k: usize, outcome: Outcome) {
        assert_eq!(k, self.next, "gradients come in ascending order");
        self.next += 1;
        if self.drawn.contains(self.leaves[k]) {
            let place = self.outcomes.len().checked_sub(1);
            let gradient = place.map_or(&*self.out, |place| self.waiting[place].as_slice());
            self.audited
                .push((self.leaves[k], self.hasher.digest(gradient)));
        }
        self.outcomes.push(outcome);
        for _ in 0..merges_after(self.node, self.with_samples, self.leaves[k]) {
            self.merge();
        }
    }

    fn left_sibling(&mut self, k: usize) -> Option<&mut [f32]> {
        assert_eq!(k, self.next, "gradients come in ascending order");
        let place = self.outcomes.len().checked_sub(1)?;
        let pair = self.is_right_of_pair(k);
        pair.then(|| self.place(place))
    }

    fn added(&mut self, k: usize, outcome: Outcome) {
        assert_eq!(k, self.next, "gradients come in ascending order");
        assert!(self.is_right_of_pair(k), "leaf {k} is apart");
        self.next += 1;
        self.outcomes.push(outcome);
        self.merge_outcomes();
        for _ in 1..merges_after(self.node, self.with_samples, self.leaves[k]) {
            self.merge();
        }
    }
}
