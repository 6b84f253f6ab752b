//! The built-in models, and a model of any loss on a tape.
//!
//! `linear`, `softmax` and `mlp` are dense layers over one engine, `layers`, written by hand on the
//! functions of [`crate::math`] for speed; tests hold them equal, to the bit, to the tape. `cnn`,
//! `transformer`, `factorization` and `vae` are layers on the tape, over `on_tape`.

mod averaged;
mod closure;
mod cnn;
mod factorization;
mod initial;
mod layers;
mod linear;
mod mlp;
mod named_loss;
mod on_tape;
mod parts;
mod pass;
mod row_loss;
mod rows;
mod softmax;
mod transformer;
mod vae;

pub use averaged::Averaged;
pub use closure::{ClosureModel, Draws};
pub use cnn::{Cnn, CnnConfig, CnnNetwork, Layer, Norm};
pub use factorization::{Factorization, FactorizationConfig, FactorizationNetwork};
pub use linear::{Linear, LinearConfig};
pub use mlp::{Mlp, MlpConfig};
pub use named_loss::NamedLoss;
pub use on_tape::{Network, OnTape, training_loss};
pub use row_loss::RowLoss;
pub use rows::Rows;
pub use softmax::{Softmax, SoftmaxConfig};
pub use transformer::{Transformer, TransformerConfig, TransformerNetwork};
pub use vae::{Vae, VaeConfig, VaeNetwork};

/// Implements `Model` for a struct with a field `layers` by handing every call on.
macro_rules! model_of_layers {
    ($model:ident) => {
        impl $crate::model::Model for $model {
            fn repeats(&self) -> $crate::model::Repeats {
                $crate::model::Repeats::ByConstruction
            }

            fn entries(&self) -> Vec<resilin_core::layout::Entry> {
                self.layers.entries()
            }

            fn initialise(&self, seed: u64, weights: &mut [f32]) {
                self.layers.initialise(seed, weights);
            }

            fn workspace(&self) -> $crate::model::Workspace {
                self.layers.workspace()
            }

            fn evaluate(
                &self,
                weights: &[f32],
                microbatches: &[$crate::model::Microbatch<'_>],
                workspace: &mut $crate::model::Workspace,
                sink: &mut dyn $crate::model::Sink,
            ) -> Result<(), $crate::model::ModelError> {
                self.layers.evaluate(weights, microbatches, workspace, sink)
            }

            fn score(
                &self,
                weights: &[f32],
                batch: &$crate::dataset::Batch,
                workspace: &mut $crate::model::Workspace,
            ) -> Result<$crate::model::Score, $crate::model::ModelError> {
                self.layers.score(weights, batch, workspace)
            }

            fn predict(
                &self,
                weights: &[f32],
                batch: &$crate::dataset::Batch,
                workspace: &mut $crate::model::Workspace,
                outputs: &mut Vec<f32>,
            ) -> Result<usize, $crate::model::ModelError> {
                self.layers.predict(weights, batch, workspace, outputs)
            }
        }
    };
}
use model_of_layers;
