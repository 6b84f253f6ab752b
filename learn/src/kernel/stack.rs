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

/// Takes a node's sum part by part, in layout order and without gaps, while the rest is still made: a
/// part can be on its way before the last one is ready.
///
/// Nobody has looked at the whole yet. If [`NodeResult::non_finite`](super::NodeResult) names leaves
/// in the end, the sum must not be used.
pub trait Early {
    /// What the sum comes with, and the ranges that its parts have; they follow if they are wanted.
    fn begin(&mut self, outcome: Outcome, parts: &[Range<usize>]) -> bool;

    /// Where the next part goes: `values` values of unspecified contents.
    fn part(&mut self, values: usize) -> &mut [f32];

    /// The part is made.
    fn made(&mut self);
}

/// The sums that wait for their right sibling, lowest first; the lowest place is the output.
pub(super) struct Stack<'a, 'e> {
    pub(super) node: Node,
    pub(super) with_samples: &'a PartitionSet,
    pub(super) leaves: &'a [PartitionId],
    /// The leaf, of `leaves`, that the model is at.
    pub(super) next: usize,
    /// How many leaves the node has, of which `leaves` are some.
    pub(super) count: usize,
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
    /// Who takes the output instead of `out`, if the model makes it in parts.
    pub(super) early: Option<&'a mut (dyn Early + 'e)>,
    /// Whether `early` has the output.
    pub(super) taken: bool,
}

/// What becomes of a leaf's values.
#[derive(Clone, Copy)]
struct Turn {
    write: Write,
    /// How often sums are added then.
    merges: usize,
}

/// The memory of the stack's places.
struct Places<'a> {
    out: &'a mut [f32],
    waiting: &'a mut Vec<Vec<f32>>,
    /// Values of a whole gradient.
    whole: usize,
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
    /// Whether it is not in the output but where [`Early`] put it.
    pub(super) taken: bool,
}

impl Summed {
    /// Whether `sum`, the output, is finite.
    pub(super) fn is_finite(&self, sum: &[f32]) -> bool {
        self.finite.unwrap_or_else(|| all_finite(sum))
    }
}

impl<'a> Places<'a> {
    /// A place on the stack, from the lowest.
    fn place(self, place: usize) -> &'a mut [f32] {
        let Some(waiting) = place.checked_sub(1) else {
            return self.out;
        };
        if self.waiting.len() == waiting {
            self.waiting.push(vec![0.0; self.whole]);
        }
        &mut self.waiting[waiting]
    }

    fn reborrow(&mut self) -> Places<'_> {
        Places {
            out: self.out,
            waiting: self.waiting,
            whole: self.whole,
        }
    }

    /// Has a part of each leaf made and added to what it belongs to, above `base` sums that wait;
    /// returns how many wait then.
    fn add_up(
        &mut self,
        turns: &[Turn],
        base: usize,
        (part, spot): (usize, &Spot),
        make: &mut dyn FnMut(Piece<'_>),
    ) -> usize {
        let mut depth = base;
        for (k, Turn { write, merges }) in turns.iter().copied().enumerate() {
            depth += usize::from(write == Write::Replace);
            let range = match depth {
                1 => spot.out.clone(),
                _ => spot.waiting.clone(),
            };
            make(Piece {
                k,
                part,
                values: &mut self.reborrow().place(depth - 1)[range],
                write,
            });
            self.merge(depth, merges, spot);
            depth -= merges;
        }
        depth
    }

    /// Adds the newest `merges` of `depth` sums to the one below them, in tree order.
    fn merge(&mut self, depth: usize, merges: usize, spot: &Spot) {
        let (low, rights) = self.waiting[..depth - 1].split_at_mut(depth - 1 - merges);
        let left = match low.last_mut() {
            Some(left) => &mut left[spot.waiting.clone()],
            None => &mut self.out[spot.out.clone()],
        };
        add_newest(left, rights, spot.waiting.start);
    }
}

