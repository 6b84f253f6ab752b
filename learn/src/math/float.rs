//! The two number types of the mathematics: f32 trains, f64 is checked against outside references.

use std::fmt::Debug;
use std::ops::{AddAssign, MulAssign, Neg, Range};

use ndarray::{ArrayView2, LinalgScalar};

use super::product::{self, Write};

/// f32 or f64, with the constants that the polynomials need.
pub trait Float:
    LinalgScalar
    + PartialOrd
    + Neg<Output = Self>
    + AddAssign
    + MulAssign
    + Debug
    + Default
    + Send
    + Sync
{
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;
    /// 1/2.
    const HALF: Self;
    /// 2.
    const TWO: Self;
    /// The quiet NaN that every function returns, whatever NaN it got.
    const NAN: Self;
    /// 1 / ln 2.
    const LOG2_E: Self;
    /// ln 2 with so few bits that its product with any exponent is exact.
    const LN_2_HIGH: Self;
    /// ln 2 less [`Self::LN_2_HIGH`].
    const LN_2_LOW: Self;
    /// 1.5 x 2^(mantissa bits): added to a small number it rounds that to an integer.
    const ROUNDER: Self;
    /// Below this the exponential is 0.
    const EXP_LOWEST: Self;
    /// Above this the exponential is infinite.
    const EXP_HIGHEST: Self;
    /// Above this the hyperbolic tangent is 1 (twice the argument, well beyond where it rounds so).
    const TANH_HIGHEST: Self;
    /// 1/2!, 1/3!, ...: e^r = 1 + r + r^2 (1/2! + r/3! + ...) to half a unit for |r| <= ln(2)/2.
    const EXP_TERMS: &'static [Self];

    /// 2^n as two factors that are both normal numbers, from `n + ROUNDER`.
    fn powers_of_two(shifted: Self) -> (Self, Self);
    /// The magnitude of `self`.
    fn magnitude(self) -> Self;
    /// `self` with the sign of `sign`.
    fn with_sign_of(self, sign: Self) -> Self;
    /// Natural logarithm, from the `libm` crate.
    fn ln(self) -> Self;
    /// The error function, from the `libm` crate.
    fn erf(self) -> Self;
    /// The correctly rounded square root.
    fn root(self) -> Self;
    /// Nearest value of this type.
    fn from_f64(value: f64) -> Self;
    /// The same value, exactly.
    fn from_f32(value: f32) -> Self;
    /// The same value, exactly.
    fn to_f64(self) -> f64;
    /// The bits, widened, for comparing and hashing.
    fn bits(self) -> u64;
    /// Writes some rows of a product with a kernel of this type's own, if there is one here for these operands.
    fn multiply_wide(
        _left: ArrayView2<'_, Self>,
        _rows: Range<usize>,
        _right: ArrayView2<'_, Self>,
        _into: &mut [Self],
        _write: Write,
    ) -> bool {
        false
    }
}

/// Implements what differs only in the names of the types.
macro_rules! common {
    ($float:ident, $bits:ident, $int:ident, $mantissa:literal, $bias:literal, $ln:path, $erf:path) => {
        const ZERO: Self = 0.0;
        const ONE: Self = 1.0;
        const HALF: Self = 0.5;
        const TWO: Self = 2.0;
        const NAN: Self = Self::NAN;
        const LOG2_E: Self = std::$float::consts::LOG2_E;

        fn powers_of_two(shifted: Self) -> (Self, Self) {
            let n = (shifted.to_bits() as $int).wrapping_sub(Self::ROUNDER.to_bits() as $int);
            let half = n >> 1;
            let power =
                |n: $int| Self::from_bits((n.wrapping_add($bias) as $bits).wrapping_shl($mantissa));
            (power(half), power(n.wrapping_sub(half)))
        }

        fn magnitude(self) -> Self {
            self.abs()
        }

        fn with_sign_of(self, sign: Self) -> Self {
            self.copysign(sign)
        }

        fn ln(self) -> Self {
            $ln(self)
        }

        fn erf(self) -> Self {
            $erf(self)
        }

        fn root(self) -> Self {
            self.sqrt()
        }

        fn from_f64(value: f64) -> Self {
            value as Self
        }

        fn from_f32(value: f32) -> Self {
            Self::from(value)
        }

        fn to_f64(self) -> f64 {
            f64::from(self)
        }

        fn bits(self) -> u64 {
            u64::from(self.to_bits())
        }
    };
}

impl Float for f32 {
    const LN_2_HIGH: Self = 355.0 / 512.0;
    const LN_2_LOW: Self = (std::f64::consts::LN_2 - 355.0 / 512.0) as Self;
    const ROUNDER: Self = 1.5 * (1 << 23) as Self;
    const EXP_LOWEST: Self = -104.0;
    const EXP_HIGHEST: Self = 89.0;
    const TANH_HIGHEST: Self = 20.0;
    const EXP_TERMS: &'static [Self] = &[
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5040.0,
    ];

    common!(f32, u32, i32, 23, 127, libm::logf, libm::erff);

    fn multiply_wide(
        left: ArrayView2<'_, Self>,
        rows: Range<usize>,
        right: ArrayView2<'_, Self>,
        into: &mut [Self],
        write: Write,
    ) -> bool {
        product::multiply_wide(left, rows, right, into, write)
    }
}

impl Float for f64 {
    // The upper half of ln 2's bits; the rest is ln 2 - LN_2_HIGH computed with more digits.
    const LN_2_HIGH: Self = Self::from_bits(0x3FE6_2E42_FEE0_0000);
    const LN_2_LOW: Self = 1.908_214_929_270_587_7e-10;
    const ROUNDER: Self = 1.5 * (1u64 << 52) as Self;
    const EXP_LOWEST: Self = -746.0;
    const EXP_HIGHEST: Self = 710.0;
    const TANH_HIGHEST: Self = 40.0;
    const EXP_TERMS: &'static [Self] = &[
        1.0 / 2.0,
        1.0 / 6.0,
        1.0 / 24.0,
        1.0 / 120.0,
        1.0 / 720.0,
        1.0 / 5_040.0,
        1.0 / 40_320.0,
        1.0 / 362_880.0,
        1.0 / 3_628_800.0,
        1.0 / 39_916_800.0,
        1.0 / 479_001_600.0,
        1.0 / 6_227_020_800.0,
    ];

    common!(f64, u64, i64, 52, 1023, libm::log, libm::erf);
}
