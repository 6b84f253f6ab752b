//! Update rules: how a gradient changes weights. One small file each.
//!
//! Every rule is elementwise, written once for f32 (training) and f64 (checked against outside
//! references), and free of anything but + - * / and the exact square root, so its bits are the
//! same on every processor and for every cut of the parameters.

mod adagrad;
mod adam;
mod adamw;
mod gradient;
mod momentum;
mod nesterov;
mod rmsprop;
mod rule;
mod sgd;

use std::ops::{Add, Div, Mul, Range, Sub};

use resilin_core::Step;

pub use adagrad::Adagrad;
pub use adam::Adam;
pub use adamw::AdamW;
pub use gradient::Preparation;
pub(crate) use gradient::divide;
pub use momentum::Momentum;
pub use nesterov::Nesterov;
pub use rmsprop::RmsProp;
pub use rule::UpdateRule;
pub use sgd::Sgd;

/// A float that rules are written for.
pub trait Real:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Send
    + Sync
{
    /// The nearest value.
    fn from_f64(value: f64) -> Self;
    /// The correctly rounded square root.
    fn sqrt(self) -> Self;
    /// Neither NaN nor infinite.
    fn is_finite(self) -> bool;
    /// `1 / self` if that is no rounding: `self` and it are normal powers of two.
    fn exact_reciprocal(self) -> Option<Self>;
}

impl Real for f32 {
    fn from_f64(value: f64) -> Self {
        value as Self
    }

    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }

    fn is_finite(self) -> bool {
        Self::is_finite(self)
    }

    fn exact_reciprocal(self) -> Option<Self> {
        let power = |x: Self| x.is_normal() && x.to_bits() & 0x007f_ffff == 0;
        let reciprocal = 1.0 / self;
        (power(self) && power(reciprocal)).then_some(reciprocal)
    }
}

impl Real for f64 {
    fn from_f64(value: f64) -> Self {
        value
    }

    fn sqrt(self) -> Self {
        Self::sqrt(self)
    }

    fn is_finite(self) -> bool {
        Self::is_finite(self)
    }

    fn exact_reciprocal(self) -> Option<Self> {
        let power = |x: Self| x.is_normal() && x.to_bits() & 0x000f_ffff_ffff_ffff == 0;
        let reciprocal = 1.0 / self;
        (power(self) && power(reciprocal)).then_some(reciprocal)
    }
}

/// What one update reads and writes. All vectors are parallel; only the values of `range` are
/// touched.
pub struct Update<'a, T> {
    /// The step whose gradient is applied.
    pub step: Step,
    /// Learning rate of the step.
    pub learning_rate: T,
    /// Factor on the gradient, from clipping by global norm; 1 without.
    pub scale: T,
    /// The values to update.
    pub range: Range<usize>,
    /// Weights of `step`.
    pub weights: &'a [T],
    /// The prepared gradient, before `scale`.
    pub gradient: &'a [T],
    /// Weights of the next step, to be written.
    pub next: &'a mut [T],
    /// The rule's own vectors, in the order of its `moments`, updated in place.
    pub moments: &'a mut [Vec<T>],
}

/// An update rule.
pub trait Optimizer<T = f32>: Send + Sync {
    /// Names of the vectors the rule keeps beside the weights, as in checkpoints; all start at 0.
    fn moments(&self) -> &'static [&'static str];

    /// The learning rate where the job file has none.
    fn usual_rate(&self) -> f64 {
        0.1
    }

    /// Applies the gradient of one step to the values of `update.range`. Elementwise: the same
    /// values for any cut into ranges. The state is the moments and the step number alone, so a
    /// skipped step counts for what depends on its number.
    fn apply(&self, update: Update<'_, T>);
}
