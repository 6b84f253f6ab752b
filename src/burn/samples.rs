//! Rows as tensors of Burn.

use burn::tensor::{Device, Int, Tensor, TensorData};

use resilin_learn::dataset::{Batch, Targets};

/// Rows of a microbatch, on the device of the module that sees them.
#[derive(Clone, Debug)]
pub struct Samples {
    /// Their values, [rows, width].
    pub features: Tensor<2>,
    targets: Wanted,
}

#[derive(Clone, Debug)]
enum Wanted {
    Classes(Tensor<1, Int>),
    Values(Tensor<2>),
}

impl Samples {
    pub(super) fn new(batch: &Batch, device: &Device) -> Self {
        let targets = match &batch.targets {
            Targets::Classes(classes) => {
                let classes: Vec<i64> = classes.iter().copied().map(i64::from).collect();
                let shape = [classes.len()];
                Wanted::Classes(Tensor::from_data(TensorData::new(classes, shape), device))
            }
            Targets::Values { width, values } => {
                let data = TensorData::new(values.clone(), [batch.rows, *width]);
                Wanted::Values(Tensor::from_data(data, device))
            }
        };
        Self {
            features: features(batch, device),
            targets,
        }
    }

    /// Where the rows are, and what else a loss makes belongs.
    #[must_use]
    pub fn device(&self) -> Device {
        self.features.device()
    }

    /// One class a row.
    ///
    /// # Panics
    /// If the rows have values to predict: the model was made for other rows.
    #[must_use]
    pub fn classes(&self) -> Tensor<1, Int> {
        match &self.targets {
            Wanted::Classes(classes) => classes.clone(),
            Wanted::Values(_) => panic!("the rows have values to predict; take `values`"),
        }
    }

    /// The values to predict, [rows, values a row].
    ///
    /// # Panics
    /// If the rows have classes: the model was made for other rows.
    #[must_use]
    pub fn values(&self) -> Tensor<2> {
        match &self.targets {
            Wanted::Values(values) => values.clone(),
            Wanted::Classes(_) => panic!("the rows have classes; take `classes`"),
        }
    }
}

/// The values of rows alone.
pub(super) fn features(batch: &Batch, device: &Device) -> Tensor<2> {
    let data = TensorData::new(batch.features.clone(), [batch.rows, batch.width]);
    Tensor::from_data(data, device)
}
