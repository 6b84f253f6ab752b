//! An update rule of one's own, in the four steps that the `step` comments number: signum, the
//! sign of a moving mean of gradients (Bernstein et al. 2018, "signSGD", section 5).

use std::process::ExitCode;

use resilin::optimizer::{Optimizer, Real, Update};
use resilin::{Key, Registry};

const BETA: Key = Key::bits(
    "beta",
    "",
    "What is kept of the mean gradient at each step.",
);

/// Step 1: what the rule is set by. Its state is elsewhere, so that it is saved and moved for it.
struct Signum {
    beta: f64,
}

impl<T: Real> Optimizer<T> for Signum {
    /// Step 2: the vectors that it keeps beside the weights, all 0 at first.
    fn moments(&self) -> &'static [&'static str] {
        &["mean"]
    }

    /// Step 3: what a gradient does to weights and vectors, value by value, so that it is the same
    /// for any number of shards.
    fn apply(&self, update: Update<'_, T>) {
        let (beta, one, zero) = (T::from_f64(self.beta), T::from_f64(1.0), T::from_f64(0.0));
        for i in update.range {
            let gradient = update.scale * update.gradient[i];
            let mean = beta * update.moments[0][i] + (one - beta) * gradient;
            update.moments[0][i] = mean;
            update.next[i] = match (mean > zero, mean < zero) {
                (true, _) => update.weights[i] - update.learning_rate,
                (_, true) => update.weights[i] + update.learning_rate,
                (false, false) => update.weights[i],
            };
        }
    }
}

/// Step 4: a name for the job file, with the keys that belong to it.
fn main() -> ExitCode {
    let registry = Registry::default().optimizer("signum", |section| {
        let beta = section.float(&BETA, Some(0.9), 0.0..=0.9999)?;
        Ok(Box::new(Signum { beta }))
    });
    resilin::main(registry)
}
