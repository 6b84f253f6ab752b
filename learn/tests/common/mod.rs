//! Rows and sinks that the tests share.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test binary uses its own part"
)]

use resilin_core::layout::Entry;
use resilin_core::random::{Key, Purpose};
use resilin_core::{PartitionId, Step};
use resilin_learn::dataset::{Batch, TargetKind, Targets};
use resilin_learn::model::{Microbatch, Model, Outcome, Sink};

/// Keeps every gradient and outcome.
#[derive(Default)]
pub struct Kept {
    pub gradients: Vec<Vec<f32>>,
    pub outcomes: Vec<Outcome>,
    parameters: usize,
}

impl Kept {
    pub fn new(parameters: usize) -> Self {
        Self {
            parameters,
            ..Self::default()
        }
    }
}

impl Sink for Kept {
    fn gradient(&mut self, k: usize) -> &mut [f32] {
        assert_eq!(k, self.gradients.len(), "ascending, each once");
        // Not zero: the model must write every value.
        self.gradients.push(vec![f32::NAN; self.parameters]);
        &mut self.gradients[k]
    }

    fn done(&mut self, k: usize, outcome: Outcome) {
        assert_eq!(k, self.outcomes.len(), "ascending, each once");
        self.outcomes.push(outcome);
    }
}

pub fn parameters(model: &dyn Model) -> usize {
    model.entries().iter().map(Entry::len).sum()
}

/// Normal features with targets of the kind, from a stream of its own.
pub fn batch(rows: usize, width: usize, targets: TargetKind, seed: u64) -> Batch {
    let mut stream = Key::new(seed, Purpose::Synthetic).stream();
    let features = (0..rows * width).map(|_| stream.normal() as f32).collect();
    let targets = match targets {
        TargetKind::Classes(count) => {
            Targets::Classes((0..rows).map(|_| stream.below(count)).collect())
        }
        TargetKind::Values(count) => Targets::Values {
            width: count as usize,
            values: (0..rows * count as usize)
                .map(|_| stream.normal() as f32)
                .collect(),
        },
    };
    Batch {
        rows,
        width,
        features,
        targets,
    }
}

pub fn microbatch(batch: &Batch, step: u64, partition: u32) -> Microbatch<'_> {
    Microbatch {
        seed: 11,
        step: Step(step),
        partition: PartitionId(partition),
        batch,
    }
}

pub fn evaluate(model: &dyn Model, weights: &[f32], microbatches: &[Microbatch<'_>]) -> Kept {
    let mut kept = Kept::new(weights.len());
    model
        .evaluate(weights, microbatches, &mut model.workspace(), &mut kept)
        .expect("rows fit the model");
    kept
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}
