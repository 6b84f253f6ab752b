//! Heavy-ball momentum (Polyak 1964) as PyTorch has it, without dampening:
//! `v = mu * v + g; w -= lr * v`.

use super::{Optimizer, Real, Update};

/// Gradient descent with momentum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Momentum {
    /// What is kept of the velocity at a step, 0 to below 1.
    pub momentum: f64,
}

impl<T: Real> Optimizer<T> for Momentum {
    fn moments(&self) -> &'static [&'static str] {
        &["momentum"]
    }

    fn apply(&self, update: Update<'_, T>) {
        let Update {
            learning_rate,
            scale,
            range,
            ..
        } = update;
        let mu = T::from_f64(self.momentum);
        let weights = &update.weights[range.clone()];
        let gradient = &update.gradient[range.clone()];
        let velocity = &mut update.moments[0][range.clone()];
        let next = &mut update.next[range];
        for (((n, w), g), v) in next.iter_mut().zip(weights).zip(gradient).zip(velocity) {
            *v = mu * *v + scale * *g;
            *n = *w - learning_rate * *v;
        }
    }
}
