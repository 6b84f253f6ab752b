//! The one place that fixes the order in which floats are added: the tree over the partitions.
//!
//! A parent is left + right; a child without samples is absent, and the parent *is* the other
//! child, bit for bit (never + 0.0, so -0.0 survives). Additions are elementwise, so neither the
//! tiles used here nor the borders of slices can show in the bits.

use std::ops::Range;

use resilin_core::PartitionId;
use resilin_core::tree::{Node, PartitionSet};

/// Values summed at a time: the stack of partial sums stays in the first-level cache.
const TILE: usize = 1024;
/// Levels of the largest tree (2^24 partitions), and one.
const MAX_DEPTH: usize = 25;

/// One addition of the planned sum; `slot` is a place on the stack of partial sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// slot = a + b
    Pair { slot: usize, inputs: [usize; 2] },
    /// slot = (a + b) + (c + d), in one pass over the four
    Quad { slot: usize, inputs: [usize; 4] },
    /// slot = slot + input; the input may be the left one, since IEEE addition commutes (but for
    /// NaN payloads, which are made canonical)
    Add { slot: usize, input: usize },
    /// slot = slot + the slot above
    Merge { slot: usize },
}

/// Where the sum of a subtree is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Absent,
    Input(usize),
    Slot,
}

/// Sums of nodes over the tree, with memory that is kept from step to step.
#[derive(Default)]
pub struct TreeSum {
    /// Indices of the inputs, by first partition.
    order: Vec<usize>,
    ops: Vec<Op>,
    place: Option<Place>,
    /// Places on the stack that the plan uses.
    depth: usize,
    slots: Vec<[f32; TILE]>,
}

impl TreeSum {
    /// Plans the sum of everything below `top` from the nodes of `inputs`, in any order.
    ///
    /// # Panics
    /// Unless the nodes cover each partition `with_samples` below `top` exactly once and nothing
    /// else.
    pub fn plan<T>(&mut self, top: Node, with_samples: &PartitionSet, inputs: &[(Node, T)]) {
        let node = |i: usize| inputs[i].0;
        self.order.clear();
        self.order.extend(0..inputs.len());
        self.order.sort_unstable_by_key(|i| node(*i).first());
        self.ops.clear();
        self.depth = 0;
        let mut next = 0;
        let place = self.emit(top, 0, with_samples, &node, &mut next);
        assert_eq!(next, inputs.len(), "nodes overlap or lie outside of {top}");
        assert_ne!(place, Place::Absent, "nothing to sum below {top}");
        self.place = Some(place);
    }

    /// Values `from..from + out.len()` of the planned sum; `inputs` are those planned.
    pub fn run(&mut self, inputs: &[(Node, &[f32])], from: usize, out: &mut [f32]) {
        assert_eq!(inputs.len(), self.order.len(), "not the inputs planned");
        if self.slots.len() < self.depth {
            self.slots.resize(self.depth, [0.0; TILE]);
        }
        for (k, tile) in out.chunks_mut(TILE).enumerate() {
            let range = from + k * TILE..from + k * TILE + tile.len();
            let sum = match self.place.expect("a sum is planned before it is run") {
                Place::Absent => unreachable!("refused by plan"),
                Place::Input(i) => &inputs[i].1[range],
                Place::Slot => {
                    for op in &self.ops {
                        run_tile(*op, inputs, &range, &mut self.slots);
                    }
                    &self.slots[0][..tile.len()]
                }
            };
            for (o, s) in tile.iter_mut().zip(sum) {
                *o = canonical(*s);
            }
        }
    }

    /// Plans and runs the sum of whole vectors.
    ///
    /// # Panics
    /// As [`Self::plan`], and where an input is shorter than `out`.
    pub fn sum(
        &mut self,
        top: Node,
        with_samples: &PartitionSet,
        inputs: &[(Node, &[f32])],
        out: &mut [f32],
    ) {
        self.plan(top, with_samples, inputs);
        self.run(inputs, 0, out);
    }

