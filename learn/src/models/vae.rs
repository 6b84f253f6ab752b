//! `vae`: a variational autoencoder (Kingma and Welling 2014), the worked example of a loss of one's
//! own: two named losses over one network, with draws in the middle.
//!
//! A row becomes a normal distribution over a few values, one drawn point of it becomes a row again.
//! It costs what the row differs from itself (`reconstruction`), and how far the distribution is
//! from the standard one (`kl`). Classes or values of the rows are not looked at.

use resilin_core::layout::{Entry, Role};
use resilin_core::random::Purpose;

use super::initial::Initial;
use super::on_tape::{Network, OnTape};
use super::{Draws, NamedLoss, RowLoss, Rows, named_loss};
use crate::autograd::{Parameters, Tape, Var, ops};
use crate::dataset::{Batch, Targets};
use crate::math::{Activation, Float};
use crate::model::ModelError;

/// What an autoencoder looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct VaeConfig {
    /// The rows it takes: values in [0, 1].
    pub rows: Rows,
    /// Width of each hidden layer of the encoder, from the input on; the decoder has them turned
    /// round.
    pub hidden: Vec<usize>,
    /// Values that stand for a row.
    pub latent: usize,
    /// What follows each hidden layer.
    pub activation: Activation,
    /// Factor of the reconstruction loss.
    pub reconstruction_weight: f64,
    /// Factor of the divergence: above 1 for values that mean more by themselves (Higgins et al.
    /// 2017).
    pub kl_weight: f64,
}

/// A variational autoencoder with `encoder0.weight` ..., `mean.weight`, `log_variance.weight`,
/// `decoder0.weight` ... and `output.weight`, each with its `bias`.
pub type Vae = OnTape<VaeNetwork>;

/// The layers of a [`Vae`].
pub struct VaeNetwork {
    config: VaeConfig,
    parameters: Parameters,
    losses: Vec<NamedLoss>,
    /// Rows have one weight each: that of a loss without weights.
    loss: RowLoss,
}

impl VaeNetwork {
    /// The network of a configuration.
    ///
    /// # Errors
    /// A size of zero, or a weight that is no number.
    pub fn new(config: VaeConfig) -> Result<Self, ModelError> {
        if config.latent == 0 || config.rows.width == 0 || config.hidden.contains(&0) {
            return Err(ModelError(format!(
                "{} latent values of rows of {}: give every size at least 1",
                config.latent, config.rows.width
            )));
        }
        let losses = vec![
            NamedLoss::new("reconstruction", config.reconstruction_weight),
            NamedLoss::new("kl", config.kl_weight),
        ];
        named_loss::check(&losses)?;
        Ok(Self {
            parameters: Parameters::new(entries(&config))?,
            losses,
            loss: RowLoss::usual(config.rows.targets),
            config,
        })
    }
}

impl Network for VaeNetwork {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn rows(&self) -> Rows {
        self.config.rows
    }

    fn loss(&self) -> &RowLoss {
        &self.loss
    }

    fn losses(&self) -> &[NamedLoss] {
        &self.losses
    }

    fn is_choosy(&self) -> bool {
        true
    }

    fn check(&self, batch: &Batch) -> Result<(), ModelError> {
        self.rows().check_features(batch)?;
        match batch.features.iter().position(|x| !(0.0..=1.0).contains(x)) {
            None => Ok(()),
            Some(place) => Err(ModelError(format!(
                "a vae takes values from 0 to 1, and column {} of a row has {}; scale the rows",
                place % batch.width,
                batch.features[place]
            ))),
        }
    }

    /// Logits of the rows' values; the divergence is a term.
    fn outputs<F: Float>(
        &self,
        tape: &mut Tape<F>,
        batch: &Batch,
        draws: &Draws<'_>,
        terms: &mut Vec<Var>,
    ) -> Var {
        let mut x = tape.rows(batch.rows, batch.width, &batch.features);
        for layer in 0..self.config.hidden.len() {
            x = self.hidden(tape, &format!("encoder{layer}"), x);
        }
        let mean = ops::layer(tape, x, "mean");
        let log_variance = ops::layer(tape, x, "log_variance");
        terms.push(divergence(tape, mean, log_variance));
        let mut x = drawn(tape, mean, log_variance, draws);
        for layer in 0..self.config.hidden.len() {
            x = self.hidden(tape, &format!("decoder{layer}"), x);
        }
        ops::layer(tape, x, "output")
    }

