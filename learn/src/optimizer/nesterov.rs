//! Nesterov's momentum in the form of Sutskever et al. (2013) that PyTorch uses:
//! `v = mu * v + g; w -= lr * (g + mu * v)`.

use super::{Optimizer, Real, Update};

/// Gradient descent with Nesterov's momentum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nesterov {
    /// What is kept of the velocity at a step, 0 to below 1.
    pub momentum: f64,
}

impl<T: Real> Optimizer<T> for Nesterov {
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
            let g = scale * *g;
            *v = mu * *v + g;
            *n = *w - learning_rate * (g + mu * *v);
        }
    }
}
