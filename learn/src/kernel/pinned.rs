//! A version of a slice that stays as it is while training goes on: what a checkpoint writes.

use std::ops::Range;
use std::sync::Arc;

use resilin_core::Step;

use super::slice::WEIGHTS;

/// Weights and moments of one version. Owned, so that a writer's thread can have it; its buffers
/// are reused by the next pin.
#[derive(Default)]
pub struct PinnedSlice {
    version: Step,
    values: Range<usize>,
    weights: Option<Arc<Vec<f32>>>,
    names: &'static [&'static str],
    moments: Vec<Vec<f32>>,
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

    /// The tensors by name: `weights`, then the optimizer's moments.
    pub fn tensors(&self) -> impl Iterator<Item = (&'static str, &[f32])> {
        let weights = self.weights.iter().map(|w| (WEIGHTS, w.as_slice()));
        let names = self.names.iter().copied();
        weights.chain(names.zip(self.moments.iter().map(Vec::as_slice)))
    }

    /// Lets go of the weights, so that the slice can write into their buffer again.
    pub fn release(&mut self) {
        self.weights = None;
        self.moments.iter_mut().for_each(Vec::clear);
    }
}
