//! A version of a slice that stays as it is while training goes on: what a checkpoint writes.

use std::ops::Range;
use std::sync::Arc;

use resilin_core::Step;

use super::plan::{SCHEDULE, WEIGHTS};
use crate::schedule::Memory;

/// Weights and moments of one version. Owned, so that a writer's thread can have it; its buffers
/// are reused by the next pin.
#[derive(Default)]
pub struct PinnedSlice {
    version: Step,
    values: Range<usize>,
    weights: Option<Arc<Vec<f32>>>,
    names: &'static [&'static str],
    moments: Vec<Vec<f32>>,
    /// What the schedule remembers, once for each block; empty where it remembers nothing.
    memory: Vec<f32>,
}

impl PinnedSlice {
    pub(super) fn fill(
        &mut self,
        version: Step,
        values: Range<usize>,
        weights: Arc<Vec<f32>>,
        names: &'static [&'static str],
        moments: &[Vec<f32>],
    ) {
        self.version = version;
        self.values = values;
        self.weights = Some(weights);
        self.names = names;
        self.moments.resize_with(moments.len(), Vec::new);
        for (copy, moment) in self.moments.iter_mut().zip(moments) {
            copy.clear();
            copy.extend_from_slice(moment);
        }
        self.memory.clear();
    }

    pub(super) fn remember(&mut self, memory: &Memory, blocks: usize) {
        self.memory.extend((0..blocks).flat_map(|_| memory));
    }

    /// The version that is held.
    #[must_use]
    pub fn version(&self) -> Step {
        self.version
    }

    /// The slice's values within the flat vector.
    #[must_use]
    pub fn values(&self) -> Range<usize> {
        self.values.clone()
    }

    /// The tensors by name, as [`SlicePlan::tensors`](super::SlicePlan::tensors) orders them.
    pub fn tensors(&self) -> impl Iterator<Item = (&'static str, &[f32])> {
        let weights = self.weights.iter().map(|w| (WEIGHTS, w.as_slice()));
        let names = self.names.iter().copied();
        let memory = (!self.memory.is_empty()).then_some((SCHEDULE, self.memory.as_slice()));
        let moments = self.moments.iter().map(Vec::as_slice);
        weights.chain(names.zip(moments)).chain(memory)
    }

    /// Lets go of the weights, so that the slice can write into their buffer again.
    pub fn release(&mut self) {
        self.weights = None;
        self.moments.iter_mut().for_each(Vec::clear);
        self.memory.clear();
    }
}
