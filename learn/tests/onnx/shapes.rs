//! ONNX's layouts, which have channels and classes as the second dimension, and ours.

use resilin_learn::autograd::ops::{self, Window};
use resilin_learn::autograd::{Tape, Var};
use resilin_learn::math::Float;

use crate::case::Case;

/// Images [count, channels, height, width] to ours.
pub(crate) fn channels_last<F: Float>(t: &mut Tape<F>, x: Var) -> Var {
    ops::transpose(t, x, &[0, 2, 3, 1])
}

/// Our images to theirs.
pub(crate) fn channels_first<F: Float>(t: &mut Tape<F>, x: Var) -> Var {
    ops::transpose(t, x, &[0, 3, 1, 2])
}

/// [count, classes, ...] to [rows, classes], rows in the order of their targets.
pub(crate) fn class_axis_last<F: Float>(t: &mut Tape<F>, x: Var) -> Var {
    let sizes = t.shape(x).dimensions().to_vec();
    let order: Vec<usize> = std::iter::once(0)
        .chain(2..sizes.len())
        .chain([1])
        .collect();
    let moved = ops::transpose(t, x, &order);
    let rows = sizes.iter().product::<usize>() / sizes[1];
    ops::reshape(t, moved, &[rows, sizes[1]])
}

/// `operation`, which is over the last dimension, over that of the attribute `axis`.
pub(crate) fn last<F: Float>(
    t: &mut Tape<F>,
    case: &Case,
    x: Var,
    operation: fn(&mut Tape<F>, Var) -> Var,
) -> Var {
    let rank = case.sizes().len();
    let axis = case.axis(case.number("axis", -1.0) as i64);
    // The exchange of two dimensions is its own inverse.
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(axis, rank - 1);
    let moved = ops::transpose(t, x, &order);
    let found = operation(t, moved);
    ops::transpose(t, found, &order)
}

/// A window of this size with the case's steps and border.
pub(crate) fn window(case: &Case, size: [usize; 2]) -> Window {
    let list = |name, usual: Vec<i64>| -> Vec<usize> {
        let values = case.list(name).unwrap_or(usual);
        values.into_iter().map(|value| value as usize).collect()
    };
    let (stride, padding) = (list("strides", vec![1; 2]), list("pads", vec![0; 4]));
    Window {
        size,
        stride: [stride[0], stride[1]],
        padding: [padding[0], padding[1], padding[2], padding[3]],
    }
}
