//! `cnn`: convolutions, pooling, residual blocks and dense layers over images.
//!
//! Batch normalization takes the statistics of the microbatch in training, so that no worker and no
//! neighbour changes a bit. Running statistics are buffers: 0.9 of the old value and 0.1 of the
//! step's, the mean over all microbatches by rows; scores use them.

mod layer;
mod plan;

use resilin_core::layout::{Entry, Role};

use self::plan::{Plan, Skip, Step};
use super::initial::Initial;
use super::on_tape::{Network, OnTape};
use super::{Draws, RowLoss, Rows};
use crate::autograd::ops::{self, Moments, Window};
use crate::autograd::{Parameters, Tape, Var};
use crate::dataset::Batch;
use crate::math::{Activation, Float};
use crate::model::ModelError;

pub use self::layer::{Layer, Norm};

/// Added to a variance before its root.
const EPSILON: f64 = 1e-5;

/// Samples of a microbatch below which its statistics say little.
const FEW_SAMPLES: u32 = 4;

/// What a running statistic keeps at a step.
const KEPT: f64 = 0.9;

/// What a convolutional network looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct CnnConfig {
    /// The rows it takes.
    pub rows: Rows,
    /// Height, width and channels of a row; a pixel's channels lie side by side.
    pub image: [usize; 3],
    /// The layers; a dense layer to the outputs follows them.
    pub layers: Vec<Layer>,
    /// What follows convolutions, residual blocks and dense layers.
    pub activation: Activation,
    /// What a row costs.
    pub loss: RowLoss,
}

/// A convolutional network; `layer0.weight` is [height, width, channels, outputs].
pub type Cnn = OnTape<CnnNetwork>;

/// The layers of a [`Cnn`].
pub struct CnnNetwork {
    config: CnnConfig,
    plan: Plan,
    parameters: Parameters,
}

impl CnnNetwork {
    /// The network of a configuration.
    ///
    /// # Errors
    /// An image of another size than the rows, layers that do not fit, or a loss of other targets.
    pub fn new(config: CnnConfig) -> Result<Self, ModelError> {
        let [height, width, channels] = config.image;
        let values = height
            .checked_mul(width)
            .and_then(|n| n.checked_mul(channels));
        if values != Some(config.rows.width) {
            return Err(ModelError(format!(
                "an image of {height} x {width} with {channels} channels is not a row of {} values; \
                 set image = [height, width, channels]",
                config.rows.width
            )));
        }
        let outputs = config.loss.outputs(config.rows.targets)?;
        let plan = Plan::new(config.image, &config.layers, outputs)?;
        let parameters = Parameters::new(plan.entries.clone())?;
        Ok(Self {
            config,
            plan,
            parameters,
        })
    }
}

impl Network for CnnNetwork {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn rows(&self) -> Rows {
        self.config.rows
    }

    fn loss(&self) -> &RowLoss {
        &self.config.loss
    }

    fn advice(&self, samples: u32) -> Option<String> {
        let normed = self.plan.entries.iter().any(|e| e.role == Role::Buffer);
        (normed && samples < FEW_SAMPLES).then(|| {
            format!(
                "batch normalization takes its statistics from a microbatch, and {samples} is few samples; set \
                 [run] partitions so that batch / partitions is 16 or more, or leave norm out"
            )
        })
    }

    fn outputs<F: Float>(
        &self,
        tape: &mut Tape<F>,
        batch: &Batch,
        draws: &Draws<'_>,
        terms: &mut Vec<Var>,
    ) -> Var {
        let mut pass = Pass {
            tape,
            rows: batch.rows,
            activation: self.config.activation,
            draws,
            terms,
        };
        let mut x = pass.tape.rows(batch.rows, batch.width, &batch.features);
        for (number, step) in (0..).zip(&self.plan.steps) {
            x = pass.step(step, number, x);
        }
        let flat = ops::reshape(pass.tape, x, &[batch.rows, self.plan.flat]);
        pass.dense("output", flat)
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        let mut rest = weights;
        for (tensor, entry) in (0..).zip(self.parameters.entries()) {
            let (values, after) = rest.split_at_mut(entry.len());
            self.start(seed, tensor, entry, values);
            rest = after;
        }
    }
}

impl CnnNetwork {
    /// Scales and variances start at 1, weights at random, the rest at 0.
    fn start(&self, seed: u64, tensor: u32, entry: &Entry, values: &mut [f32]) {
        let is_one = entry.name.ends_with(".scale") || entry.name.ends_with(".variance");
        match entry.shape.as_slice() {
            [.., _, outputs] => {
                let last = entry.name.starts_with("output.");
                let initial = Initial::before((!last).then_some(self.config.activation));
                let inputs = entry.len() / outputs.max(&1);
                initial.fill(Initial::stream(seed, tensor), inputs, values);
            }
            [] | [_] => {
                values.fill(if is_one { 1.0 } else { 0.0 });
            }
        }
    }
}

