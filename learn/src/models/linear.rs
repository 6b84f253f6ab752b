//! `linear`: linear regression with squared error.

use super::layers::{Layers, LayersConfig, Start};
use super::{RowLoss, Rows, model_of_layers};
use crate::dataset::TargetKind;
use crate::model::ModelError;

/// What a linear regression looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinearConfig {
    /// Values in a row.
    pub inputs: usize,
    /// Target values in a row.
    pub outputs: u32,
    /// Whether each output has a bias.
    pub bias: bool,
}

/// Linear regression; a row's loss is the mean of its squared errors; weights start at zero.
pub struct Linear {
    layers: Layers,
}

impl Linear {
    /// The model of a configuration.
    ///
    /// # Errors
    /// No input or no output.
    pub fn new(config: LinearConfig) -> Result<Self, ModelError> {
        let loss = RowLoss::usual(TargetKind::Values(config.outputs));
        Self::with_loss(config, loss)
    }

    /// The model with another loss than the usual one.
    ///
    /// # Errors
    /// As [`Self::new`], and a loss of another kind of target.
    pub fn with_loss(config: LinearConfig, loss: RowLoss) -> Result<Self, ModelError> {
        let rows = Rows {
            width: config.inputs,
            targets: TargetKind::Values(config.outputs),
        };
        let layers = Layers::new(LayersConfig {
            bias: config.bias,
            start: Start::Zero,
            loss,
            ..LayersConfig::flat(rows)
        })?;
        Ok(Self { layers })
    }
}

model_of_layers!(Linear);
