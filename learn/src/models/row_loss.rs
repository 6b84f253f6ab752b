//! What a row costs: the loss at the end of a built-in model, with its gradient.

use crate::autograd::{Tape, Var, ops};
use crate::dataset::{TargetKind, Targets};
use crate::math::{
    Float, binary_cross_entropy, cross_entropy, huber, largest, squared_error,
    weighted_cross_entropy,
};
use crate::model::ModelError;

/// The loss of a row of outputs. Several outputs of values count with their mean.
#[derive(Clone, Debug, PartialEq)]
pub enum RowLoss {
    /// Softmax cross-entropy with the row's class.
    CrossEntropy,
    /// Softmax cross-entropy times the weight of the row's class, which is the row's weight in the
    /// mean over a step too. Scores leave the weights out.
    WeightedCrossEntropy(Vec<f32>),
    /// Cross-entropy of one logit with the second of two classes, or of logits with values in
    /// [0, 1].
    BinaryCrossEntropy,
    /// Squared error.
    SquaredError,
    /// Huber's loss: half the squared error up to `delta`, linear beyond.
    Huber {
        /// Where it becomes linear, above 0.
        delta: f32,
    },
}

impl RowLoss {
    /// What rows have if nothing is said: cross-entropy for classes, squared error for values.
    #[must_use]
    pub fn usual(targets: TargetKind) -> Self {
        match targets {
            TargetKind::Classes(_) => Self::CrossEntropy,
            TargetKind::Values(_) => Self::SquaredError,
        }
    }

    /// Outputs that a model of such rows has: one a class or value, one alone for two classes with
    /// a single logit.
    ///
    /// # Errors
    /// A loss of another kind of target, or weights of another number of classes.
    pub fn outputs(&self, targets: TargetKind) -> Result<usize, ModelError> {
        let refused = |message: String| Err(ModelError(message));
        match (self, targets) {
            (Self::CrossEntropy, TargetKind::Classes(count))
            | (
                Self::BinaryCrossEntropy | Self::SquaredError | Self::Huber { .. },
                TargetKind::Values(count),
            ) => Ok(count as usize),
            (Self::WeightedCrossEntropy(weights), TargetKind::Classes(count)) => {
                if weights.len() == count as usize {
                    return Ok(weights.len());
                }
                refused(format!(
                    "{} class weights for {count} classes; give one for each",
                    weights.len()
                ))
            }
            (Self::BinaryCrossEntropy, TargetKind::Classes(2)) => Ok(1),
            (Self::BinaryCrossEntropy, TargetKind::Classes(count)) => refused(format!(
                "binary cross-entropy is for two classes, and the rows have {count}; use cross_entropy"
            )),
            (Self::SquaredError | Self::Huber { .. }, TargetKind::Classes(_)) => refused(
                "the rows have classes: use cross_entropy, or binary_cross_entropy for two".into(),
            ),
            (Self::CrossEntropy | Self::WeightedCrossEntropy(_), TargetKind::Values(_)) => refused(
                "the rows have values: use squared_error, huber, or binary_cross_entropy".into(),
            ),
        }
    }

    /// The loss without weights of classes: that of scores.
    #[must_use]
    pub fn scored(&self) -> &Self {
        match self {
            Self::WeightedCrossEntropy(_) => &Self::CrossEntropy,
            Self::CrossEntropy
            | Self::BinaryCrossEntropy
            | Self::SquaredError
            | Self::Huber { .. } => self,
        }
    }

    /// What the sum of some rows' gradients is divided by, with those of the whole step.
    #[must_use]
    pub fn weight(&self, targets: &Targets, rows: usize) -> f64 {
        match (self, targets) {
            (Self::WeightedCrossEntropy(weights), Targets::Classes(classes)) => classes
                .iter()
                .map(|class| f64::from(weights[*class as usize]))
                .fold(0.0, |total, weight| total + weight),
            (
                Self::WeightedCrossEntropy(_)
                | Self::CrossEntropy
                | Self::BinaryCrossEntropy
                | Self::SquaredError
                | Self::Huber { .. },
                Targets::Classes(_) | Targets::Values { .. },
            ) => rows as f64,
        }
    }

