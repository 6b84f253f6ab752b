//! The tensors that a command names, checked before memory is made for them.

use std::collections::BTreeSet;

use resilin_core::layout::{Entry, Role};

use crate::fault::Fault;
use crate::message;
use crate::pool::Description;

/// The most values of a model, as for any other.
const MOST_PARAMETERS: usize = 1 << 31;

/// Longest name of a tensor, in bytes.
const LONGEST_NAME: usize = 256;

/// The tensors as entries of a layout.
pub(crate) fn entries(description: &Description) -> Result<Vec<Entry>, Fault> {
    let mut names = BTreeSet::new();
    for tensor in &description.tensors {
        let name = tensor.name.as_str();
        let plain = (1..=LONGEST_NAME).contains(&name.len()) && !name.contains(char::is_control);
        if !plain {
            return Err(Fault::Wrong(format!(
                "names a tensor {:?}; names have 1 to {LONGEST_NAME} bytes on one line",
                name.chars().take(40).collect::<String>()
            )));
        }
        if !names.insert(name) {
            return Err(Fault::Wrong(format!(
                "names two tensors {name:?}; give each its own name"
            )));
        }
    }
    let entry = |tensor: &message::Tensor| Entry {
        name: tensor.name.clone(),
        shape: tensor.shape.clone(),
        role: match tensor.role {
            message::Role::Trained => Role::Trained,
            message::Role::Buffer => Role::Buffer,
        },
    };
    Ok(description.tensors.iter().map(entry).collect())
}

/// How many values they have.
pub(crate) fn parameters(entries: &[Entry]) -> Result<usize, Fault> {
    let mut sum = 0_usize;
    for Entry { name, shape, .. } in entries {
        let product = shape
            .iter()
            .try_fold(1_usize, |p, size| p.checked_mul(*size));
        let values = product.filter(|values| (1..=MOST_PARAMETERS).contains(values));
        let values = values.ok_or_else(|| {
            Fault::Wrong(format!(
                "names a tensor {name:?} of shape {shape:?}; a tensor has 1 to {MOST_PARAMETERS} \
                 values"
            ))
        })?;
        sum = sum.saturating_add(values);
    }
    match sum {
        1..=MOST_PARAMETERS => Ok(sum),
        0 => Err(Fault::Wrong(
            "names no tensor; a model has at least one".into(),
        )),
        _ => Err(Fault::Wrong(format!(
            "names tensors of {sum} values, more than {MOST_PARAMETERS} (8 GiB as f32); use \
             smaller layers"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tensors: &[(&str, &[usize])]) -> Result<usize, String> {
        let tensor = |(name, shape): &(&str, &[usize])| message::Tensor {
            name: (*name).into(),
            shape: shape.to_vec(),
            role: message::Role::Trained,
        };
        let description = Description {
            tensors: tensors.iter().map(tensor).collect(),
            fingerprint: String::new(),
            predicts: false,
        };
        let entries = entries(&description).map_err(|fault| fault.to_string())?;
        parameters(&entries).map_err(|fault| fault.to_string())
    }

    #[test]
    fn values_are_counted() {
        assert_eq!(of(&[("w", &[2, 3]), ("b", &[3]), ("scale", &[])]), Ok(10));
    }

    #[test]
    fn what_no_model_has_is_refused() {
        let huge = usize::MAX;
        for (tensors, why) in [
            (&[][..], "names no tensor; a model has at least one"),
            (
                &[("w", &[1][..]), ("w", &[2])],
                "names two tensors \"w\"; give each its own name",
            ),
            (
                &[("", &[1])],
                "names a tensor \"\"; names have 1 to 256 bytes on one line",
            ),
            (
                &[("w", &[2, 0])],
                "names a tensor \"w\" of shape [2, 0]; a tensor has 1 to 2147483648 values",
            ),
            (
                &[("w", &[huge, 2])],
                "names a tensor \"w\" of shape [18446744073709551615, 2]; a tensor has 1 to \
                 2147483648 values",
            ),
            (
                &[("v", &[1 << 31]), ("w", &[1])],
                "names tensors of 2147483649 values, more than 2147483648 (8 GiB as f32); use \
                 smaller layers",
            ),
        ] {
            assert_eq!(of(tensors), Err(why.into()));
        }
    }
}
