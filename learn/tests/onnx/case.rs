//! The file's cases.

use std::collections::BTreeMap;

use resilin_learn::math::Float;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
pub(crate) struct Goldens {
    pub(crate) skipped: BTreeMap<String, String>,
    pub(crate) cases: Vec<Case>,
}

impl Goldens {
    pub(crate) fn read() -> Self {
        serde_json::from_str(include_str!("../data/onnx.json")).expect("the file is JSON")
    }
}

#[derive(Deserialize)]
pub(crate) struct Tensor {
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
}

impl Tensor {
    pub(crate) fn cast<F: Float>(&self) -> Vec<F> {
        self.values
            .iter()
            .map(|value| F::from_f64(*value))
            .collect()
    }

    /// Whole numbers, such as axes.
    pub(crate) fn numbers(&self) -> Vec<i64> {
        self.values.iter().map(|value| *value as i64).collect()
    }
}

#[derive(Deserialize)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) operation: String,
    attributes: BTreeMap<String, Value>,
    pub(crate) inputs: Vec<Tensor>,
    pub(crate) outputs: Vec<Tensor>,
}

impl Case {
    pub(crate) fn number(&self, name: &str, usual: f64) -> f64 {
        let value = self.attributes.get(name);
        value.map_or(usual, |value| value.as_f64().expect("a number"))
    }

    pub(crate) fn word(&self, name: &str, usual: &str) -> String {
        let value = self.attributes.get(name);
        value
            .map_or(usual, |value| value.as_str().expect("a text"))
            .into()
    }

    pub(crate) fn list(&self, name: &str) -> Option<Vec<i64>> {
        let values = self.attributes.get(name)?.as_array().expect("a list");
        Some(
            values
                .iter()
                .map(|value| value.as_i64().expect("whole"))
                .collect(),
        )
    }

    /// Dimensions of the first input.
    pub(crate) fn sizes(&self) -> &[usize] {
        &self.inputs[0].shape
    }

    /// A dimension that may count from the end.
    pub(crate) fn axis(&self, axis: i64) -> usize {
        axis.rem_euclid(self.sizes().len() as i64) as usize
    }

    /// Dimensions to reduce, from the attribute or the second input; all if there are none.
    pub(crate) fn axes(&self) -> Vec<usize> {
        let listed = self.list("axes");
        let listed = listed.or_else(|| self.inputs.get(1).map(Tensor::numbers));
        match listed {
            Some(axes) => axes.into_iter().map(|axis| self.axis(axis)).collect(),
            None => (0..self.sizes().len()).collect(),
        }
    }
}
