//! exp, tanh and sigmoid as mul/add polynomials: at most 2 ulp in f32, 1e-15 relative in f64.
//!
//! x = n ln 2 + r with |r| <= ln(2)/2; e^r by its series; 2^n by exponent bits, in two factors so
//! that subnormal results round once. No branch depends on a value: the loops over slices vectorise
//! for whatever the compiler targets, with the same bits.

use super::Float;

/// e^x. NaN gives the one canonical NaN.
#[must_use]
#[inline]
pub fn exp<F: Float>(x: F) -> F {
    let Reduced { fraction, powers } = reduce(limit(x, F::EXP_LOWEST, F::EXP_HIGHEST));
    canonical((F::ONE + fraction) * powers.0 * powers.1)
}

/// Hyperbolic tangent, as t = z / (z + 2) with z = e^(2|x|) - 1: no cancellation near 0. There the
/// equal z/2 - t z/2 is taken instead, whose first term carries no error of the quotient.
#[must_use]
#[inline]
pub fn tanh<F: Float>(x: F) -> F {
    let twice = limit(x.magnitude() * F::TWO, F::ZERO, F::TANH_HIGHEST);
    let Reduced { fraction, powers } = reduce(twice);
    let power = powers.0 * powers.1;
    let z = power * fraction + (power - F::ONE);
    let quotient = z / (z + F::TWO);
    let half = z * F::HALF;
    let near_zero = half - half * quotient;
    let value = if z < F::ONE { near_zero } else { quotient };
    canonical(value.with_sign_of(x))
}

/// 1 / (1 + e^-x), from e^-|x| so that neither end overflows.
#[must_use]
#[inline]
pub fn sigmoid<F: Float>(x: F) -> F {
    let small = exp(-x.magnitude());
    let large = F::ONE / (F::ONE + small);
    let value = if x < F::ZERO {
        small - small * (small * large)
    } else {
        large
    };
    canonical(value)
}

/// Replaces each value by its exponential.
pub fn exp_each<F: Float>(values: &mut [F]) {
    for value in values {
        *value = exp(*value);
    }
}

/// Replaces each value by its hyperbolic tangent.
pub fn tanh_each<F: Float>(values: &mut [F]) {
    for value in values {
        *value = tanh(*value);
    }
}

/// Replaces each value by its sigmoid.
pub fn sigmoid_each<F: Float>(values: &mut [F]) {
    for value in values {
        *value = sigmoid(*value);
    }
}

/// x = n ln 2 + r.
struct Reduced<F> {
    /// e^r - 1.
    fraction: F,
    /// Two factors of 2^n.
    powers: (F, F),
}

#[inline]
fn reduce<F: Float>(x: F) -> Reduced<F> {
    let shifted = x * F::LOG2_E + F::ROUNDER;
    let n = shifted - F::ROUNDER;
    let (high, low) = (x - n * F::LN_2_HIGH, n * F::LN_2_LOW);
    let r = high - low;
    let series = F::EXP_TERMS
        .iter()
        .rev()
        .fold(F::ZERO, |sum, term| sum * r + *term);
    Reduced {
        // `high` is exact: `r` is only rounded where it matters less.
        fraction: high + (r * r * series - low),
        powers: F::powers_of_two(shifted),
    }
}

/// `x` held between two bounds; NaN stays NaN, which `clamp` of the library leaves open.
#[inline]
fn limit<F: Float>(x: F, lowest: F, highest: F) -> F {
    let x = if x < lowest { lowest } else { x };
    if x > highest { highest } else { x }
}