    /// Plans and runs the same sum of scalars: losses and weights.
    ///
    /// # Panics
    /// As [`Self::plan`].
    pub fn sum_scalars(
        &mut self,
        top: Node,
        with_samples: &PartitionSet,
        inputs: &[(Node, f64)],
    ) -> f64 {
        self.plan(top, with_samples, inputs);
        let input = |i: usize| inputs[i].1;
        let mut slots = [0.0; MAX_DEPTH];
        for op in &self.ops {
            match *op {
                Op::Pair {
                    slot,
                    inputs: [a, b],
                } => slots[slot] = input(a) + input(b),
                Op::Quad {
                    slot,
                    inputs: [a, b, c, d],
                } => {
                    slots[slot] = (input(a) + input(b)) + (input(c) + input(d));
                }
                Op::Add { slot, input: i } => slots[slot] += input(i),
                Op::Merge { slot } => slots[slot] += slots[slot + 1],
            }
        }
        match self.place.expect("planned above") {
            Place::Input(i) => canonical_f64(input(i)),
            Place::Slot => canonical_f64(slots[0]),
            Place::Absent => unreachable!("refused by plan"),
        }
    }

    /// Appends the additions below `node`; their result goes to `slot` unless it is an input.
    fn emit(
        &mut self,
        node: Node,
        slot: usize,
        with_samples: &PartitionSet,
        given: &dyn Fn(usize) -> Node,
        next: &mut usize,
    ) -> Place {
        let input = self.order.get(*next).copied();
        if let Some(i) = input.filter(|i| given(*i) == node) {
            *next += 1;
            return Place::Input(i);
        }
        if !input.is_some_and(|i| node.covers(given(i))) {
            assert!(!filled(node, with_samples), "no sum given for {node}");
            return Place::Absent;
        }
        let (left, right) = node.children().expect("a leaf covers only itself");
        let left = self.emit(left, slot, with_samples, given, next);
        let above = slot + usize::from(left == Place::Slot);
        let right = self.emit(right, above, with_samples, given, next);
        self.join(slot, left, right)
    }

    fn join(&mut self, slot: usize, left: Place, right: Place) -> Place {
        let op = match (left, right) {
            (Place::Absent, other) | (other, Place::Absent) => return other,
            (Place::Input(a), Place::Input(b)) => Op::Pair {
                slot,
                inputs: [a, b],
            },
            (Place::Input(input), Place::Slot) | (Place::Slot, Place::Input(input)) => {
                Op::Add { slot, input }
            }
            (Place::Slot, Place::Slot) => self.merge(slot),
        };
        self.ops.push(op);
        self.depth = self.depth.max(slot + 1);
        Place::Slot
    }

    /// Two pairs just planned become one pass over four inputs: half the traffic of three.
    fn merge(&mut self, slot: usize) -> Op {
        let (
            Some(Op::Pair {
                slot: low,
                inputs: [a, b],
            }),
            Some(Op::Pair {
                slot: high,
                inputs: [c, d],
            }),
        ) = (
            self.ops.iter().rev().nth(1).copied(),
            self.ops.last().copied(),
        )
        else {
            return Op::Merge { slot };
        };
        if (low, high) != (slot, slot + 1) {
            return Op::Merge { slot };
        }
        self.ops.truncate(self.ops.len() - 2);
        Op::Quad {
            slot,
            inputs: [a, b, c, d],
        }
    }
}

fn run_tile(op: Op, inputs: &[(Node, &[f32])], range: &Range<usize>, slots: &mut [[f32; TILE]]) {
    let input = |i: usize| &inputs[i].1[range.clone()];
    match op {
        Op::Pair {
            slot,
            inputs: [a, b],
        } => {
            let pairs = input(a).iter().zip(input(b));
            for (o, (a, b)) in slots[slot].iter_mut().zip(pairs) {
                *o = a + b;
            }
        }
        Op::Quad {
            slot,
            inputs: [a, b, c, d],
        } => {
            let left = input(a).iter().zip(input(b));
            let right = input(c).iter().zip(input(d));
            for (o, ((a, b), (c, d))) in slots[slot].iter_mut().zip(left.zip(right)) {
                *o = (a + b) + (c + d);
            }
        }
        Op::Add { slot, input: i } => add(&mut slots[slot][..range.len()], input(i)),
        Op::Merge { slot } => {
            let (low, high) = slots.split_at_mut(slot + 1);
            add(&mut low[slot][..range.len()], &high[0][..range.len()]);
        }
    }
}

/// [`TreeSum::sum_scalars`] without kept memory.
#[must_use]
pub fn tree_sum_f64(top: Node, with_samples: &PartitionSet, inputs: &[(Node, f64)]) -> f64 {
    TreeSum::default().sum_scalars(top, with_samples, inputs)
}

/// Adds a sibling to the other, value by value.
pub(super) fn add(sum: &mut [f32], other: &[f32]) {
    assert_eq!(sum.len(), other.len());
    for (s, o) in sum.iter_mut().zip(other) {
        *s += o;
    }
}

