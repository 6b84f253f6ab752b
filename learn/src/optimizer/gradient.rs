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
        divide(weight, sums);
        if self.l2 != 0.0 {
            let l2 = T::from_f64(self.l2);
            for (g, w) in sums.iter_mut().zip(&weights[range]) {
                *g = *g + l2 * *w;
            }
        }
        if let Some(limit) = self.clip_value {
            clip(T::from_f64(-limit), T::from_f64(limit), sums);
        }
    }
}

/// `sum / weight`: a buffer's next value, and the first part of a gradient.
pub(crate) fn divide<T: Real>(weight: T, sums: &mut [T]) {
    if let Some(reciprocal) = weight.exact_reciprocal() {
        // The same real number, rounded once: the same bits, several times as fast.
        for g in sums {
            *g = *g * reciprocal;
        }
    } else {
        for g in sums {
            *g = *g / weight;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Values whose quotients are normal, subnormal, halfway between two, zero, or no number.
    const SUMS: [u32; 12] = [
        0x0000_0000,
        0x8000_0000,
        0x0000_0001,
        0x8000_0003,
        0x007f_ffff,
        0x0080_0001,
        0x0101_0101,
        0x3f80_0001,
        0xc49a_5225,
        0x7f7f_ffff,
        0xff80_0000,
        0x7fc0_0000,
    ];

    #[test]
    fn a_division_by_a_power_of_two_has_the_bits_of_a_division() {
        let weights = (0..255u32).map(|exponent| f32::from_bits(exponent << 23));
        let odd = [3.0, 0.1, 513.0, 1e-42, f32::MAX, f32::INFINITY, f32::NAN];
        let mut exact = 0;
        for weight in weights.chain(odd) {
            let mut sums = SUMS.map(f32::from_bits);
            let expected = sums.map(|sum| sum / weight);
            divide(weight, &mut sums);
            for (sum, (found, expected)) in SUMS.iter().zip(sums.iter().zip(expected)) {
                let same = found.to_bits() == expected.to_bits();
                let none = found.is_nan() && expected.is_nan();
                assert!(
                    same || none,
                    "{sum:08x} / {weight:e}: {found:e}, not {expected:e}"
                );
            }
            exact += usize::from(weight.exact_reciprocal().is_some());
        }
        assert_eq!(exact, 253, "every power of two whose reciprocal is one");
    }
}