/// Processors differ in the sign and payload of the NaNs they make.
#[inline]
#[expect(clippy::eq_op, reason = "the generic test for NaN")]
fn canonical<F: Float>(x: F) -> F {
    if x == x { x } else { F::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distance of an f32 from the exact value, in units of the exact value's last place.
    fn ulps(found: f32, exact: f64) -> f64 {
        let nearest = exact as f32;
        if nearest.is_infinite() || found.is_infinite() {
            return if nearest == found { 0.0 } else { f64::INFINITY };
        }
        let exponent = libm::ilogb(exact).max(-126) - 23;
        libm::fabs(f64::from(found) - exact) / libm::exp2(f64::from(exponent))
    }

    /// The worst of every 509th bit pattern (509 is prime: all exponents and mantissa ends occur).
    fn worst(ours: impl Fn(f32) -> f32, exact: impl Fn(f64) -> f64) -> (f64, f32) {
        let mut worst = (0.0, 0.0);
        for bits in (0..=u32::MAX).step_by(509) {
            let x = f32::from_bits(bits);
            if x.is_nan() {
                continue;
            }
            let distance = ulps(ours(x), exact(f64::from(x)));
            if distance > worst.0 {
                worst = (distance, x);
            }
        }
        worst
    }

    fn exact_sigmoid(x: f64) -> f64 {
        if x < 0.0 {
            libm::exp(x) / (1.0 + libm::exp(x))
        } else {
            1.0 / (1.0 + libm::exp(-x))
        }
    }

    #[test]
    fn single_precision_is_within_two_ulps() {
        let found = [
            ("exp", worst(exp, libm::exp)),
            ("tanh", worst(tanh, libm::tanh)),
            ("sigmoid", worst(sigmoid, exact_sigmoid)),
        ];
        for (name, (ulps, at)) in found {
            assert!(ulps <= 2.0, "{name}({at}) is off by {ulps} ulp");
            assert!(
                ulps > 0.4,
                "{name}: {ulps} ulp, below what rounding alone gives"
            );
            println!("{name}: at most {ulps:.3} ulp, at {at}");
        }
    }

    #[test]
    fn double_precision_is_within_1e_15() {
        let steps = 200_000;
        for step in -steps..=steps {
            let unit = f64::from(step) / f64::from(steps);
            for x in [unit * 700.0, unit * 20.0, unit, unit * 1e-3, unit * 1e-8] {
                for (name, ours, exact) in [
                    ("exp", exp(x), libm::exp(x)),
                    ("tanh", tanh(x), libm::tanh(x)),
                    ("sigmoid", sigmoid(x), exact_sigmoid(x)),
                ] {
                    let error = libm::fabs(ours - exact);
                    assert!(
                        error <= 1e-15 * libm::fabs(exact),
                        "{name}({x}): {ours}, not {exact}"
                    );
                }
            }
        }
    }

    #[test]
    fn ends_of_the_range() {
        let infinity = f32::INFINITY;
        assert_eq!(
            [exp(-infinity), exp(-104.0), exp(-0.0), exp(infinity)],
            [0.0, 0.0, 1.0, infinity]
        );
        assert_eq!([exp(88.8f32), exp(89.0), exp(1e38)], [infinity; 3]);
        assert_eq!(
            [tanh(-infinity), tanh(infinity), tanh(1e-40)],
            [-1.0, 1.0, 1e-40]
        );
        assert_eq!(tanh(-0.0f32).to_bits(), (-0.0f32).to_bits());
        assert_eq!(
            [sigmoid(-infinity), sigmoid(0.0), sigmoid(infinity)],
            [0.0, 0.5, 1.0]
        );
        for nan in [f32::NAN, -f32::NAN, f32::from_bits(0x7F80_0001)] {
            assert_eq!(
                [exp(nan), tanh(nan), sigmoid(nan)].map(f32::to_bits),
                [f32::NAN.to_bits(); 3]
            );
        }
        assert_eq!(
            [exp(-746.0), exp(710.0), tanh(-1e300), sigmoid(-800.0)],
            [0.0, f64::INFINITY, -1.0, 0.0]
        );
    }

    #[test]
    fn slices_give_the_bits_of_single_values() {
        let values: Vec<f32> = (0..1003).map(|i| (i as f32 - 500.0) * 0.21).collect();
        for (each, one) in [
            (exp_each as fn(&mut [f32]), exp as fn(f32) -> f32),
            (tanh_each, tanh),
            (sigmoid_each, sigmoid),
        ] {
            let mut all = values.clone();
            each(&mut all);
            let single: Vec<f32> = values.iter().map(|x| one(*x)).collect();
            assert_eq!(all, single);
        }
    }
}
