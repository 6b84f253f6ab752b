//! `softmax`: logistic regression over classes with cross-entropy.

use super::layers::{Layers, LayersConfig, Start};
use super::{RowLoss, Rows, model_of_layers};
use crate::dataset::TargetKind;
use crate::model::ModelError;

/// What a softmax regression looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftmaxConfig {
    /// Values in a row.
    pub inputs: usize,
    /// Number of classes.
    pub classes: u32,
    /// Whether each class has a bias.
    pub bias: bool,
}

/// Logistic regression; all weights start at zero, so that the seed does not matter.
pub struct Softmax {
    layers: Layers,
}

impl Softmax {
    /// The model of a configuration.
    ///
    /// # Errors
    /// No input or no class.
    pub fn new(config: SoftmaxConfig) -> Result<Self, ModelError> {
        let loss = RowLoss::usual(TargetKind::Classes(config.classes));
        Self::with_loss(config, loss)
    }

    /// The model with another loss than the usual one.
    ///
    /// # Errors
    /// As [`Self::new`], and a loss of another kind of target.
    pub fn with_loss(config: SoftmaxConfig, loss: RowLoss) -> Result<Self, ModelError> {
        let rows = Rows {
            width: config.inputs,
            targets: TargetKind::Classes(config.classes),
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

model_of_layers!(Softmax);
