//! `mlp`: dense layers with an activation and dropout between them, for classes or values.

use super::layers::{Layers, LayersConfig};
use super::{RowLoss, Rows, model_of_layers};
use crate::math::Activation;
use crate::model::ModelError;

/// What a multi-layer perceptron looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct MlpConfig {
    /// The rows it takes: input width, and classes (cross-entropy) or values (squared error).
    pub rows: Rows,
    /// Width of each hidden layer, from the input on; without any it is linear.
    pub hidden: Vec<usize>,
    /// What follows each hidden layer.
    pub activation: Activation,
    /// Share of each hidden layer's outputs that is dropped in training, in [0, 1).
    pub dropout: f32,
}

/// A multi-layer perceptron with tensors `layer0.weight` [in, out], `layer0.bias` and so on.
pub struct Mlp {
    layers: Layers,
}

impl Mlp {
    /// The model of a configuration.
    ///
    /// # Errors
    /// A layer without width, or a dropout rate outside [0, 1).
    pub fn new(config: MlpConfig) -> Result<Self, ModelError> {
        let loss = RowLoss::usual(config.rows.targets);
        Self::with_loss(config, loss)
    }

    /// The model with another loss than the usual one.
    ///
    /// # Errors
    /// As [`Self::new`], and a loss of another kind of target.
    pub fn with_loss(config: MlpConfig, loss: RowLoss) -> Result<Self, ModelError> {
        let MlpConfig {
            rows,
            hidden,
            activation,
            dropout,
        } = config;
        let layers = Layers::new(LayersConfig {
            rows,
            hidden,
            activation,
            dropout,
            loss,
            ..LayersConfig::flat(rows)
        })?;
        Ok(Self { layers })
    }
}

model_of_layers!(Mlp);
