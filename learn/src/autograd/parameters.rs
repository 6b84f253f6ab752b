//! The named parameters of a loss, and where each lies in the flat vector.

use std::collections::BTreeMap;
use std::ops::Range;

use resilin_core::layout::{Entry, Role};

use super::Shape;
use crate::model::ModelError;

/// Named tensors in one fixed flatten order: that of their entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    entries: Vec<Entry>,
    places: BTreeMap<String, (Range<usize>, Shape)>,
    len: usize,
}

impl Parameters {
    /// The parameters of these entries.
    ///
    /// # Errors
    /// Two entries with one name.
    pub fn new(entries: Vec<Entry>) -> Result<Self, ModelError> {
        let mut places = BTreeMap::new();
        let mut len = 0;
        for entry in &entries {
            let range = len..len + entry.len();
            len = range.end;
            let place = (range, Shape::new(&entry.shape));
            if places.insert(entry.name.clone(), place).is_some() {
                return Err(ModelError(format!(
                    "two parameters are named `{}`; give each its own name",
                    entry.name
                )));
            }
        }
        Ok(Self {
            entries,
            places,
            len,
        })
    }

    /// Trained parameters of these names and shapes.
    ///
    /// # Errors
    /// Two of one name.
    pub fn trained(tensors: &[(&str, &[usize])]) -> Result<Self, ModelError> {
        let entry = |(name, shape): &(&str, &[usize])| Entry {
            name: (*name).to_owned(),
            shape: shape.to_vec(),
            role: Role::Trained,
        };
        Self::new(tensors.iter().map(entry).collect())
    }

    /// Trained dense layers: for each name, inputs and outputs, a `NAME.weight` and a `NAME.bias`
    /// ([`ops::layer`](super::ops::layer)).
    ///
    /// # Errors
    /// Two of one name.
    pub fn layers(layers: &[(&str, usize, usize)]) -> Result<Self, ModelError> {
        let entry = |name: String, shape: Vec<usize>| Entry {
            name,
            shape,
            role: Role::Trained,
        };
        let entries = layers.iter().flat_map(|(name, inputs, outputs)| {
            [
                entry(format!("{name}.weight"), vec![*inputs, *outputs]),
                entry(format!("{name}.bias"), vec![*outputs]),
            ]
        });
        Self::new(entries.collect())
    }

    /// The named tensors in flatten order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Number of values in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no value at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Place and shape of a tensor.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<(Range<usize>, Shape)> {
        self.places.get(name).cloned()
    }
}
