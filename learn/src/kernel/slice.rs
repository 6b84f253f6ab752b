//! The arithmetic of one slice: sums arrive, weights of the next step leave.
//!
//! `combine` makes the gradient of the open step and what a vote needs; `apply` or `skip` makes the
//! next version. Each pass works in tiles, so that values are summed, measured and updated while
//! they are in the first-level cache. Two versions of the weights live; moments are updated in place.

use std::ops::Range;
use std::sync::Arc;

use resilin_core::Step;
use resilin_core::layout::{Layout, Role};
use resilin_core::tree::{Node, PartitionSet};

use super::digest::{BlockHasher, Digest};
use super::pinned::PinnedSlice;
use super::plan::{SCHEDULE, SlicePlan, WEIGHTS, extent};
use super::sum::{Squares, TreeSum, all_finite};
use super::versions::Versions;
use crate::optimizer::{Update, divide};
use crate::schedule::{MEMORY, Memory};

/// Values worked on at a time: a tile of each vector of a pass fits the first-level cache. A
/// multiple of 16, as [`Squares`] needs.
const TILE: usize = 2048;

/// What a slice tells the others of its part of a step's gradient: the numbers in a vote.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockStats {
    /// Each block's sum of squares of the trained values' gradient: after division by the weight,
    /// L2 and clipping by value, before clipping by norm.
    pub squares: Vec<f64>,
    /// Blocks with a NaN or an infinity, counted over the whole layout.
    pub non_finite: Vec<u32>,
}

/// A version that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AppliedStep {
    /// The version's number: the step that was applied, and one.
    pub version: Step,
    /// BLAKE3 of each block of its weights.
    pub digests: Vec<Digest>,
    /// Whether all its weights and moments are finite. If not, the version must not be published
    /// and the run ends: the moments of the step before are gone (PROTOCOL 11).
    pub finite: bool,
}

/// One slice's tensors and the arithmetic on them.
pub struct SliceKernel {
    plan: SlicePlan,
    /// Runs of one role within one block, per block, as ranges of the slice.
    blocks: Vec<Vec<(Role, Range<usize>)>>,
    versions: Versions,
    moments: Vec<Vec<f32>>,
    /// What the schedule remembers of the steps before the newest version.
    memory: Memory,
    /// The open step's gradient (for buffers: their next values).
    gradient: Vec<f32>,
    /// The step that `gradient` belongs to.
    combined: Option<Step>,
    digests: Vec<Digest>,
    sum: TreeSum,
    hasher: BlockHasher,
}

impl SliceKernel {
    /// A slice at step 0 with these weights (of the slice only) and zero moments.
    #[must_use]
    pub fn new(plan: SlicePlan, weights: Vec<f32>) -> Self {
        let names = plan.rule.optimizer.moments();
        let moments = names.iter().map(|_| vec![0.0; weights.len()]).collect();
        Self::at(plan, Step(0), weights, moments, Memory::default())
    }

