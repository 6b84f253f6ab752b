//! The dense layer.

use crate::autograd::{Shape, Tape, Var};
use crate::math::{Float, Write, add_bias, multiply};

/// x @ w + b, with x `[rows, in]`, w `[in, out]` and b `[out]`.
///
/// # Panics
/// If the shapes do not fit.
pub fn dense<F: Float>(tape: &mut Tape<F>, x: Var, w: Var, b: Option<Var>) -> Var {
    let (left, right) = (tape.shape(x), tape.shape(w));
    assert_eq!(
        left.width(),
        right.rows(),
        "a weight's rows are the layer's inputs"
    );
    let shape = Shape::new(&[left.rows(), right.width()]);
    dense_of_shape(tape, shape, x, w, b)
}

/// [`dense`] with the parameters `NAME.weight` and `NAME.bias`, as
/// [`Parameters::layers`](crate::autograd::Parameters::layers) names them.
///
/// # Panics
/// If there are none of these names, or the shapes do not fit.
pub fn layer<F: Float>(tape: &mut Tape<F>, x: Var, name: &str) -> Var {
    let weight = tape.parameter(&format!("{name}.weight"));
    let bias = tape.parameter(&format!("{name}.bias"));
    dense(tape, x, weight, Some(bias))
}

/// [`dense`] on matrices over the last dimension, whatever dimensions are before it: its output has
/// those of `shape`.
pub(super) fn dense_of_shape<F: Float>(
    tape: &mut Tape<F>,
    shape: Shape,
    x: Var,
    w: Var,
    b: Option<Var>,
) -> Var {
    let inputs = [x, w, b.unwrap_or(w)];
    tape.record(
        shape,
        &inputs,
        |values, out| {
            multiply(values.matrix(x), values.matrix(w), out, Write::Replace);
            if let Some(b) = b {
                assert_eq!(values.slice(b).len(), shape.width(), "a bias per output");
                add_bias(out, values.slice(b));
            }
        },
        move |up, gradients| {
            gradients.add_product(x, up.matrix(), up.values.matrix(w).reversed_axes());
            gradients.add_product(w, up.values.matrix(x).reversed_axes(), up.matrix());
            if let Some(b) = b {
                gradients.add_rows(b, up.gradient);
            }
        },
    )
}
