//! What a row costs, as a job file says it.

use resilin_core::job::{JobError, Key, Section};

use crate::dataset::TargetKind;
use crate::models::RowLoss;

const LOSS: Key = Key::bits(
    "loss",
    "",
    "What a row costs; auto: cross-entropy for classes, squared error for values.",
);
const DELTA: Key = Key::bits(
    "huber_delta",
    "",
    "Error from which Huber's loss rises linearly.",
)
.range("above 0");
const WEIGHTS: Key = Key::bits(
    "class_weights",
    "",
    "Weight of each class in the loss and in the mean over a step; scores leave them out.",
)
.range("above 0");

const NAMES: [&str; 5] = [
    "auto",
    "cross_entropy",
    "binary_cross_entropy",
    "squared_error",
    "huber",
];

/// `loss`, with `huber_delta` where it is Huber's and `class_weights` where it is cross-entropy.
pub(super) fn row_loss(
    section: &mut Section<'_>,
    targets: TargetKind,
) -> Result<RowLoss, JobError> {
    let name = section.choice(&LOSS, Some("auto"), &NAMES)?;
    let loss = match name.as_str() {
        "cross_entropy" => RowLoss::CrossEntropy,
        "binary_cross_entropy" => RowLoss::BinaryCrossEntropy,
        "squared_error" => RowLoss::SquaredError,
        "huber" => RowLoss::Huber {
            delta: section.float(&DELTA, Some(1.0), 1e-6..=1e6)? as f32,
        },
        _ => RowLoss::usual(targets),
    };
    let loss = match loss {
        RowLoss::CrossEntropy => match section.optional_floats(&WEIGHTS, 1e-6..=1e6)? {
            Some(weights) => {
                let weights = weights.into_iter().map(|w| w as f32).collect();
                RowLoss::WeightedCrossEntropy(weights)
            }
            None => RowLoss::CrossEntropy,
        },
        RowLoss::WeightedCrossEntropy(_)
        | RowLoss::BinaryCrossEntropy
        | RowLoss::SquaredError
        | RowLoss::Huber { .. } => loss,
    };
    match loss.outputs(targets) {
        Ok(_) => Ok(loss),
        Err(error) => Err(section.error(LOSS.name, error)),
    }
}