    /// A slice as it was at `step`: `read` fills a tensor of [`SlicePlan::tensors`] with the values of
    /// a range of the whole tensor ([`extent`]), wherever those were stored.
    ///
    /// # Errors
    /// What `read` says.
    pub fn restore<E>(
        plan: SlicePlan,
        step: Step,
        mut read: impl FnMut(&str, Range<usize>, &mut [f32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let mut tensor = |name: &str| {
            let range = extent(name, &plan.layout, plan.blocks.clone());
            let mut values = vec![0.0; range.len()];
            read(name, range, &mut values).map(|()| values)
        };
        let weights = tensor(WEIGHTS)?;
        let names = plan.rule.optimizer.moments();
        let moments = names
            .iter()
            .map(|name| tensor(name))
            .collect::<Result<_, E>>()?;
        let mut memory = Memory::default();
        if plan.rule.rate.is_adaptive() {
            memory.copy_from_slice(&tensor(SCHEDULE)?[..MEMORY]);
        }
        Ok(Self::at(plan, step, weights, moments, memory))
    }

    fn at(
        plan: SlicePlan,
        step: Step,
        weights: Vec<f32>,
        moments: Vec<Vec<f32>>,
        memory: Memory,
    ) -> Self {
        let values = plan.values();
        assert_eq!(weights.len(), values.len(), "weights of another slice");
        let blocks: Vec<_> = plan
            .blocks
            .clone()
            .map(|b| runs(&plan.layout, b, values.start))
            .collect();
        let mut hasher = BlockHasher::default();
        let digests = blocks
            .iter()
            .map(|runs| hasher.digest(&weights[span(runs)]))
            .collect();
        Self {
            blocks,
            gradient: vec![0.0; weights.len()],
            versions: Versions::new(step, weights),
            moments,
            memory,
            combined: None,
            digests,
            sum: TreeSum::default(),
            hasher,
            plan,
        }
    }

    /// What the slice is.
    #[must_use]
    pub fn plan(&self) -> &SlicePlan {
        &self.plan
    }

    /// The newest version.
    #[must_use]
    pub fn version(&self) -> Step {
        self.versions.step()
    }

    /// The weights of the newest version or of the one before; `None` for others. A clone of the
    /// `Arc` keeps them for as long as it lives, at the cost of a buffer.
    #[must_use]
    pub fn weights(&self, version: Step) -> Option<&Arc<Vec<f32>>> {
        self.versions.get(version)
    }

    /// Digests of the newest version's blocks.
    #[must_use]
    pub fn digests(&self) -> &[Digest] {
        &self.digests
    }

    /// Sums the contributions to the open step over the tree and makes its gradient. `nodes` hold
    /// this slice's values of each contribution; `weight` is the tree sum of their weights. May be
    /// repeated.
    ///
    /// # Panics
    /// If the step is not the open one, or the nodes do not cover `with_samples` exactly once.
    pub fn combine(
        &mut self,
        step: Step,
        nodes: &[(Node, &[f32])],
        with_samples: &PartitionSet,
        weight: f64,
    ) -> BlockStats {
        assert_eq!(step, self.version(), "only the open step is combined");
        let lengths = nodes
            .iter()
            .all(|(_, values)| values.len() == self.gradient.len());
        assert!(lengths, "contributions have the length of the slice");
        self.sum.plan(self.plan.tree.root(), with_samples, nodes);
        let mut stats = BlockStats {
            squares: Vec::with_capacity(self.blocks.len()),
            non_finite: Vec::new(),
        };
        for index in 0..self.blocks.len() {
            let (squares, finite) = self.combine_block(index, nodes, weight as f32);
            stats.squares.push(squares);
            if !finite {
                let block = self.plan.blocks.start + index;
                stats
                    .non_finite
                    .push(u32::try_from(block).expect("fewer than 2^32 blocks"));
            }
        }
        self.combined = Some(step);
        stats
    }

    /// The gradient that `combine` made of the open step: what another replica applies in the same
    /// way, after [`Self::load`].
    ///
    /// # Panics
    /// If the step was not combined.
    #[must_use]
    pub fn root(&self, step: Step) -> &[f32] {
        assert_eq!(self.combined, Some(step), "a root is of a combined step");
        &self.gradient
    }

    /// Takes the root of the open step from another replica in place of `combine`.
    ///
    /// # Panics
    /// If the step is not the open one, or the root is of another length.
    pub fn load(&mut self, step: Step, root: &[f32]) {
        assert_eq!(step, self.version(), "only the open step is loaded");
        self.gradient.copy_from_slice(root);
        self.combined = Some(step);
    }

    /// Sums a block and turns the sums into gradients; their sum of squares, and whether all are
    /// finite.
    fn combine_block(
        &mut self,
        index: usize,
        nodes: &[(Node, &[f32])],
        weight: f32,
    ) -> (f64, bool) {
        let weights = self.versions.newest();
        let mut total = 0.0;
        let mut finite = true;
        for (role, run) in &self.blocks[index] {
            let mut squares = Squares::default();
            for tile in tiles(run) {
                let gradient = &mut self.gradient;
                self.sum.run(nodes, tile.start, &mut gradient[tile.clone()]);
                match role {
                    Role::Trained => {
                        let rule = &self.plan.rule;
                        rule.prepare(weight, weights, gradient, tile.clone());
                        squares.add(&gradient[tile]);
                    }
                    Role::Buffer => {
                        divide(weight, &mut gradient[tile.clone()]);
                        finite &= all_finite(&gradient[tile]);
                    }
                }
            }
            total += squares.total();
        }
        (total, finite && total.is_finite())
    }

    /// Applies the combined gradient, times `scale` (from clipping by norm), and makes the next
    /// version. `loss` is the mean loss of the step's rows, which the rates of later steps may follow.
    ///
    /// # Panics
    /// If the step was not combined.
    pub fn apply(&mut self, step: Step, scale: f32, loss: f64) -> AppliedStep {
        assert_eq!(
            self.combined.take(),
            Some(step),
            "a step is combined before it is applied"
        );
        let Self {
            plan,
            blocks,
            versions,
            moments,
            memory,
            gradient,
            digests,
            hasher,
            ..
        } = self;
        let learning_rate = plan.rule.rate.lr(step, memory);
        plan.rule.rate.observe(step, loss, memory);
        let optimizer = &plan.rule.optimizer;
        let mut finite = true;
        versions.advance(|weights, next| {
            for (runs, digest) in blocks.iter().zip(digests.iter_mut()) {
                for (role, tile) in by_tile(runs) {
                    let range = tile.clone();
                    match role {
                        Role::Buffer => next[range.clone()].copy_from_slice(&gradient[range]),
                        Role::Trained => optimizer.apply(Update {
                            step,
                            learning_rate,
                            scale,
                            range,
                            weights,
                            gradient,
                            next,
                            moments,
                        }),
                    }
                    finite &= all_finite(&next[tile.clone()]);
                    finite &= moments.iter().all(|m| all_finite(&m[tile.clone()]));
                }
                *digest = hasher.digest(&next[span(runs)]);
            }
        });
        self.made(finite)
    }

    /// Makes the next version without a change: weights, moments and digests stay.
    ///
    /// # Panics
    /// If the step is not the open one.
    pub fn skip(&mut self, step: Step) -> AppliedStep {
        assert_eq!(step, self.version(), "only the open step is skipped");
        self.combined = None;
        self.versions.repeat();
        self.made(true)
    }

    fn made(&self, finite: bool) -> AppliedStep {
        AppliedStep {
            version: self.version(),
            digests: self.digests.clone(),
            finite,
        }
    }

    /// Copies the newest version into `pinned`, whose buffers are reused, to be written elsewhere
    /// while training goes on.
    pub fn pin(&self, pinned: &mut PinnedSlice) {
        pinned.fill(
            self.version(),
            self.plan.values(),
            Arc::clone(self.versions.newest()),
            self.plan.rule.optimizer.moments(),
            &self.moments,
        );
        if self.plan.rule.rate.is_adaptive() {
            pinned.remember(&self.memory, self.plan.blocks.len());
        }
    }
}

/// The runs of one role within a block, as ranges of a slice that begins at `origin`.
fn runs(layout: &Layout, block: usize, origin: usize) -> Vec<(Role, Range<usize>)> {
    let values = layout.values(block..block + 1);
    let mut runs: Vec<(Role, Range<usize>)> = Vec::new();
    for (entry, range) in layout.ranges() {
        let (start, end) = (range.start.max(values.start), range.end.min(values.end));
        if start >= end {
            continue;
        }
        match runs.last_mut() {
            Some((role, run)) if *role == entry.role => run.end = end - origin,
            Some(_) | None => runs.push((entry.role, start - origin..end - origin)),
        }
    }
    runs
}

/// A run cut into tiles.
fn tiles(run: &Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = run.end;
    run.clone()
        .step_by(TILE)
        .map(move |start| start..end.min(start + TILE))
}

/// The runs of a block, tile by tile.
fn by_tile(runs: &[(Role, Range<usize>)]) -> impl Iterator<Item = (Role, Range<usize>)> {
    runs.iter()
        .flat_map(|(role, run)| tiles(run).map(|tile| (*role, tile)))
}

fn span(runs: &[(Role, Range<usize>)]) -> Range<usize> {
    let (first, last) = (&runs[0].1, &runs[runs.len() - 1].1);
    first.start..last.end
}
