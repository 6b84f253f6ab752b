//! A loss that is the weighted sum of several with names: what is trained is the sum, what is
//! reported is each.

use crate::autograd::{Tape, Var, ops};
use crate::math::Float;
use crate::model::{MOST_LOSSES, ModelError};

/// One of several losses.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedLoss {
    /// What reports call it.
    pub name: String,
    /// Its factor in the sum.
    pub weight: f64,
}

impl NamedLoss {
    /// A loss with a name and its factor.
    #[must_use]
    pub fn new(name: &str, weight: f64) -> Self {
        Self {
            name: name.into(),
            weight,
        }
    }
}

/// Whether a model can have these losses.
///
/// # Errors
/// None or too many, two of one name, or a factor that is no number.
pub(super) fn check(losses: &[NamedLoss]) -> Result<(), ModelError> {
    if losses.is_empty() || losses.len() > MOST_LOSSES {
        return Err(ModelError(format!(
            "{} losses; name 1 to {MOST_LOSSES}",
            losses.len()
        )));
    }
    for (number, loss) in losses.iter().enumerate() {
        let twice = losses[..number].iter().any(|other| other.name == loss.name);
        if twice || loss.name.is_empty() || !loss.weight.is_finite() {
            return Err(ModelError(format!(
                "loss `{}` with weight {}: give each a name of its own and a finite weight",
                loss.name, loss.weight
            )));
        }
    }
    Ok(())
}

/// The weighted sum, added in the losses' order.
///
/// # Panics
/// If there is not one value for each loss.
pub(super) fn weighted_sum<F: Float>(
    tape: &mut Tape<F>,
    losses: &[NamedLoss],
    values: &[Var],
) -> Var {
    assert_eq!(losses.len(), values.len(), "a value for each named loss");
    let mut sum = None;
    for (loss, value) in losses.iter().zip(values) {
        let part = ops::scale(tape, *value, F::from_f64(loss.weight));
        sum = Some(sum.map_or(part, |sum| ops::add(tape, sum, part)));
    }
    sum.expect("at least one loss")
}

/// The values of some losses, for a score.
pub(super) fn parts(tape: &Tape<f32>, values: &[Var]) -> [f64; MOST_LOSSES] {
    let mut parts = [0.0; MOST_LOSSES];
    for (part, value) in parts.iter_mut().zip(values) {
        *part = f64::from(tape.scalar(*value));
    }
    parts
}