    /// The binary cross-entropies of a row's own values, added up.
    fn row_losses<F: Float>(
        &self,
        tape: &mut Tape<F>,
        outputs: Var,
        batch: &Batch,
        _: &RowLoss,
    ) -> Var {
        let rows = tape.rows(batch.rows, batch.width, &batch.features);
        ops::binary_cross_entropy_sum(tape, outputs, rows)
    }

    fn predicted(&self) -> usize {
        self.config.rows.width
    }

    /// The rows as they come out again, values in [0, 1].
    fn predictions(&self, outputs: &[f32], to: &mut Vec<f32>) {
        let start = to.len();
        to.extend_from_slice(outputs);
        Activation::Sigmoid.apply(&mut to[start..]);
    }

    fn correct(&self, _: &[f32], _: &Targets) -> Option<u64> {
        None
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        let mut rest = weights;
        for (tensor, entry) in (0..).zip(self.parameters.entries()) {
            let (values, after) = rest.split_at_mut(entry.len());
            match entry.shape.as_slice() {
                [inputs, _] => {
                    let inner =
                        entry.name.starts_with("encoder") || entry.name.starts_with("decoder");
                    let initial = Initial::before(inner.then_some(self.config.activation));
                    initial.fill(Initial::stream(seed, tensor), *inputs, values);
                }
                _ => values.fill(0.0),
            }
            rest = after;
        }
    }
}

impl VaeNetwork {
    fn hidden<F: Float>(&self, tape: &mut Tape<F>, name: &str, x: Var) -> Var {
        let y = ops::layer(tape, x, name);
        ops::activate(tape, y, self.config.activation)
    }
}

/// A point of each row's distribution: mean + deviation * noise. The noise is named by step and
/// partition, so that it is the same whoever evaluates; a score takes the mean itself.
fn drawn<F: Float>(tape: &mut Tape<F>, mean: Var, log_variance: Var, draws: &Draws<'_>) -> Var {
    let Some(mut stream) = draws.stream(Purpose::Noise, 0) else {
        return mean;
    };
    let noise = tape.computed(tape.shape(mean), |_, out| {
        for value in out {
            *value = F::from_f64(stream.normal());
        }
    });
    let half = ops::scale(tape, log_variance, F::HALF);
    let deviation = ops::exp(tape, half);
    let moved = ops::mul(tape, deviation, noise);
    ops::add(tape, mean, moved)
}

/// The Kullback-Leibler divergence of all rows' distributions from the standard normal one:
/// sum of (mean^2 + variance - log variance - 1) / 2.
fn divergence<F: Float>(tape: &mut Tape<F>, mean: Var, log_variance: Var) -> Var {
    let squares = ops::square(tape, mean);
    let variance = ops::exp(tape, log_variance);
    let sum = ops::add(tape, squares, variance);
    let sum = ops::sub(tape, sum, log_variance);
    let one = tape.constant(&[1], &[F::ONE]);
    let sum = ops::sub(tape, sum, one);
    let sum = ops::sum(tape, sum);
    ops::scale(tape, sum, F::HALF)
}

fn entries(config: &VaeConfig) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut add = |name: &str, inputs: usize, outputs: usize| {
        let tensors = [("weight", vec![inputs, outputs]), ("bias", vec![outputs])];
        entries.extend(tensors.map(|(kind, shape)| Entry {
            name: format!("{name}.{kind}"),
            shape,
            role: Role::Trained,
        }));
    };
    let mut width = config.rows.width;
    for (layer, units) in config.hidden.iter().enumerate() {
        add(&format!("encoder{layer}"), width, *units);
        width = *units;
    }
    add("mean", width, config.latent);
    add("log_variance", width, config.latent);
    width = config.latent;
    for (layer, units) in config.hidden.iter().rev().enumerate() {
        add(&format!("decoder{layer}"), width, *units);
        width = *units;
    }
    add("output", width, config.rows.width);
    entries
}
