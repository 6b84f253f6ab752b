//! Losses over rows. Their gradient is made with their value and kept on the tape beside it.

use crate::autograd::{Shape, Tape, Var};
use crate::math::{self, Float};

/// Sum of the softmax cross-entropies of rows of logits [rows, classes].
///
/// # Panics
/// If there is not one class a row, or a class is out of range.
pub fn cross_entropy_sum<F: Float>(tape: &mut Tape<F>, logits: Var, classes: &[u32]) -> Var {
    let width = tape.shape(logits).width();
    from_slopes(tape, &[(logits, F::ONE)], |out, _| {
        added(|loss| math::cross_entropy(out, width, classes, loss))
    })
}

/// [`cross_entropy_sum`] with each row's loss times the weight of its class.
///
/// # Panics
/// As the sum, and if there is not one weight a class.
pub fn weighted_cross_entropy_sum<F: Float>(
    tape: &mut Tape<F>,
    logits: Var,
    classes: &[u32],
    weights: &[F],
) -> Var {
    let width = tape.shape(logits).width();
    assert_eq!(width, weights.len(), "a weight per class");
    from_slopes(tape, &[(logits, F::ONE)], |out, _| {
        added(|loss| math::weighted_cross_entropy(out, classes, weights, loss))
    })
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
    let width = same_width(tape, prediction, target);
    let inputs = [(prediction, F::TWO), (target, -F::TWO)];
    from_slopes(tape, &inputs, |out, targets| {
        added(|loss| math::squared_error(out, width, targets.iter().copied(), loss))
    })
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

/// Sum of Huber's losses (1964) of all differences d: d^2 / 2 within `delta`, and the tangent there
/// beyond, so that outliers pull with no more than `delta`.
///
/// # Panics
/// If the shapes differ.
pub fn huber_sum<F: Float>(tape: &mut Tape<F>, prediction: Var, target: Var, delta: F) -> Var {
    let width = same_width(tape, prediction, target);
    let inputs = [(prediction, F::ONE), (target, -F::ONE)];
    from_slopes(tape, &inputs, |out, targets| {
        added(|loss| math::huber(out, width, targets.iter().copied(), delta, loss))
    })
}

/// Sum of the binary cross-entropies of logits, each with a target in [0, 1] of its own. Targets get
/// no gradient.
///
/// # Panics
/// If the shapes differ.
pub fn binary_cross_entropy_sum<F: Float>(tape: &mut Tape<F>, logits: Var, target: Var) -> Var {
    let width = same_width(tape, logits, target);
    let shape = tape.shape(target);
    let target = tape.computed(shape, |values, out| {
        out.copy_from_slice(values.slice(target))
    });
    let inputs = [(logits, F::ONE), (target, F::ZERO)];
    from_slopes(tape, &inputs, |out, targets| {
        added(|loss| math::binary_cross_entropy(out, width, targets.iter().copied(), loss))
    })
}

/// A loss that is made with its gradient: `rows` replaces the outputs by the gradient of the sum of
/// losses, and returns that sum.
pub fn loss_with_slopes<F: Float>(
    tape: &mut Tape<F>,
    outputs: Var,
    rows: impl FnOnce(&mut [F]) -> f64,
) -> Var {
    from_slopes(tape, &[(outputs, F::ONE)], |out, _| rows(out))
}

/// A loss whose `rows` replace the first input (given the values of the last) by slopes, and return
/// the sum of losses; the gradient of each input is its number times the slopes.
fn from_slopes<F: Float>(
    tape: &mut Tape<F>,
    inputs: &[(Var, F)],
    rows: impl FnOnce(&mut [F], &[F]) -> f64,
) -> Var {
    let first = inputs[0].0;
    let last = inputs[inputs.len() - 1].0;
    let mut total = 0.0;
    let slope = tape.computed(tape.shape(first), |values, out| {
        out.copy_from_slice(values.slice(first));
        total = rows(out, values.slice(last));
    });
    let vars: Vec<Var> = inputs.iter().map(|(var, _)| *var).collect();
    let factors = inputs.to_vec();
    tape.record(
        Shape::SCALAR,
        &vars,
        |_, out| out[0] = F::from_f64(total),
        move |up, gradients| {
            let slope = up.values.slice(slope);
            for (var, factor) in &factors {
                gradients.add(*var, |i| slope[i] * *factor * up.gradient[0]);
            }
        },
    )
}

/// The sum, in f64, of the losses that `rows` hands to what it is given.
fn added<F: Float>(rows: impl FnOnce(&mut dyn FnMut(F))) -> f64 {
    let mut total = 0.0;
    rows(&mut |loss: F| total += loss.to_f64());
    total
}

fn same_width<F: Float>(tape: &Tape<F>, prediction: Var, target: Var) -> usize {
    let shape = tape.shape(prediction);
    assert_eq!(shape, tape.shape(target), "a target per prediction");
    shape.width()
}

fn mean<F: Float>(tape: &mut Tape<F>, sum: Var, count: usize) -> Var {
    assert!(count > 0, "a mean needs a value");
    super::scale(tape, sum, F::ONE / F::from_f64(count as f64))
}
