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

/// A row-major matrix over a slice; `.reversed_axes()` transposes it without a copy.
///
/// # Panics
/// If the slice does not have `rows * columns` values.
#[must_use]
pub fn view<F: Float>(values: &[F], rows: usize, columns: usize) -> ArrayView2<'_, F> {
    ArrayView2::from_shape((rows, columns), values).expect("a matrix has rows x columns values")
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
    let mut into =
        ArrayViewMut2::from_shape(shape, into).expect("a product has rows x columns values");
    let keep = match write {
        Write::Replace => F::ZERO,
        Write::Add => F::ONE,
    };
    general_mat_mul(F::ONE, &left, &right, keep, &mut into);
}
