//! The matrix product: `matrixmultiply` through ndarray, whose bits are fully specified, and for f32
//! with AVX-512 our own kernel, which has the same bits.
//!
//! The inner dimension is cut into blocks of [`INNER`]; within a block one chain of fused multiply-adds
//! from zero in ascending order; the block is then added to the result. `numerics::check` compares
//! it with a scalar reference at start-up, because processors without FMA would give other bits.

use std::ops::Range;

use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, s};

use super::Float;

#[cfg(target_arch = "x86_64")]
mod wide;

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
    multiply_rows(left, 0..left.nrows(), right, into, write);
}

/// Writes some rows of `left @ right`: with a slice of `left` in its place the same bits, but such a
/// slice has gaps, and our kernel takes none.
///
/// # Panics
/// If the shapes do not fit.
pub fn multiply_rows<F: Float>(
    left: ArrayView2<'_, F>,
    rows: Range<usize>,
    right: ArrayView2<'_, F>,
    into: &mut [F],
    write: Write,
) {
    if F::multiply_wide(left, rows.clone(), right, into, write) {
        return;
    }
    let shape = (rows.len(), right.ncols());
    let left = left.slice_move(s![rows, ..]);
    let mut into = ArrayViewMut2::from_shape(shape, into).expect(WHOLE);
    general_mat_mul(F::ONE, &left, &right, write.keep(), &mut into);
}

/// [`multiply_rows`] whose kernel goes along the rows of `into`, not down its columns: the same bits,
/// and faster where the inner dimension is so short that writing to `into` counts.
///
/// # Panics
/// If the shapes do not fit.
pub fn multiply_rows_along<F: Float>(
    left: ArrayView2<'_, F>,
    rows: Range<usize>,
    right: ArrayView2<'_, F>,
    into: &mut [F],
    write: Write,
) {
    if F::multiply_wide(left, rows.clone(), right, into, write) {
        return;
    }
    let shape = (rows.len(), right.ncols());
    let into = ArrayViewMut2::from_shape(shape, into).expect(WHOLE);
    let (left, right) = (
        right.reversed_axes(),
        left.slice_move(s![rows, ..]).reversed_axes(),
    );
    general_mat_mul(
        F::ONE,
        &left,
        &right,
        write.keep(),
        &mut into.reversed_axes(),
    );
}

/// The product by the kernel for wide registers, if there is one here for these operands.
pub(super) fn multiply_wide(
    left: ArrayView2<'_, f32>,
    rows: Range<usize>,
    right: ArrayView2<'_, f32>,
    into: &mut [f32],
    write: Write,
) -> bool {
    #[cfg(target_arch = "x86_64")]
    return wide::multiply(left, rows, right, into, write);
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (left, rows, right, into, write);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows, inner dimension and columns at and beside the borders of tiles, stretches and blocks.
    const SHAPES: [(usize, usize, usize); 16] = [
        (1, 1, 1),
        (0, 3, 2),
        (5, 0, 3),
        (8, 32, 48),
        (15, 33, 49),
        (17, 32, 50),
        (64, 300, 33),
        (65, 257, 16),
        (70, 31, 96),
        (66, 64, 100),
        (7, 513, 130),
        (130, 512, 1),
        (1, 600, 70),
        (9, 16, 31),
        (525, 300, 101),
        (13, 129, 144),
    ];

    fn values(count: usize, part: f32) -> Vec<f32> {
        let value = |i: usize| ((i * 37) % 101) as f32 * part - 1.0;
        (0..count).map(value).collect()
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|v| v.to_bits()).collect()
    }

    /// A matrix row by row, or column by column.
    fn laid(values: &[f32], rows: usize, columns: usize, turned: bool) -> ArrayView2<'_, f32> {
        match turned {
            true => view(values, columns, rows).reversed_axes(),
            false => view(values, rows, columns),
        }
    }

    /// `matrixmultiply`, whatever there is beside it.
    fn plain(left: ArrayView2<'_, f32>, right: ArrayView2<'_, f32>, into: &mut [f32], keep: f32) {
        let shape = (left.nrows(), right.ncols());
        let mut into = ArrayViewMut2::from_shape(shape, into).expect(WHOLE);
        general_mat_mul(1.0, &left, &right, keep, &mut into);
    }

    #[test]
    fn all_kernels_and_ways_have_the_same_bits() {
        for ((rows, inner, columns), turned) in SHAPES.iter().flat_map(|shape| {
            [(false, false), (true, false), (false, true), (true, true)].map(|t| (*shape, t))
        }) {
            let (left, right) = (values(inner * rows, 0.013), values(inner * columns, 0.017));
            let left = laid(&left, rows, inner, turned.0);
            let right = laid(&right, inner, columns, turned.1);
            for write in [Write::Replace, Write::Add] {
                let begun = values(rows * columns, 0.3);
                let mut expected = begun.clone();
                plain(left, right, &mut expected, write.keep());
                for (way, some) in [multiply_rows, multiply_rows_along]
                    .into_iter()
                    .flat_map(|way| [(way, 0..rows), (way, rows / 3..rows - rows / 4)])
                {
                    let place = some.start * columns..some.end * columns;
                    let mut found = begun[place.clone()].to_vec();
                    way(left, some, right, &mut found, write);
                    let what = format!("{rows} x {inner} x {columns}, {turned:?}, {write:?}");
                    assert_eq!(bits(&found), bits(&expected[place]), "{what}");
                }
            }
        }
    }

    /// Not finite and subnormal values take no other way, and what lies beside an operand or was
    /// copied before does not show.
    #[test]
    fn odd_values_and_gaps_have_the_same_bits() {
        let (rows, inner, columns) = (70, 40, 50);
        let mut left = values(rows * inner, 0.013);
        (left[3 * inner], left[5 * inner + 7]) = (f32::NAN, f32::INFINITY);
        let mut right = values(inner * (columns + 3), 0.017);
        right[..100].fill(f32::MIN_POSITIVE / 8.0);
        let mut found = vec![0.0; rows * columns];
        multiply(
            view(&left, rows, inner),
            view(&vec![f32::NAN; inner * columns], inner, columns),
            &mut found,
            Write::Replace,
        );
        let gaps = view(&right, inner, columns + 3);
        let dense = view(&right[..inner * columns], inner, columns);
        for right in [dense, gaps.slice(ndarray::s![.., 1..=columns])] {
            let mut expected = vec![0.0; rows * columns];
            multiply(view(&left, rows, inner), right, &mut found, Write::Replace);
            plain(view(&left, rows, inner), right, &mut expected, 0.0);
            for (f, e) in found.iter().zip(&expected) {
                assert!(f.to_bits() == e.to_bits() || f.is_nan() && e.is_nan());
            }
        }
    }
}
