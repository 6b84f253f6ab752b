//! Adagrad (Duchi et al. 2011): `s += g g; w -= lr * g / (sqrt(s) + epsilon)`.

use super::{Optimizer, Real, Update};

/// Gradient descent with a rate that falls where gradients were large.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adagrad {
    /// Added to the root, against division by zero.
    pub epsilon: f64,
}

impl<T: Real> Optimizer<T> for Adagrad {
    fn moments(&self) -> &'static [&'static str] {
        &["adagrad.sum"]
    }

    fn usual_rate(&self) -> f64 {
        0.01
    }

    fn apply(&self, update: Update<'_, T>) {
        let Update {
            learning_rate,
            scale,
            range,
            ..
        } = update;
        let epsilon = T::from_f64(self.epsilon);
        let weights = &update.weights[range.clone()];
        let gradient = &update.gradient[range.clone()];
        let sums = &mut update.moments[0][range.clone()];
        let next = &mut update.next[range];
        for (((n, w), g), s) in next.iter_mut().zip(weights).zip(gradient).zip(sums) {
            let g = scale * *g;
            *s = *s + g * g;
            *n = *w - learning_rate * (g / (s.sqrt() + epsilon));
        }
    }
}