    /// Replaces the outputs of rows by the gradient of the sum of their losses, which it returns.
    ///
    /// # Panics
    /// If targets are of another kind or number than [`Self::outputs`] and [`super::Rows::check`] allow.
    pub fn pull<F: Float>(&self, outputs: &mut [F], targets: &Targets) -> f64 {
        let mut sum = 0.0;
        match (self, targets) {
            (Self::CrossEntropy, Targets::Classes(classes)) => {
                let width = outputs.len() / classes.len().max(1);
                cross_entropy(outputs, width, classes, |loss| sum += loss.to_f64());
            }
            (Self::WeightedCrossEntropy(weights), Targets::Classes(classes)) => {
                let weights: Vec<F> = weights.iter().map(|w| F::from_f32(*w)).collect();
                let add = |loss: F| sum += loss.to_f64();
                weighted_cross_entropy(outputs, classes, &weights, add);
            }
            (Self::BinaryCrossEntropy, Targets::Classes(classes)) => {
                let targets = classes.iter().map(|class| F::from_f64(f64::from(*class)));
                binary_cross_entropy(outputs, 1, targets, |loss| sum += loss.to_f64());
            }
            (
                Self::BinaryCrossEntropy | Self::SquaredError | Self::Huber { .. },
                Targets::Values { width, values },
            ) => {
                let share = F::ONE / F::from_f64(*width as f64);
                let values = values.iter().map(|value| F::from_f32(*value));
                sum = self.pull_values(outputs, (*width, share), values);
            }
            (Self::SquaredError | Self::Huber { .. }, Targets::Classes(_))
            | (Self::CrossEntropy | Self::WeightedCrossEntropy(_), Targets::Values { .. }) => {
                panic!("a loss fits the kind of targets: it was checked")
            }
        }
        sum
    }

    /// [`Self::pull`] for rows of `width` values, of which each counts with `share`.
    fn pull_values<F: Float>(
        &self,
        outputs: &mut [F],
        (width, share): (usize, F),
        values: impl ExactSizeIterator<Item = F>,
    ) -> f64 {
        let mut sum = 0.0;
        let add = |loss: F| sum += (loss * share).to_f64();
        match self {
            Self::BinaryCrossEntropy => binary_cross_entropy(outputs, width, values, add),
            Self::Huber { delta } => huber(outputs, width, values, F::from_f32(*delta), add),
            Self::SquaredError | Self::CrossEntropy | Self::WeightedCrossEntropy(_) => {
                squared_error(outputs, width, values, add);
                outputs.iter_mut().for_each(|slope| *slope *= F::TWO);
            }
        }
        outputs.iter_mut().for_each(|slope| *slope *= share);
        sum
    }

    /// The sum of the rows' losses on a tape.
    pub(super) fn on_tape<F: Float>(
        &self,
        tape: &mut Tape<F>,
        outputs: Var,
        targets: &Targets,
    ) -> Var {
        ops::loss_with_slopes(tape, outputs, |slopes| self.pull(slopes, targets))
    }

    /// Appends what outputs of rows predict: a value a class, of which the largest is the predicted
    /// one, or the values. A single logit is that of the second class, beside 0 for the first.
    pub(super) fn predictions(&self, outputs: &[f32], targets: TargetKind, to: &mut Vec<f32>) {
        match (self, targets) {
            (Self::BinaryCrossEntropy, TargetKind::Classes(_)) => {
                to.extend(outputs.iter().flat_map(|logit| [0.0, *logit]));
            }
            (
                Self::BinaryCrossEntropy
                | Self::CrossEntropy
                | Self::WeightedCrossEntropy(_)
                | Self::SquaredError
                | Self::Huber { .. },
                TargetKind::Classes(_) | TargetKind::Values(_),
            ) => to.extend_from_slice(outputs),
        }
    }

    /// Rows whose class is predicted: by the largest output, or by the sign of a single logit;
    /// `None` for values.
    #[must_use]
    pub fn correct(&self, outputs: &[f32], targets: &Targets) -> Option<u64> {
        let Targets::Classes(classes) = targets else {
            return None;
        };
        let width = outputs.len() / classes.len().max(1);
        let predicted = |row: &[f32]| match row {
            [logit] => u32::from(*logit > 0.0),
            row => u32::try_from(largest(row)).expect("classes are u32"),
        };
        let rows = outputs.chunks_exact(width.max(1)).zip(classes);
        let right = rows.filter(|(row, class)| predicted(row) == **class);
        Some(right.count() as u64)
    }
}
