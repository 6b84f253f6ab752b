//! What happens to a sum of gradients before any rule sees it.

use std::ops::Range;

use super::Real;

/// Turns sums into gradients, elementwise: `g = sum / weight`, then `+ l2 * w`, then clipped to
/// `[-clip, clip]`. (The gradient of `l2 / 2 * |w|^2` is `l2 * w`.) Clipping by global norm follows
/// as a scale in the rule, since it needs all values first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Preparation {
    /// L2 coefficient; 0 for none.
    pub l2: f64,
    /// Largest magnitude of a single value; `None` for no clipping by value.
    pub clip_value: Option<f64>,
}

impl Preparation {
    /// Replaces the sums of `range` by gradients.
    pub fn apply<T: Real>(&self, weight: T, weights: &[T], sums: &mut [T], range: Range<usize>) {
        let sums = &mut sums[range.clone()];
        if self.l2 == 0.0 {
            divide(weight, sums);
        } else {
            let l2 = T::from_f64(self.l2);
            for (g, w) in sums.iter_mut().zip(&weights[range]) {
                *g = *g / weight + l2 * *w;
            }
        }
        if let Some(limit) = self.clip_value {
            clip(T::from_f64(-limit), T::from_f64(limit), sums);
        }
    }
}

/// `sum / weight`: a buffer's next value, and the first part of a gradient.
pub(crate) fn divide<T: Real>(weight: T, sums: &mut [T]) {
    for g in sums {
        *g = *g / weight;
    }
}

/// NaN and infinities pass through: a clipped infinity would hide that the gradient is broken.
fn clip<T: Real>(low: T, high: T, values: &mut [T]) {
    for v in values {
        if v.is_finite() && *v < low {
            *v = low;
        } else if v.is_finite() && *v > high {
            *v = high;
        }
    }
}
