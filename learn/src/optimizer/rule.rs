//! Everything that turns a summed gradient into new weights.

use std::ops::Range;

use super::{Optimizer, Preparation};
use crate::kernel::{SCHEDULE, WEIGHTS};
use crate::schedule::LearningRate;

/// The update rule of a run. Order: sum / weight, L2, clip by value, the scale of clipping by norm
/// (which all slices decide together), optimizer.
pub struct UpdateRule {
    /// From sums to gradients.
    pub preparation: Preparation,
    /// The rate of each step.
    pub rate: LearningRate,
    /// From gradients to weights.
    pub optimizer: Box<dyn Optimizer>,
}

impl UpdateRule {
    /// Names of the tensors that a slice's state is made of, the weights first.
    #[must_use]
    pub fn tensors(&self) -> Vec<&'static str> {
        let schedule = self.rate.is_adaptive().then_some(SCHEDULE);
        let moments = self.optimizer.moments().iter().copied();
        std::iter::once(WEIGHTS)
            .chain(moments)
            .chain(schedule)
            .collect()
    }

    /// Replaces the sums of `range` by gradients. For f32 alone, so that it is compiled here, where
    /// loops are optimised, and not in each crate that calls it.
    pub fn prepare(&self, weight: f32, weights: &[f32], sums: &mut [f32], range: Range<usize>) {
        self.preparation.apply(weight, weights, sums, range);
    }
}
