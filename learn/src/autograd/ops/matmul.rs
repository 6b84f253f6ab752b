//! Products of matrices, many at once.

use crate::autograd::{Shape, Tape, Var};
use crate::math::{Float, Write, multiply, view};

/// x @ y for x [batch, n, k] and y [batch, k, m], with any number of equal batch dimensions. A y
/// without batch dimensions is one for all: that is [`super::dense`] without a bias.
///
/// # Panics
/// If the shapes do not fit.
pub fn matmul<F: Float>(tape: &mut Tape<F>, x: Var, y: Var) -> Var {
    let (left, right) = (tape.shape(x), tape.shape(y));
    let (outer_x, [n, k]) = split(&left);
    let (outer_y, [inner, m]) = split(&right);
    assert_eq!(k, inner, "a row of the left times a column of the right");
    let mut sizes = outer_x.to_vec();
    sizes.extend([n, m]);
    if outer_y.is_empty() {
        let product = super::dense(tape, x, y, None);
        return super::reshape(tape, product, &sizes);
    }
    assert_eq!(outer_x, outer_y, "equal batch dimensions");
    let batch: usize = outer_x.iter().product();
    tape.record(
        Shape::new(&sizes),
        &[x, y],
        |values, out| {
            let (x, y) = (values.slice(x), values.slice(y));
            for (b, out) in out.chunks_exact_mut((n * m).max(1)).enumerate() {
                multiply(part(x, b, n, k), part(y, b, k, m), out, Write::Replace);
            }
        },
        move |up, gradients| {
            let (left, right) = (up.values.slice(x), up.values.slice(y));
            let above = |b| part(up.gradient, b, n, m);
            gradients.add_products(
                x,
                (0..batch).map(|b| (above(b), part(right, b, k, m).reversed_axes())),
            );
            gradients.add_products(
                y,
                (0..batch).map(|b| (part(left, b, n, k).reversed_axes(), above(b))),
            );
        },
    )
}

/// The batch dimensions, and those of the matrix.
fn split(shape: &Shape) -> (&[usize], [usize; 2]) {
    match shape.dimensions() {
        [outer @ .., rows, columns] => (outer, [*rows, *columns]),
        [] | [_] => panic!("{:?} is no matrix", shape.dimensions()),
    }
}

/// Matrix number `b`.
fn part<F: Float>(
    values: &[F],
    b: usize,
    rows: usize,
    columns: usize,
) -> ndarray::ArrayView2<'_, F> {
    let size = rows * columns;
    view(&values[b * size..(b + 1) * size], rows, columns)
}
