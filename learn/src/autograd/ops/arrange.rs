//! Values in another arrangement: reshaped, transposed, cut, put together.

use std::ops::Range;

use crate::autograd::view::View;
use crate::autograd::{Shape, Tape, Var};
use crate::math::Float;

/// The same values with other dimensions.
///
/// # Panics
/// If their product differs.
pub fn reshape<F: Float>(tape: &mut Tape<F>, x: Var, dimensions: &[usize]) -> Var {
    let (from, to) = (tape.shape(x), Shape::new(dimensions));
    if from == to {
        return x;
    }
    assert_eq!(
        from.len(),
        to.len(),
        "{:?} does not have the values of {dimensions:?}",
        from.dimensions()
    );
    tape.record(
        to,
        &[x],
        |values, out| out.copy_from_slice(values.slice(x)),
        move |up, gradients| gradients.add_each(x, [up.gradient], |[above]| above),
    )
}

/// With dimension `axes[i]` in place `i`.
///
/// # Panics
/// If `axes` does not name each dimension once.
pub fn transpose<F: Float>(tape: &mut Tape<F>, x: Var, axes: &[usize]) -> Var {
    let view = View::of(tape.shape(x)).permuted(axes);
    walk(tape, x, view)
}

/// `range` of a dimension.
///
/// # Panics
/// If there is no such dimension or range.
pub fn slice<F: Float>(tape: &mut Tape<F>, x: Var, axis: usize, range: Range<usize>) -> Var {
    let view = View::of(tape.shape(x)).cut(axis, &range);
    walk(tape, x, view)
}

/// The tensors one after the other along a dimension.
///
/// # Panics
/// Without a tensor, or if their other dimensions differ.
pub fn concat<F: Float>(tape: &mut Tape<F>, parts: &[Var], axis: usize) -> Var {
    let first = parts.first().expect("something is put together");
    let mut sizes = tape.shape(*first).dimensions().to_vec();
    let widths: Vec<usize> = parts
        .iter()
        .map(|part| tape.shape(*part).dimensions()[axis])
        .collect();
    for (part, width) in parts.iter().zip(&widths) {
        sizes[axis] = *width;
        let shape = tape.shape(*part);
        assert_eq!(
            shape.dimensions(),
            sizes,
            "only dimension {axis} may differ"
        );
    }
    sizes[axis] = widths.iter().sum();
    let shape = Shape::new(&sizes);
    let mut start = 0;
    let places = parts.iter().zip(widths).map(|(part, width)| {
        start += width;
        (*part, View::of(shape).cut(axis, &(start - width..start)))
    });
    let places: Vec<(Var, View)> = places.collect();
    let copied = places.clone();
    tape.record(
        shape,
        parts,
        move |values, out| {
            for (part, view) in &copied {
                let part = values.slice(*part);
                view.each(|i, place| out[place] = part[i]);
            }
        },
        move |up, gradients| {
            for (part, view) in &places {
                gradients.scatter(*part, |to| {
                    view.each(|i, place| to[i] += up.gradient[place]);
                });
            }
        },
    )
}

/// The values of a view.
fn walk<F: Float>(tape: &mut Tape<F>, x: Var, view: View) -> Var {
    tape.record(
        view.shape(),
        &[x],
        |values, out| {
            view.gather(values.slice(x), out);
        },
        move |up, gradients| {
            gradients.scatter(x, |to| view.scatter(to, up.gradient));
        },
    )
}
