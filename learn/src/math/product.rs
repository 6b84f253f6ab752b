//! The matrix product: `matrixmultiply` through ndarray, whose bits are fully specified.
//!
//! The inner dimension is cut into blocks of [`INNER`]; within a block one chain of fused multiply-adds
//! from zero in ascending order; the block is then added to the result. `numerics::check` compares
//! it with a scalar reference at start-up, because processors without FMA would give other bits.

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

use super::Float;

/// Where the inner dimension is cut.
pub const INNER: usize = 256;

/// What happens to the values that are already at a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// They are overwritten and need not be initialised.
    Replace,
    /// The result is added to them.
    Add,
}

impl Write {
    /// What values that are there are multiplied by.
    fn keep<F: Float>(self) -> F {
        match self {
            Self::Replace => F::ZERO,
            Self::Add => F::ONE,
        }
    }
}

const WHOLE: &str = "a product has rows x columns values";

/// A row-major matrix over a slice; `.reversed_axes()` transposes it without a copy.
///
/// # Panics
/// If the slice does not have `rows * columns` values.
#[must_use]
pub fn view<F: Float>(values: &[F], rows: usize, columns: usize) -> ArrayView2<'_, F> {
    ArrayView2::from_shape((rows, columns), values).expect("a matrix has rows x columns values")
}

/// [`multiply`] whose kernel goes along the rows of `into`, not down its columns: the same bits, and
/// faster where the inner dimension is so short that writing to `into` counts.
///
/// # Panics
/// If the shapes do not fit.
pub fn multiply_along<F: Float>(
    left: ArrayView2<'_, F>,
    right: ArrayView2<'_, F>,
    into: &mut [F],
    write: Write,
) {
    let shape = (left.nrows(), right.ncols());
    let into = ArrayViewMut2::from_shape(shape, into).expect(WHOLE);
    let (left, right) = (right.reversed_axes(), left.reversed_axes());
    general_mat_mul(
        F::ONE,
        &left,
        &right,
        write.keep(),
        &mut into.reversed_axes(),
    );
}

/// Writes `left @ right`, row-major, to `into`.
///
/// # Panics
/// If the shapes do not fit.
pub fn multiply<F: Float>(
    left: ArrayView2<'_, F>,
    right: ArrayView2<'_, F>,
    into: &mut [F],
    write: Write,
) {
    let shape = (left.nrows(), right.ncols());
    let mut into = ArrayViewMut2::from_shape(shape, into).expect(WHOLE);
    general_mat_mul(F::ONE, &left, &right, write.keep(), &mut into);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_along_rows_has_the_same_bits() {
        let values = |count: usize, part: f32| -> Vec<f32> {
            let value = |i: usize| ((i * 37) % 101) as f32 * part - 1.0;
            (0..count).map(value).collect()
        };
        for (rows, inner, columns) in [(1, 1, 1), (17, 32, 50), (64, 300, 33), (5, 0, 3)] {
            let (left, right) = (values(inner * rows, 0.013), values(inner * columns, 0.017));
            let left = view(&left, inner, rows).reversed_axes();
            let right = view(&right, inner, columns);
            for write in [Write::Replace, Write::Add] {
                let mut found = values(rows * columns, 0.3);
                let mut expected = found.clone();
                multiply_along(left, right, &mut found, write);
                multiply(left, right, &mut expected, write);
                let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
                assert_eq!(
                    bits(&found),
                    bits(&expected),
                    "{rows} x {inner} x {columns}"
                );
            }
        }
    }
}
