//! Arithmetic of two tensors value by value, repeated along dimensions of size 1 as in NumPy.

use crate::autograd::view::View;
use crate::autograd::{Tape, Var};
use crate::math::Float;

/// x + y.
///
/// # Panics
/// If the shapes do not go together; so do the other functions here.
pub fn add<F: Float>(tape: &mut Tape<F>, x: Var, y: Var) -> Var {
    binary(tape, x, y, |x, y| x + y, |g, _, _| g, |g, _, _| g)
}

/// x - y.
pub fn sub<F: Float>(tape: &mut Tape<F>, x: Var, y: Var) -> Var {
    binary(tape, x, y, |x, y| x - y, |g, _, _| g, |g, _, _| -g)
}

/// x * y value by value.
pub fn mul<F: Float>(tape: &mut Tape<F>, x: Var, y: Var) -> Var {
    binary(tape, x, y, |x, y| x * y, |g, _, y| g * y, |g, x, _| g * x)
}

/// x / y value by value.
pub fn div<F: Float>(tape: &mut Tape<F>, x: Var, y: Var) -> Var {
    let down = |g: F, x: F, y: F| -(g * x / (y * y));
    binary(tape, x, y, |x, y| x / y, |g, _, y| g / y, down)
}

/// The larger of x and y; of equal ones, x gets the gradient.
pub fn maximum<F: Float>(tape: &mut Tape<F>, x: Var, y: Var) -> Var {
    let value = |x, y| if y > x { y } else { x };
    let first = |g, x, y| if y > x { F::ZERO } else { g };
    let second = |g, x, y| if y > x { g } else { F::ZERO };
    binary(tape, x, y, value, first, second)
}

/// The smaller of x and y; of equal ones, x gets the gradient.
pub fn minimum<F: Float>(tape: &mut Tape<F>, x: Var, y: Var) -> Var {
    let value = |x, y| if y < x { y } else { x };
    let first = |g, x, y| if y < x { F::ZERO } else { g };
    let second = |g, x, y| if y < x { g } else { F::ZERO };
    binary(tape, x, y, value, first, second)
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

/// An operation on pairs: its value, and its gradients for x and y from (gradient, x, y). A value
/// that is repeated gets the sum of its gradients, in the order of the output.
fn binary<F: Float>(
    tape: &mut Tape<F>,
    x: Var,
    y: Var,
    value: impl Fn(F, F) -> F,
    pull_x: impl Fn(F, F, F) -> F + Send + 'static,
    pull_y: impl Fn(F, F, F) -> F + Send + 'static,
) -> Var {
    let (left, right) = (tape.shape(x), tape.shape(y));
    let shape = left.broadcast(&right);
    if left == right {
        return tape.record(
            shape,
            &[x, y],
            |values, out| {
                let (x, y) = (values.slice(x), values.slice(y));
                (0..out.len()).for_each(|i| out[i] = value(x[i], y[i]));
            },
            move |up, gradients| {
                let (left, right) = (up.values.slice(x), up.values.slice(y));
                gradients.add(x, |i| pull_x(up.gradient[i], left[i], right[i]));
                gradients.add(y, |i| pull_y(up.gradient[i], left[i], right[i]));
            },
        );
    }
    let (first, second) = (
        View::of(left).repeated(shape),
        View::of(right).repeated(shape),
    );
    tape.record(
        shape,
        &[x, y],
        |values, out| {
            let (x, y) = (values.slice(x), values.slice(y));
            first.each_pair(&second, |i, a, b| out[i] = value(x[a], y[b]));
        },
        move |up, gradients| {
            let (left, right) = (up.values.slice(x), up.values.slice(y));
            gradients.scatter(x, |place| {
                first.each_pair(&second, |i, a, b| {
                    place[a] += pull_x(up.gradient[i], left[a], right[b]);
                });
            });
            gradients.scatter(y, |place| {
                first.each_pair(&second, |i, a, b| {
                    place[b] += pull_y(up.gradient[i], left[a], right[b]);
                });
            });
        },
    )
}
