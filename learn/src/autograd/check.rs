//! Compares a loss's gradient with central differences in f64.

use super::{Parameters, Tape, Var};
use crate::model::ModelError;

/// Step of the differences relative to a weight's size: about the cube root of f64's precision,
/// where truncation and rounding errors are equal.
const STEP: f64 = 6e-6;

/// Checks the gradient of `loss` at `weights` against central differences, to
/// `tolerance * max(1, |value|)`. A loss with draws must make the same ones each time.
///
/// # Errors
/// The first weight whose gradient differs, by name and index.
pub fn check_gradient(
    parameters: &Parameters,
    weights: &[f64],
    tolerance: f64,
    loss: impl Fn(&mut Tape<f64>) -> Var,
) -> Result<(), ModelError> {
    let mut tape = Tape::new(parameters.clone());
    let mut gradient = vec![0.0; weights.len()];
    tape.load(weights);
    let var = loss(&mut tape);
    tape.backward(var, &mut gradient);

    let mut moved = weights.to_vec();
    let mut index = 0;
    for entry in parameters.entries() {
        for place in 0..entry.len() {
            let step = STEP * weights[index].abs().max(1.0);
            let mut at = |weight| {
                moved[index] = weight;
                tape.load(&moved);
                let var = loss(&mut tape);
                tape.scalar(var)
            };
            let rise = at(weights[index] + step) - at(weights[index] - step);
            at(weights[index]);
            let expected = rise / (2.0 * step);
            let found = gradient[index];
            let close = (found - expected).abs() <= tolerance * expected.abs().max(1.0);
            if !close {
                return Err(ModelError(format!(
                    "gradient of `{}`[{place}] is {found}, but the loss rises by {expected}; check the pull-back of its operations",
                    entry.name
                )));
            }
            index += 1;
        }
    }
    Ok(())
}
