//! Losses over rows, each with its gradient: shared by the tape and by the built-in models, so that
//! both give the same bits. Losses are added in f64, row by row.

use super::{Float, exp, exp_each, sigmoid, sum, sum_of};

/// Softmax cross-entropy of logits, `width` a row. Replaces the logits by the gradient of the sum
/// of losses (softmax - one-hot) and hands each row's loss to `loss`.
///
/// # Panics
/// If a class is not below `width`, or the counts differ.
pub fn cross_entropy<F: Float>(
    logits: &mut [F],
    width: usize,
    classes: &[u32],
    mut loss: impl FnMut(F),
) {
    assert_eq!(
        logits.len(),
        width * classes.len(),
        "a row of logits per class"
    );
    for (row, class) in logits.chunks_exact_mut(width).zip(classes) {
        let class = *class as usize;
        subtract_highest(row);
        let own = row[class];
        exp_each(row);
        let total = sum(row);
        loss(total.ln() - own);
        for value in row.iter_mut() {
            *value = *value / total;
        }
        row[class] = row[class] - F::ONE;
    }
}

/// [`cross_entropy`] with each row's loss and gradient times the weight of its class; a row is as
/// long as `weights`.
///
/// # Panics
/// If a class has no weight, or the counts differ.
pub fn weighted_cross_entropy<F: Float>(
    logits: &mut [F],
    classes: &[u32],
    weights: &[F],
    mut loss: impl FnMut(F),
) {
    let width = weights.len();
    assert_eq!(
        logits.len(),
        width * classes.len(),
        "a row of logits per class"
    );
    for (row, class) in logits.chunks_exact_mut(width.max(1)).zip(classes) {
        let weight = weights[*class as usize];
        cross_entropy(row, width, &[*class], |own| loss(own * weight));
        row.iter_mut().for_each(|value| *value *= weight);
    }
}

/// Binary cross-entropy of logits, each with a target in [0, 1]. Replaces the logits by the gradient
/// of the sum of losses (sigmoid - target) and hands each row's loss to `loss`.
///
/// # Panics
/// If the lengths differ.
pub fn binary_cross_entropy<F: Float>(
    logits: &mut [F],
    width: usize,
    targets: impl ExactSizeIterator<Item = F>,
    mut loss: impl FnMut(F),
) {
    assert_eq!(logits.len(), targets.len(), "a target per logit");
    let mut targets = targets;
    for row in logits.chunks_exact_mut(width.max(1)) {
        let mut total = F::ZERO;
        for (logit, target) in row.iter_mut().zip(&mut targets) {
            // -y ln s(x) - (1 - y) ln(1 - s(x)), with ln s(x) = x - ln(1 + e^x).
            total += softplus(*logit) - *logit * target;
            *logit = sigmoid(*logit) - target;
        }
        loss(total);
    }
}

/// Huber's loss of predictions. Replaces them by the gradient of the sum of losses and hands each
/// row's loss to `loss`.
///
/// # Panics
/// If the lengths differ.
pub fn huber<F: Float>(
    predictions: &mut [F],
    width: usize,
    targets: impl ExactSizeIterator<Item = F>,
    delta: F,
    mut loss: impl FnMut(F),
) {
    assert_eq!(predictions.len(), targets.len(), "a target per prediction");
    let mut targets = targets;
    for row in predictions.chunks_exact_mut(width.max(1)) {
        let mut total = F::ZERO;
        for (prediction, target) in row.iter_mut().zip(&mut targets) {
            let difference = *prediction - target;
            let size = difference.magnitude();
            // Written so that a NaN goes the first way and stays.
            let beyond = size > delta;
            total += if beyond {
                delta * (size - F::HALF * delta)
            } else {
                F::HALF * (difference * difference)
            };
            *prediction = if beyond {
                delta.with_sign_of(difference)
            } else {
                difference
            };
        }
        loss(total);
    }
}

/// Replaces a row by its softmax.
pub fn softmax<F: Float>(row: &mut [F]) {
    subtract_highest(row);
    exp_each(row);
    let total = sum(row);
    for value in row {
        *value = *value / total;
    }
}

/// ln(1 + e^x), from e^-|x| so that neither end overflows.
#[must_use]
pub fn softplus<F: Float>(x: F) -> F {
    let positive = if x < F::ZERO { F::ZERO } else { x };
    positive + (F::ONE + exp(-x.magnitude())).ln()
}

/// Replaces logits, `width` a row, by the logarithm of their softmax.
pub fn log_softmax<F: Float>(logits: &mut [F], width: usize) {
    for row in logits.chunks_exact_mut(width) {
        subtract_highest(row);
        let logarithm = sum_of(width, |i| exp(row[i])).ln();
        for value in row.iter_mut() {
            *value = *value - logarithm;
        }
    }
}

/// Squared error of predictions. Replaces them by their differences from the targets and hands
/// each row's sum of squares to `loss`.
///
/// # Panics
/// If the lengths differ.
pub fn squared_error<F: Float>(
    predictions: &mut [F],
    width: usize,
    targets: impl ExactSizeIterator<Item = F>,
    mut loss: impl FnMut(F),
) {
    assert_eq!(predictions.len(), targets.len(), "a target per prediction");
    for (prediction, target) in predictions.iter_mut().zip(targets) {
        *prediction = *prediction - target;
    }
    for row in predictions.chunks_exact(width) {
        loss(sum_of(width, |i| row[i] * row[i]));
    }
}

/// Index of a row's largest value, the first of equal ones: the predicted class.
#[must_use]
pub fn largest<F: Float>(row: &[F]) -> usize {
    let better = |best: usize, next: usize| if row[next] > row[best] { next } else { best };
    (0..row.len()).reduce(better).unwrap_or(0)
}

/// Subtracts a row's largest value, so that its exponentials cannot overflow.
fn subtract_highest<F: Float>(row: &mut [F]) {
    let highest = row
        .iter()
        .copied()
        .reduce(|highest, value| if value > highest { value } else { highest })
        .unwrap_or(F::ZERO);
    for value in row.iter_mut() {
        *value = *value - highest;
    }
}
