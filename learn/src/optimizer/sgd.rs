//! Plain gradient descent: `w -= lr * g`.

use super::{Optimizer, Real, Update};

/// Stochastic gradient descent without state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sgd;

impl<T: Real> Optimizer<T> for Sgd {
    fn moments(&self) -> &'static [&'static str] {
        &[]
    }

    fn apply(&self, update: Update<'_, T>) {
        let Update {
            learning_rate,
            scale,
            range,
            ..
        } = update;
        let weights = &update.weights[range.clone()];
        let gradient = &update.gradient[range.clone()];
        let next = &mut update.next[range];
        for ((n, w), g) in next.iter_mut().zip(weights).zip(gradient) {
            *n = *w - learning_rate * (scale * *g);
        }
    }
}
