//! Sums a node's leaves in tree order as a model makes them.
//!
//! A model that makes gradients part by part has each part of all leaves summed while it is in the
//! cache, and adds the right leaf of a pair itself where it can.

use std::ops::Range;

use resilin_core::PartitionId;
use resilin_core::tree::{Node, PartitionSet};

use super::digest::{BlockHasher, Digest};
use super::sum::{add_newest, all_finite, merges_after};
use crate::math::Write;
use crate::model::{Addition, Group, Outcome, Piece, Sink};

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
    /// Whether the output is finite, if its newest values were looked at while they were in the
    /// cache.
    pub(super) finite: Option<bool>,
}

/// Where values are: in the output, and in the sums that wait.
struct Spot {
    out: Range<usize>,
    waiting: Range<usize>,
}

impl Spot {
    fn same(values: Range<usize>) -> Self {
        Self {
            waiting: values.clone(),
            out: values,
        }
    }

    /// At the start of the sums that wait, where all parts pass and memory stays in the cache.
    fn near(values: Range<usize>) -> Self {
        Self {
            waiting: 0..values.len(),
            out: values,
        }
    }
}

/// What all leaves add up to.
pub(super) struct Summed {
    pub(super) outcome: Outcome,
    finite: Option<bool>,
}

impl Summed {
    /// Whether `sum`, the output, is finite.
    pub(super) fn is_finite(&self, sum: &[f32]) -> bool {
        self.finite.unwrap_or_else(|| all_finite(sum))
    }
}

impl Stack<'_> {
    /// What all leaves add up to.
    pub(super) fn result(&self) -> Summed {
        assert_eq!(
            self.outcomes.len(),
            1,
            "every leaf below the node was summed"
        );
        Summed {
            outcome: self.outcomes[0],
            finite: self.finite,
        }
    }

    /// A place on the stack, from the lowest.
    fn place(&mut self, place: usize) -> &mut [f32] {
        let Some(waiting) = place.checked_sub(1) else {
            return self.out;
        };
        if self.waiting.len() == waiting {
            self.waiting.push(vec![0.0; self.out.len()]);
        }
        &mut self.waiting[waiting]
    }

    /// Adds the newest `merges` of `depth` sums to the one below them, in tree order.
    fn merge_values(&mut self, depth: usize, merges: usize, spot: &Spot) {
        let (low, rights) = self.waiting[..depth - 1].split_at_mut(depth - 1 - merges);
        let left = match low.last_mut() {
            Some(left) => &mut left[spot.waiting.clone()],
            None => &mut self.out[spot.out.clone()],
        };
        add_newest(left, rights, spot.waiting.start);
    }

    /// Values of a place.
    fn values(&mut self, place: usize, spot: &Spot) -> &mut [f32] {
        let range = match place {
            0 => spot.out.clone(),
            _ => spot.waiting.clone(),
        };
        &mut self.place(place)[range]
    }

    /// How often sums are added once a leaf is there.
    fn merges_after(&self, k: usize) -> usize {
        merges_after(self.node, self.with_samples, self.leaves[k])
    }

    /// Whether leaves from the first on leave nothing that waits.
    fn makes_whole(&self, leaves: Range<usize>) -> bool {
        let merges: usize = leaves.clone().map(|k| self.merges_after(k)).sum();
        self.outcomes.is_empty() && merges + 1 == leaves.len()
    }

    fn merge_outcomes(&mut self) {
        let right = self.outcomes.pop().expect("a right sibling");
        let left = self.outcomes.last_mut().expect("a left sibling");
        left.samples += right.samples;
        left.weight += right.weight;
        left.loss_sum += right.loss_sum;
    }

    /// Whether leaf `k` is added to the one before it and nothing else.
    fn is_right_of_pair(&self, k: usize) -> bool {
        let Some(left) = k.checked_sub(1) else {
            return false;
        };
        let parent = |k: usize| Node::leaf(self.leaves[k]).parent();
        Node::leaf(self.leaves[k]) != self.node && parent(left) == parent(k)
    }
}

impl Sink for Stack<'_> {
    fn gradient(&mut self, k: usize) -> &mut [f32] {
        assert_eq!(k, self.next, "gradients come in ascending order");
        self.place(self.outcomes.len())
    }

    fn done(&mut self, k: usize, outcome: Outcome) {
        assert_eq!(k, self.next, "gradients come in ascending order");
        self.next += 1;
        self.finite = None;
        if self.drawn.contains(self.leaves[k]) {
            let place = self.outcomes.len().checked_sub(1);
            let gradient = place.map_or(&*self.out, |place| self.waiting[place].as_slice());
            self.audited
                .push((self.leaves[k], self.hasher.digest(gradient)));
        }
        self.outcomes.push(outcome);
        let merges = self.merges_after(k);
        let all = Spot::same(0..self.out.len());
        self.merge_values(self.outcomes.len(), merges, &all);
        for _ in 0..merges {
            self.merge_outcomes();
        }
    }

    fn in_parts(&mut self, group: &Group<'_>, make: &mut dyn FnMut(Piece<'_>)) {
        let Group {
            first,
            outcomes,
            parts,
            addition,
        } = *group;
        assert_eq!(first, self.next, "gradients come in ascending order");
        let leaves = first..first + outcomes.len();
        let drawn = leaves.clone().any(|k| self.drawn.contains(self.leaves[k]));
        if drawn {
            for (k, outcome) in leaves.zip(outcomes) {
                let gradient = self.gradient(k);
                for (part, range) in parts.iter().enumerate() {
                    make(Piece {
                        k: k - first,
                        part,
                        values: &mut gradient[range.clone()],
                        write: Write::Replace,
                    });
                }
                self.done(k, *outcome);
            }
            return;
        }
        let base = self.outcomes.len();
        let spot = match self.makes_whole(leaves.clone()) {
            true => Spot::near,
            false => Spot::same,
        };
        let mut finite = Some(true);
        for (part, range) in parts.iter().enumerate() {
            let spot = spot(range.clone());
            let mut depth = base;
            for k in leaves.clone() {
                let mut merges = self.merges_after(k);
                let write = match addition {
                    Addition::Exact if self.is_right_of_pair(k) => Write::Add,
                    Addition::Exact | Addition::Apart => Write::Replace,
                };
                match write {
                    Write::Add => merges -= 1,
                    Write::Replace => depth += 1,
                }
                make(Piece {
                    k: k - first,
                    part,
                    values: self.values(depth - 1, &spot),
                    write,
                });
                self.merge_values(depth, merges, &spot);
                depth -= merges;
            }
            finite = match depth {
                1 => finite.map(|finite| finite && all_finite(&self.out[range.clone()])),
                _ => None,
            };
        }
        self.finite = finite;
        for (k, outcome) in leaves.zip(outcomes) {
            self.next += 1;
            self.outcomes.push(*outcome);
            for _ in 0..self.merges_after(k) {
                self.merge_outcomes();
            }
        }
    }
}