/// Adds the newest of some sums to the one before it, that to the one before, and so on to `left`:
/// `left + (first + (second + ...))`. Only `left` is written. Its values are those from `start` on in
/// the sums.
pub(super) fn add_newest(left: &mut [f32], sums: &[Vec<f32>], start: usize) {
    let Some((newest, others)) = sums.split_last() else {
        return;
    };
    let (chunks, rest) = left.as_chunks_mut::<WIDE>();
    let rest_start = start + chunks.len() * WIDE;
    for (chunk, start) in chunks.iter_mut().zip((start..).step_by(WIDE)) {
        let mut sum: [f32; WIDE] = *wide(newest, start);
        for other in others.iter().rev() {
            let other = wide(other, start);
            sum = std::array::from_fn(|i| other[i] + sum[i]);
        }
        *chunk = std::array::from_fn(|i| chunk[i] + sum[i]);
    }
    for (value, at) in rest.iter_mut().zip(rest_start..) {
        let others = others.iter().rev().map(|other| other[at]);
        *value += others.fold(newest[at], |sum, other| other + sum);
    }
}

/// Values that [`add_newest`] holds in registers.
const WIDE: usize = 16;

fn wide(values: &[f32], start: usize) -> &[f32; WIDE] {
    values[start..].first_chunk().expect("sums of one length")
}

/// How often the two newest sums are added (left += right) once the sum of `leaf` is there, if
/// leaves arrive in partition order and each is pushed on a stack: the streaming form of the same
/// order. After the last leaf below `top` one sum is left, in the lowest place.
#[must_use]
pub fn merges_after(top: Node, with_samples: &PartitionSet, leaf: PartitionId) -> usize {
    let mut node = Node::leaf(leaf);
    let mut merges = 0;
    while node != top {
        let parent = node.parent();
        let (left, right) = parent.children().expect("a parent has children");
        if node == left && filled(right, with_samples) {
            return merges;
        }
        merges += usize::from(node == right && filled(left, with_samples));
        node = parent;
    }
    merges
}

/// Sum of squares in 16 lanes, added pairwise in a fixed order: exact order, and fast enough to
/// hide behind memory. f32 squares cannot overflow in f64, so the result is finite exactly if all
/// values are.
#[derive(Default)]
pub(super) struct Squares([f64; 16]);

impl Squares {
    /// Adds the squares of the next values. All calls but the last bring a multiple of 16 values,
    /// so that a value's lane does not depend on how they are cut.
    pub(super) fn add(&mut self, values: &[f32]) {
        let lanes = &mut self.0;
        let (chunks, rest) = values.as_chunks::<16>();
        for chunk in chunks {
            for (lane, v) in lanes.iter_mut().zip(chunk) {
                *lane += f64::from(*v) * f64::from(*v);
            }
        }
        for (lane, v) in lanes.iter_mut().zip(rest) {
            *lane += f64::from(*v) * f64::from(*v);
        }
    }

    /// The sum of all.
    #[must_use]
    pub(super) fn total(self) -> f64 {
        let mut lanes = self.0;
        let mut width = 8;
        while width > 0 {
            for i in 0..width {
                lanes[i] += lanes[i + width];
            }
            width /= 2;
        }
        canonical_f64(lanes[0])
    }
}

/// Whether all values are finite.
#[must_use]
pub(super) fn all_finite(values: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    // One more than the lowest bit of a full exponent carries into the sign.
    const CARRY: u32 = 0x0080_0000;
    let mut lanes = [0u32; 16];
    let (chunks, rest) = values.as_chunks::<16>();
    for chunk in chunks {
        for (lane, v) in lanes.iter_mut().zip(chunk) {
            *lane |= (v.to_bits() & EXPONENT) + CARRY;
        }
    }
    let carried = lanes.iter().fold(0, |all, lane| all | lane) >> 31;
    carried == 0 && rest.iter().all(|v| v.is_finite())
}

/// One bit pattern for every NaN: payloads differ between processors.
pub(super) fn canonical(value: f32) -> f32 {
    if value.is_nan() {
        f32::from_bits(0x7fc0_0000)
    } else {
        value
    }
}

fn canonical_f64(value: f64) -> f64 {
    if value.is_nan() {
        f64::from_bits(0x7ff8_0000_0000_0000)
    } else {
        value
    }
}

fn filled(node: Node, with_samples: &PartitionSet) -> bool {
    (node.first()..node.end()).any(|p| with_samples.contains(PartitionId(p)))
}
