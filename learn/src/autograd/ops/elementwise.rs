//! Operations value by value, and sums over all values.

use resilin_core::random::Stream;

use crate::autograd::{Shape, Tape, Var};
use crate::math::{self, Activation, Float, dropout_mask};

/// x + y, of one shape.
pub fn add<F: Float>(tape: &mut Tape<F>, x: Var, y: Var) -> Var {
    let shape = same_shape(tape, x, y);
    tape.record(
        shape,
        &[x, y],
        |values, out| {
            let (x, y) = (values.slice(x), values.slice(y));
            (0..out.len()).for_each(|i| out[i] = x[i] + y[i]);
        },
        move |up, gradients| {
            gradients.add(x, |i| up.gradient[i]);
            gradients.add(y, |i| up.gradient[i]);
        },
    )
}

/// x * y value by value, of one shape.
pub fn mul<F: Float>(tape: &mut Tape<F>, x: Var, y: Var) -> Var {
    let shape = same_shape(tape, x, y);
    tape.record(
        shape,
        &[x, y],
        |values, out| {
            let (x, y) = (values.slice(x), values.slice(y));
            (0..out.len()).for_each(|i| out[i] = x[i] * y[i]);
        },
        move |up, gradients| {
            let (left, right) = (up.values.slice(x), up.values.slice(y));
            gradients.add(x, |i| up.gradient[i] * right[i]);
            gradients.add(y, |i| up.gradient[i] * left[i]);
        },
    )
}

/// x times a number.
pub fn scale<F: Float>(tape: &mut Tape<F>, x: Var, factor: F) -> Var {
    tape.record(
        tape.shape(x),
        &[x],
        |values, out| {
            let x = values.slice(x);
            (0..out.len()).for_each(|i| out[i] = x[i] * factor);
        },
        move |up, gradients| gradients.add(x, |i| up.gradient[i] * factor),
    )
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

/// An activation, value by value.
pub fn activate<F: Float>(tape: &mut Tape<F>, x: Var, activation: Activation) -> Var {
    tape.record(
        tape.shape(x),
        &[x],
        |values, out| {
            out.copy_from_slice(values.slice(x));
            activation.apply(out);
        },
        move |up, gradients| {
            let output = up.output();
            gradients.add(x, |i| activation.slope(output[i], up.gradient[i]));
        },
    )
}

/// Hyperbolic tangent.
pub fn tanh<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    activate(tape, x, Activation::Tanh)
}

/// max(x, 0); its slope at 0 is 0.
pub fn relu<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    activate(tape, x, Activation::Relu)
}

/// 1 / (1 + e^-x).
pub fn sigmoid<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    activate(tape, x, Activation::Sigmoid)
}

/// Drops each value whose draw is below `rate` and scales the others by 1 / (1 - rate). The draw of
/// a value has its position, row x width + column, in the stream.
///
/// # Panics
/// If the rate is not in [0, 1).
pub fn dropout<F: Float>(tape: &mut Tape<F>, x: Var, rate: f32, stream: &mut Stream) -> Var {
    assert!(
        (0.0..1.0).contains(&rate),
        "dropout {rate}: choose a rate from 0 to below 1"
    );
    let mask = tape.computed(tape.shape(x), |_, out| dropout_mask(stream, rate, out));
    mul(tape, x, mask)
}

fn same_shape<F: Float>(tape: &Tape<F>, x: Var, y: Var) -> Shape {
    let shape = tape.shape(x);
    assert_eq!(shape, tape.shape(y), "value by value needs one shape");
    shape
}