/// One evaluation on a tape.
struct Pass<'a, 'b, F> {
    tape: &'a mut Tape<F>,
    rows: usize,
    activation: Activation,
    draws: &'a Draws<'b>,
    terms: &'a mut Vec<Var>,
}

impl<F: Float> Pass<'_, '_, F> {
    fn step(&mut self, step: &Step, number: u32, x: Var) -> Var {
        let [height, width, channels] = step.input;
        let flat = [self.rows, height * width * channels];
        let image = [self.rows, height, width, channels];
        match step.layer {
            Layer::Convolution {
                stride,
                padding,
                norm,
                ..
            } => {
                let x = ops::reshape(self.tape, x, &image);
                match norm {
                    Norm::Bias => self.biased(&step.name, x, stride, padding),
                    Norm::Batch => {
                        let y = self.normed(&step.name, x, stride, padding);
                        ops::activate(self.tape, y, self.activation)
                    }
                }
            }
            Layer::Residual {
                channels: outputs,
                stride,
            } => {
                let x = ops::reshape(self.tape, x, &image);
                self.residual(&step.name, x, stride, Skip::of(stride, channels, outputs))
            }
            Layer::MaxPool { size, stride } => {
                let x = ops::reshape(self.tape, x, &image);
                ops::max_pool2d(self.tape, x, Window::square(size, stride, 0))
            }
            Layer::AveragePool { size, stride } => {
                let x = ops::reshape(self.tape, x, &image);
                ops::average_pool2d(self.tape, x, Window::square(size, stride, 0))
            }
            Layer::Dense { .. } => {
                let x = ops::reshape(self.tape, x, &flat);
                let y = self.dense(&step.name, x);
                ops::activate(self.tape, y, self.activation)
            }
            Layer::Dropout { rate } => self.draws.dropout(self.tape, x, rate, number),
        }
    }

    fn dense(&mut self, name: &str, x: Var) -> Var {
        let weight = self.tape.parameter(&format!("{name}.weight"));
        let bias = self.tape.parameter(&format!("{name}.bias"));
        ops::dense(self.tape, x, weight, Some(bias))
    }

    /// A convolution with a bias, and the activation.
    fn biased(&mut self, name: &str, x: Var, stride: usize, padding: usize) -> Var {
        let weight = self.tape.parameter(&format!("{name}.weight"));
        let bias = self.tape.parameter(&format!("{name}.bias"));
        let (stride, padding) = ([stride; 2], [padding; 4]);
        let then = self.activation;
        ops::conv2d_activated(self.tape, [x, weight], Some(bias), stride, padding, then)
    }

    /// A convolution with batch normalization.
    fn normed(&mut self, name: &str, x: Var, stride: usize, padding: usize) -> Var {
        let weight = self.tape.parameter(&format!("{name}.weight"));
        let (stride, padding) = ([stride; 2], [padding; 4]);
        let y = ops::conv2d(self.tape, x, weight, None, stride, padding);
        self.norm(name, y)
    }

    fn residual(&mut self, name: &str, x: Var, stride: usize, skip: Skip) -> Var {
        let first = self.normed(&format!("{name}.first"), x, stride, 1);
        let first = ops::activate(self.tape, first, self.activation);
        let second = self.normed(&format!("{name}.second"), first, 1, 1);
        let around = match skip {
            Skip::Same => x,
            Skip::Convolved => self.normed(&format!("{name}.skip"), x, stride, 0),
        };
        let sum = ops::add(self.tape, second, around);
        ops::activate(self.tape, sum, self.activation)
    }

    /// Batch normalization: by the microbatch's statistics in training, else by the running ones.
    fn norm(&mut self, name: &str, x: Var) -> Var {
        let [scale, shift, mean, variance] = ["scale", "shift", "mean", "variance"]
            .map(|tensor| self.tape.parameter(&format!("{name}.{tensor}")));
        let epsilon = F::from_f64(EPSILON);
        if !self.draws.is_training() {
            let running = Moments { mean, variance };
            return ops::normalized(self.tape, x, running, [scale, shift], epsilon);
        }
        let (y, moments) = ops::batch_norm(self.tape, x, scale, shift, epsilon);
        for (running, now) in [(mean, moments.mean), (variance, moments.variance)] {
            let next = self.running(running, now);
            let term = ops::buffer(self.tape, running, next, self.rows);
            self.terms.push(term);
        }
        y
    }

    /// The next value of a running statistic.
    fn running(&mut self, running: Var, now: Var) -> Var {
        let (kept, taken) = (F::from_f64(KEPT), F::from_f64(1.0 - KEPT));
        self.tape.computed(self.tape.shape(now), |values, out| {
            let pairs = values.slice(running).iter().zip(values.slice(now));
            for (out, (running, now)) in out.iter_mut().zip(pairs) {
                *out = kept * *running + taken * *now;
            }
        })
    }
}
