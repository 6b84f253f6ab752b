//! RMSProp (Tieleman and Hinton 2012): `v = decay v + (1 - decay) g g;
//! w -= lr * g / (sqrt(v) + epsilon)`.
//!
//! Implementations differ in where `v` starts: at 0 in PyTorch, at 1 in HIPS/autograd and
//! TensorFlow. State starts at 0 here; what remains of another start after t steps,
//! `start * decay^t`, is added to it where it is used.

use super::{Optimizer, Real, Update};

/// Gradient descent with the gradient over its usual size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RmsProp {
    /// Decay of the mean of squared gradients.
    pub decay: f64,
    /// Added to the root, against division by zero.
    pub epsilon: f64,
    /// The mean of squared gradients before the first step.
    pub start: f64,
}

impl<T: Real> Optimizer<T> for RmsProp {
    fn moments(&self) -> &'static [&'static str] {
        &["rmsprop.average"]
    }

    fn usual_rate(&self) -> f64 {
        0.001
    }

    fn apply(&self, update: Update<'_, T>) {
        let Update {
            learning_rate,
            scale,
            range,
            ..
        } = update;
        let count = update.step.next().0 as f64;
        let rest = T::from_f64(self.start * libm::pow(self.decay, count));
        let (keep, take) = (T::from_f64(self.decay), T::from_f64(1.0 - self.decay));
        let epsilon = T::from_f64(self.epsilon);
        let weights = &update.weights[range.clone()];
        let gradient = &update.gradient[range.clone()];
        let averages = &mut update.moments[0][range.clone()];
        let next = &mut update.next[range];
        for (((n, w), g), v) in next.iter_mut().zip(weights).zip(gradient).zip(averages) {
            let g = scale * *g;
            *v = keep * *v + take * (g * g);
            *n = *w - learning_rate * (g / ((*v + rest).sqrt() + epsilon));
        }
    }
}
