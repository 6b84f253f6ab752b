//! Compares a loss's gradient with central differences in f64.

use resilin_core::layout::{Entry, Role};

use super::{Parameters, Tape, Tensor, Var, ops};
use crate::model::ModelError;

/// Step of the differences relative to a weight's size: about the cube root of f64's precision,
/// where truncation and rounding errors are equal.
const STEP: f64 = 6e-6;

/// Checks the gradient of `loss` at `weights` against central differences, to
/// `tolerance * max(1, |value|)`. A loss with draws must make the same ones each time. Buffers are
/// passed over: what stands in their place is no gradient.
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
        if entry.role == Role::Buffer {
            index += entry.len();
            continue;
        }
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

/// Checks the vector-Jacobian products of `function` at `arguments` against central differences, as
/// [`check_gradient`] does: every value of the result gets another gradient from above. For
/// operations of your own.
///
/// # Errors
/// The first value whose gradient differs, by the argument's number and the value's index.
pub fn check_function(
    arguments: &[Tensor<f64>],
    tolerance: f64,
    function: impl Fn(&mut Tape<f64>, &[Var]) -> Var,
) -> Result<(), ModelError> {
    let parameters = Parameters::new(numbered(arguments))?;
    let weights: Vec<f64> = arguments.iter().flat_map(Tensor::values).copied().collect();
    check_gradient(&parameters, &weights, tolerance, |tape| {
        let numbers = 0..arguments.len();
        let vars: Vec<Var> = numbers.map(|i| tape.parameter(&i.to_string())).collect();
        let value = function(tape, &vars);
        unevenly(tape, value)
    })
}

/// The arguments as parameters named by their numbers.
pub(super) fn numbered(arguments: &[Tensor<f64>]) -> Vec<Entry> {
    let entry = |(number, tensor): (usize, &Tensor<f64>)| Entry {
        name: number.to_string(),
        shape: tensor.shape().dimensions().to_vec(),
        role: Role::Trained,
    };
    arguments.iter().enumerate().map(entry).collect()
}

/// The sum of some values, each with another factor: neither equal nor of one sign, so that no
/// error cancels.
pub(super) fn unevenly(tape: &mut Tape<f64>, value: Var) -> Var {
    let shape = tape.shape(value);
    let uneven: Vec<f64> = (0..shape.len())
        .map(|i| 0.3 + libm::sin(1.0 + i as f64))
        .collect();
    let factors = tape.constant(shape.dimensions(), &uneven);
    let weighted = ops::mul(tape, value, factors);
    ops::sum(tape, weighted)
}
