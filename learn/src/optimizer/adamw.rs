//! AdamW (Loshchilov and Hutter 2019): [`Adam`] whose weights decay beside the gradient:
//! `w = (1 - lr * decay) w`, then Adam's step. The decay follows the schedule of the rate.

use super::{Adam, Optimizer, Real, Update};

/// Adam with decoupled weight decay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamW {
    /// The step without decay.
    pub adam: Adam,
    /// Share of a weight, times the learning rate, that a step takes away.
    pub decay: f64,
}

impl<T: Real> Optimizer<T> for AdamW {
    fn moments(&self) -> &'static [&'static str] {
        <Adam as Optimizer<T>>::moments(&self.adam)
    }

    fn usual_rate(&self) -> f64 {
        <Adam as Optimizer<T>>::usual_rate(&self.adam)
    }

    fn apply(&self, update: Update<'_, T>) {
        let one = T::from_f64(1.0);
        let share = one - update.learning_rate * T::from_f64(self.decay);
        self.adam.apply_to_share(share, update);
    }
}