impl Stack<'_, '_> {
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
            taken: self.taken,
        }
    }

    fn places(&mut self) -> Places<'_> {
        Places {
            whole: self.out.len(),
            out: self.out,
            waiting: self.waiting,
        }
    }

    /// How often sums are added once a leaf is there.
    fn merges_after(&self, k: usize) -> usize {
        merges_after(self.node, self.with_samples, self.leaves[k])
    }

    /// Whether these are all leaves below the node.
    fn is_all(&self, leaves: Range<usize>) -> bool {
        leaves == (0..self.count)
    }

    /// What becomes of each leaf.
    fn turns(&self, leaves: Range<usize>, addition: Addition) -> Vec<Turn> {
        let turn = |k: usize| {
            let merges = self.merges_after(k);
            match addition {
                Addition::Exact if self.is_right_of_pair(k) => Turn {
                    write: Write::Add,
                    merges: merges - 1,
                },
                Addition::Exact | Addition::Apart => Turn {
                    write: Write::Replace,
                    merges,
                },
            }
        };
        leaves.map(turn).collect()
    }

    /// The leaves have passed: their outcomes are added as their values are.
    fn add_outcomes(&mut self, leaves: Range<usize>, outcomes: &[Outcome]) {
        for (k, outcome) in leaves.zip(outcomes) {
            self.next += 1;
            self.outcomes.push(*outcome);
            for _ in 0..self.merges_after(k) {
                let right = self.outcomes.pop().expect("a right sibling");
                let left = self.outcomes.last_mut().expect("a left sibling");
                left.samples += right.samples;
                left.weight += right.weight;
                left.loss_sum += right.loss_sum;
            }
        }
    }

    /// Whether leaf `k` is added to the one before it and nothing else.
    fn is_right_of_pair(&self, k: usize) -> bool {
        let Some(left) = k.checked_sub(1) else {
            return false;
        };
        let parent = |k: usize| Node::leaf(self.leaves[k]).parent();
        Node::leaf(self.leaves[k]) != self.node && parent(left) == parent(k)
    }

    /// A group of which leaves are audited: one leaf after the other, each whole.
    fn in_turn(&mut self, group: &Group<'_>, make: &mut dyn FnMut(Piece<'_>)) {
        for (k, outcome) in group.outcomes.iter().enumerate() {
            let gradient = self.gradient(group.first + k);
            for (part, range) in group.parts.iter().enumerate() {
                make(Piece {
                    k,
                    part,
                    values: &mut gradient[range.clone()],
                    write: Write::Replace,
                });
            }
            self.done(group.first + k, *outcome);
        }
    }
}

impl Sink for Stack<'_, '_> {
    fn gradient(&mut self, k: usize) -> &mut [f32] {
        assert_eq!(k, self.next, "gradients come in ascending order");
        let place = self.outcomes.len();
        self.places().place(place)
    }

    fn done(&mut self, k: usize, outcome: Outcome) {
        assert_eq!(k, self.next, "gradients come in ascending order");
        self.finite = None;
        if self.drawn.contains(self.leaves[k]) {
            let place = self.outcomes.len().checked_sub(1);
            let gradient = place.map_or(&*self.out, |place| self.waiting[place].as_slice());
            self.audited
                .push((self.leaves[k], self.hasher.digest(gradient)));
        }
        let (depth, merges) = (self.outcomes.len() + 1, self.merges_after(k));
        let all = Spot::same(0..self.out.len());
        self.places().merge(depth, merges, &all);
        self.add_outcomes(k..k + 1, &[outcome]);
    }

    fn in_parts(&mut self, group: &Group<'_>, make: &mut dyn FnMut(Piece<'_>)) {
        assert_eq!(group.first, self.next, "gradients come in ascending order");
        let leaves = group.first..group.first + group.outcomes.len();
        if leaves.clone().any(|k| self.drawn.contains(self.leaves[k])) {
            return self.in_turn(group, make);
        }
        let turns = self.turns(leaves.clone(), group.addition);
        let base = self.outcomes.len();
        self.add_outcomes(leaves.clone(), group.outcomes);
        let spot = match (base, self.outcomes.len()) {
            (0, 1) => Spot::near,
            _ => Spot::same,
        };
        let mut early = match self.is_all(leaves) && is_in_order(group.parts) {
            true => self.early.take(),
            false => None,
        };
        let wanted = early.as_mut();
        self.taken = wanted.is_some_and(|early| early.begin(self.outcomes[0], group.parts));
        early = early.filter(|_| self.taken);
        let mut finite = Some(true);
        for (part, range) in group.parts.iter().enumerate() {
            let mut spot = spot(range.clone());
            let mut places = self.places();
            if let Some(early) = &mut early {
                places.out = early.part(range.len());
                spot.out = 0..range.len();
            }
            let depth = places.add_up(&turns, base, (part, &spot), make);
            finite = match depth {
                1 => finite.map(|finite| finite && all_finite(&places.out[spot.out])),
                _ => None,
            };
            if let Some(early) = &mut early {
                early.made();
            }
        }
        self.finite = finite;
    }
}

/// Whether the parts follow one another as the flat vector does.
fn is_in_order(parts: &[Range<usize>]) -> bool {
    parts.is_sorted_by(|one, next| one.end == next.start)
}
