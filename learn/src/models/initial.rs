//! Initial weights, drawn from a stream per tensor: adding a layer changes no other tensor's draws.

use resilin_core::random::{Key, Purpose, Stream};

use crate::math::Activation;

/// How the weights of a dense layer start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Initial {
    /// All zero: for convex models, where the start does not matter.
    Zero,
    /// Normal with variance 2 / inputs (He et al. 2015), for layers before a rectifier.
    He,
    /// Uniform within sqrt(6 / (inputs + outputs)) (Glorot and Bengio 2010).
    Glorot,
}

impl Initial {
    /// What suits a layer that feeds `activation`, or the output if there is none.
    pub(super) fn before(activation: Option<Activation>) -> Self {
        match activation {
            Some(Activation::Relu) => Self::He,
            Some(Activation::Tanh | Activation::Sigmoid) | None => Self::Glorot,
        }
    }

    /// The stream of tensor number `tensor`.
    pub(super) fn stream(seed: u64, tensor: u32) -> Stream {
        let key = Key {
            index: tensor,
            ..Key::new(seed, Purpose::Initial)
        };
        key.stream()
    }

    /// Fills `weights`, a matrix of `inputs` rows, from the tensor's stream.
    pub(super) fn fill(self, mut stream: Stream, inputs: usize, weights: &mut [f32]) {
        let outputs = weights.len() / inputs.max(1);
        match self {
            Self::Zero => weights.fill(0.0),
            Self::He => {
                let deviation = libm::sqrt(2.0 / inputs as f64);
                for weight in weights {
                    *weight = (stream.normal() * deviation) as f32;
                }
            }
            Self::Glorot => {
                let bound = libm::sqrt(6.0 / (inputs + outputs) as f64);
                for weight in weights {
                    *weight = ((2.0 * stream.unit_f64() - 1.0) * bound) as f32;
                }
            }
        }
    }
}
