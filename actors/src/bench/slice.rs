//! The arithmetic of a real slice, so that `exchange` reports what a shard spends on a step.
//!
//! Momentum over one trained tensor. The sum includes what a vote needs (division, norms, the
//! search for values that are not finite), the apply includes a BLAKE3 digest of every block.

use std::sync::Arc;

use resilin_core::PartitionId;
use resilin_core::layout::{Entry, Layout, Role};
use resilin_core::tree::{Node, PartitionSet, Tree};
use resilin_learn::kernel::{SliceKernel, SlicePlan};
use resilin_learn::optimizer::{Momentum, Preparation, UpdateRule};
use resilin_learn::schedule::{Constant, LearningRate};

use super::exchange::{ExchangePlan, SliceWork};
use crate::link::PooledBuffer;

/// Values of a block, as a job has them unless it says otherwise.
const BLOCK: usize = 65_536;

/// A slice that takes one contribution from each partition.
pub struct MomentumSlice {
    kernel: SliceKernel,
    leaves: Vec<Node>,
    with_samples: PartitionSet,
}

impl MomentumSlice {
    /// A slice for the contributions of `plan`, with weights of zero.
    ///
    /// # Panics
    /// If the plan has no value or no contribution.
    #[must_use]
    pub fn new(plan: &ExchangePlan) -> Self {
        let entry = Entry {
            name: "weight".into(),
            shape: vec![plan.values],
            role: Role::Trained,
        };
        let layout = Layout::new(vec![entry], BLOCK);
        assert!(!layout.is_empty(), "a slice has at least one value");
        let partitions = u32::try_from(plan.contributions).expect("far fewer than 2^24");
        let rule = UpdateRule {
            preparation: Preparation::default(),
            rate: LearningRate::new(0.1, 0, Box::new(Constant)),
            optimizer: Box::new(Momentum { momentum: 0.9 }),
        };
        let slice = SlicePlan {
            blocks: 0..layout.blocks(),
            layout: Arc::new(layout),
            tree: Tree::new(partitions),
            rule: Arc::new(rule),
        };
        Self {
            kernel: SliceKernel::new(slice, vec![0.0; plan.values]),
            leaves: (0..partitions).map(PartitionId).map(Node::leaf).collect(),
            with_samples: (0..partitions).map(PartitionId).collect(),
        }
    }
}

impl SliceWork for MomentumSlice {
    fn sum(&mut self, contributions: &[PooledBuffer]) {
        let values = contributions.iter().map(|buffer| &**buffer);
        let nodes: Vec<(Node, &[f32])> = self.leaves.iter().copied().zip(values).collect();
        let step = self.kernel.version();
        let weight = contributions.len() as f64;
        self.kernel
            .combine(step, &nodes, &self.with_samples, weight);
    }

    fn apply(&mut self) {
        self.kernel.apply(self.kernel.version(), 1.0, 0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::BufferPool;

    #[test]
    fn a_step_is_the_mean_with_momentum() {
        let plan = ExchangePlan {
            values: BLOCK + 1,
            contributions: 3,
            rounds: 1,
        };
        let pool = BufferPool::new(0);
        let contributions: Vec<PooledBuffer> = [3.0, 6.0, 9.0]
            .into_iter()
            .map(|value| {
                let mut buffer = pool.take(plan.values);
                buffer.fill(value);
                buffer
            })
            .collect();
        let mut slice = MomentumSlice::new(&plan);
        let (mut weight, mut velocity) = (0.0f32, 0.0f32);
        for _ in 0..2 {
            slice.sum(&contributions);
            slice.apply();
            velocity = 0.9 * velocity + 6.0;
            weight -= 0.1 * velocity;
        }
        let version = slice.kernel.version();
        let weights = slice.kernel.weights(version).expect("the newest version");
        assert_eq!(version.0, 2);
        assert_eq!(**weights, vec![weight; plan.values]);
    }
}
