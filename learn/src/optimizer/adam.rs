//! Adam (Kingma and Ba 2015) with bias correction:
//! `m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g g; w -= lr / (1 - b1^t) * m / (sqrt(v) /
//! sqrt(1 - b2^t) + epsilon)`, `t` = step + 1.
//!
//! The powers are `libm::pow` in f64: the standard library's differ between platforms.

use super::{Optimizer, Real, Update};

/// Adam.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// Decay of the mean of gradients.
    pub beta1: f64,
    /// Decay of the mean of their squares.
    pub beta2: f64,
    /// Added to the root, against division by zero.
    pub epsilon: f64,
}

impl<T: Real> Optimizer<T> for Adam {
    fn moments(&self) -> &'static [&'static str] {
        &["adam.m", "adam.v"]
    }

    fn usual_rate(&self) -> f64 {
        0.001
    }

    fn apply(&self, update: Update<'_, T>) {
        self.apply_to_share(T::from_f64(1.0), update);
    }
}

impl Adam {
    /// Adam's step from `share` of each weight.
    pub(super) fn apply_to_share<T: Real>(&self, share: T, update: Update<'_, T>) {
        let Update {
            learning_rate,
            scale,
            range,
            ..
        } = update;
        let count = update.step.next().0 as f64;
        let rate = learning_rate / T::from_f64(1.0 - libm::pow(self.beta1, count));
        let root = T::from_f64((1.0 - libm::pow(self.beta2, count)).sqrt());
        let (b1, b2) = (T::from_f64(self.beta1), T::from_f64(self.beta2));
        let (c1, c2) = (T::from_f64(1.0 - self.beta1), T::from_f64(1.0 - self.beta2));
        let epsilon = T::from_f64(self.epsilon);

        let weights = &update.weights[range.clone()];
        let gradient = &update.gradient[range.clone()];
        let next = &mut update.next[range.clone()];
        let [means, squares] = update.moments else {
            unreachable!("two moments are declared");
        };
        let moments = means[range.clone()].iter_mut().zip(&mut squares[range]);
        for (((n, w), g), (m, v)) in next.iter_mut().zip(weights).zip(gradient).zip(moments) {
            let g = scale * *g;
            *m = b1 * *m + c1 * g;
            *v = b2 * *v + c2 * (g * g);
            *n = share * *w - rate * (*m / (v.sqrt() / root + epsilon));
        }
    }
}
