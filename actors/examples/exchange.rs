//! Prints what the data path carries on this machine: `cargo run --release --example exchange`.

use resilin_actors::bench::exchange::{ExchangeError, ExchangePlan, SliceWork, measure};
use resilin_actors::link::PooledBuffer;

/// Plain sum and gradient descent.
#[derive(Default)]
struct Descent {
    weights: Vec<f32>,
    sum: Vec<f32>,
}

impl SliceWork for Descent {
    fn sum(&mut self, contributions: &[PooledBuffer]) {
        let Some((first, rest)) = contributions.split_first() else {
            return;
        };
        self.sum.resize(first.len(), 0.0);
        self.weights.resize(first.len(), 0.0);
        self.sum.copy_from_slice(first);
        for contribution in rest {
            for (sum, value) in self.sum.iter_mut().zip(contribution.iter()) {
                *sum += value;
            }
        }
    }

    fn apply(&mut self) {
        for (weight, gradient) in self.weights.iter_mut().zip(&self.sum) {
            *weight -= 0.1 * gradient;
        }
    }
}

fn main() -> Result<(), ExchangeError> {
    let report = measure(ExchangePlan::default(), Descent::default())?;
    println!("{report:#?}");
    Ok(())
}
