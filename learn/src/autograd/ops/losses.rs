//! Losses over rows. Their gradient is made with their value and kept on the tape beside it.

use crate::autograd::{Shape, Tape, Var};
use crate::math::{self, Float};

/// Logarithm of the softmax over the last dimension.
pub fn log_softmax<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    let shape = tape.shape(x);
    let width = shape.width();
    tape.record(
        shape,
        &[x],
        |values, out| {
            out.copy_from_slice(values.slice(x));
            math::log_softmax(out, width);
        },
        move |up, gradients| {
            let output = up.output();
            gradients.add_by_row(x, width, |row| {
                let start = row * width;
                let total = math::sum(&up.gradient[start..start + width]);
                move |column| {
                    let i = start + column;
                    up.gradient[i] - math::exp(output[i]) * total
                }
            });
        },
    )
}

/// Sum of the softmax cross-entropies of rows of logits [rows, classes].
///
/// # Panics
/// If there is not one class a row, or a class is out of range.
pub fn cross_entropy_sum<F: Float>(tape: &mut Tape<F>, logits: Var, classes: &[u32]) -> Var {
    let shape = tape.shape(logits);
    let mut total = 0.0;
    let slope = tape.computed(shape, |values, out| {
        out.copy_from_slice(values.slice(logits));
        math::cross_entropy(out, shape.width(), classes, |loss| total += loss.to_f64());
    });
    loss_with_slope(tape, &[(logits, F::ONE)], slope, F::from_f64(total))
}

/// Mean over the rows of [`cross_entropy_sum`].
///
/// # Panics
/// As the sum, and without a row.
pub fn cross_entropy_mean<F: Float>(tape: &mut Tape<F>, logits: Var, classes: &[u32]) -> Var {
    let rows = tape.shape(logits).rows();
    let sum = cross_entropy_sum(tape, logits, classes);
    mean(tape, sum, rows)
}

/// Sum of all squared differences of two values of one shape.
///
/// # Panics
/// If the shapes differ.
pub fn squared_error_sum<F: Float>(tape: &mut Tape<F>, prediction: Var, target: Var) -> Var {
    let shape = tape.shape(prediction);
    assert_eq!(shape, tape.shape(target), "a target per prediction");
    let mut total = 0.0;
    let slope = tape.computed(shape, |values, out| {
        out.copy_from_slice(values.slice(prediction));
        let targets = values.slice(target).iter().copied();
        math::squared_error(out, shape.width(), targets, |loss| total += loss.to_f64());
    });
    let inputs = [(prediction, F::TWO), (target, -F::TWO)];
    loss_with_slope(tape, &inputs, slope, F::from_f64(total))
}

/// Mean over all values of [`squared_error_sum`].
///
/// # Panics
/// If the shapes differ or have no value.
pub fn squared_error_mean<F: Float>(tape: &mut Tape<F>, prediction: Var, target: Var) -> Var {
    let values = tape.shape(prediction).len();
    let sum = squared_error_sum(tape, prediction, target);
    mean(tape, sum, values)
}

/// A loss whose gradient for each input is a number times `slope`.
fn loss_with_slope<F: Float>(tape: &mut Tape<F>, inputs: &[(Var, F)], slope: Var, value: F) -> Var {
    let vars: Vec<Var> = inputs.iter().map(|(var, _)| *var).collect();
    let factors = inputs.to_vec();
    tape.record(
        Shape::SCALAR,
        &vars,
        |_, out| out[0] = value,
        move |up, gradients| {
            let slope = up.values.slice(slope);
            for (var, factor) in &factors {
                gradients.add(*var, |i| slope[i] * *factor * up.gradient[0]);
            }
        },
    )
}

fn mean<F: Float>(tape: &mut Tape<F>, sum: Var, count: usize) -> Var {
    assert!(count > 0, "a mean needs a value");
    super::scale(tape, sum, F::ONE / F::from_f64(count as f64))
}
