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
            for (out, x) in out.iter_mut().zip(x) {
                *out = *x * factor;
            }
        },
        move |up, gradients| {
            gradients.add_each(x, [up.gradient], |[above]| above * factor);
        },
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
                for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                    *out = value(*x, *y);
                }
            },
            move |up, gradients| {
                let (left, right) = (up.values.slice(x), up.values.slice(y));
                let all = [up.gradient, left, right];
                gradients.add_each(x, all, |[above, x, y]| pull_x(above, x, y));
                gradients.add_each(y, all, |[above, x, y]| pull_y(above, x, y));
            },
        );
    }
    if shape == left && left.dimensions().ends_with(right.dimensions()) {
        return with_each_row(tape, x, y, value, pull_x, pull_y);
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

/// [`binary`] for a y that is repeated as a whole: the same bits, in runs.
fn with_each_row<F: Float>(
    tape: &mut Tape<F>,
    x: Var,
    y: Var,
    value: impl Fn(F, F) -> F,
    pull_x: impl Fn(F, F, F) -> F + Send + 'static,
    pull_y: impl Fn(F, F, F) -> F + Send + 'static,
) -> Var {
    let width = tape.shape(y).len().max(1);
    tape.record(
        tape.shape(x),
        &[x, y],
        |values, out| {
            let (x, y) = (values.slice(x), values.slice(y));
            for (out, x) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
                for ((out, x), y) in out.iter_mut().zip(x).zip(y) {
                    *out = value(*x, *y);
                }
            }
        },
        move |up, gradients| {
            let (left, right) = (up.values.slice(x), up.values.slice(y));
            let rows = || {
                up.gradient
                    .chunks_exact(width)
                    .zip(left.chunks_exact(width))
            };
            gradients.scatter(x, |place| {
                for (place, (above, x)) in place.chunks_exact_mut(width).zip(rows()) {
                    for (i, place) in place.iter_mut().enumerate() {
                        *place += pull_x(above[i], x[i], right[i]);
                    }
                }
            });
            gradients.scatter(y, |place| {
                for (above, x) in rows() {
                    for (i, place) in place.iter_mut().enumerate() {
                        *place += pull_y(above[i], x[i], right[i]);
                    }
                }
            });
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autograd::{Tensor, make_vjp};

    #[test]
    fn rows_have_the_bits_of_values_that_are_repeated_one_by_one() {
        let values = |count: u8, part: f32| {
            let value = |i: u8| (f32::from(i) - 4.0) * part;
            (0..count).map(value).collect::<Vec<_>>()
        };
        let x = Tensor::new(&[2, 2, 5], values(20, 0.3));
        let above = values(20, -0.7);
        let found = [vec![5], vec![1, 5]].map(|sizes| {
            let y = Tensor::new(&sizes, values(5, 0.11));
            let function = |tape: &mut Tape<f32>, v: &[Var]| {
                let sum = add(tape, v[0], v[1]);
                let product = mul(tape, sum, v[1]);
                maximum(tape, product, v[1])
            };
            let mut vjp = make_vjp(function, &[x.clone(), y]);
            let bits = |t: &Tensor<f32>| t.values().iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let gradients: Vec<_> = vjp.pull(&above).iter().map(bits).collect();
            (bits(&vjp.value()), gradients)
        });
        assert_eq!(found[0], found[1]);
    }
}
