//! Sums, means and largest values: of all values, or along some dimensions.
//!
//! Reduced dimensions are brought last, so that every sum is one of [`math::sum`], in its order.

use super::{mul, reshape, scale, transpose};
use crate::autograd::{Shape, Tape, Var};
use crate::math::{self, Float};

/// What becomes of dimensions that were reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduced {
    /// They stay, with size 1.
    Kept,
    /// They are gone.
    Dropped,
}

/// Sum of all values.
pub fn sum<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    tape.record(
        Shape::SCALAR,
        &[x],
        |values, out| out[0] = math::sum(values.slice(x)),
        move |up, gradients| gradients.add(x, |_| up.gradient[0]),
    )
}

/// Sum of all squares: L2 as a term of a loss. Its gradient is 2x.
pub fn square_sum<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    let squares = mul(tape, x, x);
    sum(tape, squares)
}

/// Sums along `axes`.
///
/// # Panics
/// If a dimension is named twice or does not exist; so do the other functions with axes.
pub fn sum_axes<F: Float>(tape: &mut Tape<F>, x: Var, axes: &[usize], reduced: Reduced) -> Var {
    along(tape, x, axes, reduced, sum_rows)
}

/// Means along `axes`.
///
/// # Panics
/// As [`sum_axes`], and if there is nothing to take a mean of.
pub fn mean_axes<F: Float>(tape: &mut Tape<F>, x: Var, axes: &[usize], reduced: Reduced) -> Var {
    let count: usize = axes
        .iter()
        .map(|axis| tape.shape(x).dimensions()[*axis])
        .product();
    assert!(count > 0, "a mean needs a value");
    let sums = sum_axes(tape, x, axes, reduced);
    scale(tape, sums, F::ONE / F::from_f64(count as f64))
}

/// Largest values along `axes`; of equal ones the first gets the gradient.
///
/// # Panics
/// As [`sum_axes`], and if there is no value.
pub fn max_axes<F: Float>(tape: &mut Tape<F>, x: Var, axes: &[usize], reduced: Reduced) -> Var {
    along(tape, x, axes, reduced, max_rows)
}

/// Applies `reduce`, which turns [rows, width] into [rows], to the named dimensions.
fn along<F: Float>(
    tape: &mut Tape<F>,
    x: Var,
    axes: &[usize],
    reduced: Reduced,
    reduce: impl Fn(&mut Tape<F>, Var) -> Var,
) -> Var {
    let shape = tape.shape(x);
    let sizes = shape.dimensions();
    let is_reduced = |axis: &usize| axes.contains(axis);
    let kept: Vec<usize> = (0..sizes.len()).filter(|axis| !is_reduced(axis)).collect();
    assert_eq!(
        kept.len() + axes.len(),
        sizes.len(),
        "axes {axes:?} of {sizes:?}: name each once"
    );
    let mut last = axes.to_vec();
    last.sort_unstable();
    let order: Vec<usize> = kept.iter().copied().chain(last).collect();
    let ordered = if order.is_sorted() {
        x
    } else {
        transpose(tape, x, &order)
    };
    let rows: usize = kept.iter().map(|axis| sizes[*axis]).product();
    let width: usize = axes.iter().map(|axis| sizes[*axis]).product();
    let matrix = reshape(tape, ordered, &[rows, width]);
    let values = reduce(tape, matrix);
    let result: Vec<usize> = match reduced {
        Reduced::Kept => (0..sizes.len())
            .map(|axis| if is_reduced(&axis) { 1 } else { sizes[axis] })
            .collect(),
        Reduced::Dropped => kept.iter().map(|axis| sizes[*axis]).collect(),
    };
    reshape(tape, values, &result)
}

fn sum_rows<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    let shape = tape.shape(x);
    let width = shape.width();
    tape.record(
        Shape::new(&[shape.rows()]),
        &[x],
        |values, out| {
            let rows = values.slice(x);
            for (row, out) in out.iter_mut().enumerate() {
                *out = math::sum(&rows[row * width..(row + 1) * width]);
            }
        },
        move |up, gradients| {
            gradients.add_by_row(x, width.max(1), |row| move |_| up.gradient[row]);
        },
    )
}

fn max_rows<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    let shape = tape.shape(x);
    let width = shape.width();
    assert!(width > 0, "the largest of no values");
    tape.record(
        Shape::new(&[shape.rows()]),
        &[x],
        |values, out| {
            for (out, row) in out.iter_mut().zip(values.slice(x).chunks_exact(width)) {
                *out = row[math::largest(row)];
            }
        },
        move |up, gradients| {
            let rows = up.values.slice(x);
            gradients.add_by_row(x, width, |row| {
                let largest = math::largest(&rows[row * width..(row + 1) * width]);
                move |column| {
                    if column == largest {
                        up.gradient[row]
                    } else {
                        F::ZERO
                    }
                }
            });
        },
    )
}
