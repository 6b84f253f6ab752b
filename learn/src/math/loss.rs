//! Losses over rows, each with its gradient: shared by the tape and by the built-in models, so that
//! both give the same bits. Losses are added in f64, row by row.

use super::{Float, exp, exp_each, sum, sum_of};

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
