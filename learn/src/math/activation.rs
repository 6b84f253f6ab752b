//! What stands between two dense layers: an activation and, where asked for, a dropout mask.

use resilin_core::random::Stream;
use serde::{Deserialize, Serialize};

use super::{Float, sigmoid_each, tanh_each};

/// The function between two dense layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Hyperbolic tangent.
    Tanh,
    /// max(x, 0); its slope at 0 is 0.
    Relu,
    /// 1 / (1 + e^-x).
    Sigmoid,
}

impl Activation {
    /// Replaces each value by its activation.
    pub fn apply<F: Float>(self, values: &mut [F]) {
        match self {
            Self::Tanh => tanh_each(values),
            Self::Sigmoid => sigmoid_each(values),
            Self::Relu => {
                for value in values {
                    // Written so that a NaN stays one and is found, not hidden.
                    *value = if *value < F::ZERO { F::ZERO } else { *value };
                }
            }
        }
    }

    /// Turns the gradient of `outputs` into that of the values they were made from.
    pub fn pull_back<F: Float>(self, outputs: &[F], gradient: &mut [F]) {
        for (gradient, output) in gradient.iter_mut().zip(outputs) {
            *gradient = self.slope(*output, *gradient);
        }
    }

    /// The gradient below an activation from its output and the gradient above.
    #[must_use]
    #[inline]
    pub fn slope<F: Float>(self, output: F, gradient: F) -> F {
        match self {
            Self::Tanh => gradient * (F::ONE - output * output),
            Self::Sigmoid => gradient * (output * (F::ONE - output)),
            Self::Relu => {
                if output > F::ZERO {
                    gradient
                } else {
                    F::ZERO
                }
            }
        }
    }
}

/// Fills a dropout mask: 1 / (1 - rate) where the draw is at least `rate`, else 0. The mask's value
/// at row x width + column takes the draw of that position, so rows do not see their neighbours.
pub fn dropout_mask<F: Float>(stream: &mut Stream, rate: f32, mask: &mut [F]) {
    stream.seek(0);
    let scale = F::ONE / (F::ONE - F::from_f32(rate));
    for value in mask {
        *value = if stream.unit_f32() >= rate {
            scale
        } else {
            F::ZERO
        };
    }
}
