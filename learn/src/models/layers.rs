//! Dense layers, evaluated by hand: the engine of the built-in models.
//!
//! A row's activations do not depend on the rows beside it, so all microbatches of a call run
//! forward and back as one product, and only the weight gradients are made one microbatch at a
//! time, part by part (`parts`).

use std::ops::Range;

use resilin_core::layout::{Entry, Role};
use resilin_core::random::Purpose;

use super::initial::Initial;
use super::parts::Parts;
use super::pass::Scratch;
use super::{RowLoss, Rows};
use crate::dataset::Batch;
use crate::math::Activation;
use crate::model::{Addition, Group, Microbatch, ModelError, Outcome, Score, Sink, Workspace};

/// Rows that run as one product, unless a single microbatch has more: keeps activations in cache
/// and bounds the workspace.
const GROUP_ROWS: usize = 1024;

/// Most rows of a microbatch whose weight gradient is added to its left sibling's by the product
/// itself: up to the length of one chain of the product, a value is `left + chain`, the bits of an
/// addition after the fact (DESIGN 8).
const FUSED_ROWS: usize = 256;

/// How weights start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// At zero.
    Zero,
    /// At random, as suits the activation that follows.
    Random,
}

/// What the layers look like.
pub(super) struct LayersConfig {
    pub(super) rows: Rows,
    pub(super) hidden: Vec<usize>,
    pub(super) activation: Activation,
    pub(super) dropout: f32,
    pub(super) bias: bool,
    pub(super) start: Start,
    pub(super) loss: RowLoss,
}

impl LayersConfig {
    /// One layer from inputs to outputs.
    pub(super) fn flat(rows: Rows) -> Self {
        Self {
            rows,
            hidden: Vec::new(),
            activation: Activation::Relu,
            dropout: 0.0,
            bias: true,
            start: Start::Random,
            loss: RowLoss::usual(rows.targets),
        }
    }
}

/// Where a layer's tensors lie in the flat vector.
pub(super) struct Dense {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) weight: Range<usize>,
    pub(super) bias: Option<Range<usize>>,
}

/// Dense layers with a loss at the end.
pub(super) struct Layers {
    pub(super) config: LayersConfig,
    pub(super) dense: Vec<Dense>,
    /// For several microbatches, and for one, where cutting only costs.
    parts: Parts,
    tensors: Parts,
}

impl Layers {
    pub(super) fn new(config: LayersConfig) -> Result<Self, ModelError> {
        let widths: Vec<usize> = std::iter::once(config.rows.width)
            .chain(config.hidden.iter().copied())
            .chain([config.loss.outputs(config.rows.targets)?])
            .collect();
        if widths.contains(&0) {
            return Err(ModelError(format!(
                "layer widths {widths:?}: every layer needs at least one value"
            )));
        }
        if !(0.0..1.0).contains(&config.dropout) {
            return Err(ModelError(format!(
                "dropout {}: choose a rate from 0 to below 1",
                config.dropout
            )));
        }
        let mut end = 0;
        let mut take = |length: usize| {
            end += length;
            end - length..end
        };
        let dense: Vec<Dense> = widths
            .windows(2)
            .map(|pair| Dense {
                inputs: pair[0],
                outputs: pair[1],
                weight: take(pair[0] * pair[1]),
                bias: config.bias.then(|| take(pair[1])),
            })
            .collect();
        let (parts, tensors) = (
            Parts::of(&dense, Parts::CACHED),
            Parts::of(&dense, usize::MAX),
        );
        Ok(Self {
            config,
            dense,
            parts,
            tensors,
        })
    }

    pub(super) fn entries(&self) -> Vec<Entry> {
        let entry = |name, shape| Entry {
            name,
            shape,
            role: Role::Trained,
        };
        let mut entries = Vec::new();
        for (number, layer) in self.dense.iter().enumerate() {
            let shape = vec![layer.inputs, layer.outputs];
            entries.push(entry(format!("layer{number}.weight"), shape));
            if layer.bias.is_some() {
                entries.push(entry(format!("layer{number}.bias"), vec![layer.outputs]));
            }
        }
        entries
    }

    pub(super) fn initialise(&self, seed: u64, weights: &mut [f32]) {
        let mut tensor = 0;
        for (number, layer) in self.dense.iter().enumerate() {
            let initial = match self.config.start {
                Start::Zero => Initial::Zero,
                Start::Random => Initial::before(self.activation(number)),
            };
            let stream = Initial::stream(seed, tensor);
            initial.fill(stream, layer.inputs, &mut weights[layer.weight.clone()]);
            tensor += 1;
            if let Some(bias) = &layer.bias {
                weights[bias.clone()].fill(0.0);
                tensor += 1;
            }
        }
    }

    /// What follows layer `number`; nothing after the last.
    pub(super) fn activation(&self, number: usize) -> Option<Activation> {
        (number + 1 < self.dense.len()).then_some(self.config.activation)
    }

    pub(super) fn workspace(&self) -> Workspace {
        Box::new(Scratch::default())
    }

    pub(super) fn evaluate(
        &self,
        weights: &[f32],
        microbatches: &[Microbatch<'_>],
        workspace: &mut Workspace,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        for microbatch in microbatches {
            self.config.rows.check(microbatch.batch)?;
        }
        let scratch = scratch(workspace);
        let mut first = 0;
        while first < microbatches.len() {
            let last = first + group(&microbatches[first..]);
            let group = &microbatches[first..last];
            self.forward_and_back(weights, group, scratch);
            let short = scratch.spans.iter().all(|rows| rows.len() <= FUSED_ROWS);
            let addition = if short {
                Addition::Exact
            } else {
                Addition::Apart
            };
            let parts = match scratch.spans.len() {
                1 => &self.tensors,
                _ => &self.parts,
            };
            let group = Group {
                first,
                outcomes: &scratch.outcomes,
                parts: &parts.ranges,
                addition,
            };
            sink.in_parts(&group, &mut |piece| parts.make(self, scratch, piece));
            first = last;
        }
        Ok(())
    }

    /// Runs microbatches forward and back; what their gradients are made of stays in `scratch`.
    fn forward_and_back(
        &self,
        weights: &[f32],
        microbatches: &[Microbatch<'_>],
        scratch: &mut Scratch,
    ) {
        scratch.load(self, microbatches.iter().map(|m| m.batch));
        for number in 0..self.dense.len() {
            scratch.forward(self, weights, number);
            if number + 1 < self.dense.len() && self.config.dropout > 0.0 {
                let index = u32::try_from(number).expect("layers are few");
                let streams = microbatches
                    .iter()
                    .map(|m| (m.batch.rows, m.stream(Purpose::Dropout, index)));
                scratch.drop_out(self, number, streams);
            }
        }
        scratch.spans.clear();
        scratch.outcomes.clear();
        let mut start = 0;
        for Microbatch { batch, .. } in microbatches {
            let rows = start..start + batch.rows;
            start = rows.end;
            let loss_sum = scratch.pull_loss(self, &self.config.loss, rows.clone(), &batch.targets);
            scratch.spans.push(rows);
            scratch.outcomes.push(Outcome {
                samples: batch.rows as u64,
                weight: self.config.loss.weight(&batch.targets, batch.rows),
                loss_sum,
            });
        }
        for number in (1..self.dense.len()).rev() {
            scratch.backward(self, weights, number);
        }
    }

    pub(super) fn score(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
    ) -> Result<Score, ModelError> {
        self.config.rows.check(batch)?;
        let scratch = self.run(weights, batch, workspace);
        let loss = &self.config.loss;
        let correct = loss.correct(scratch.outputs(), &batch.targets);
        Ok(Score {
            rows: batch.rows as u64,
            correct,
            loss_sum: scratch.pull_loss(self, loss.scored(), 0..batch.rows, &batch.targets),
            ..Score::default()
        })
    }

    pub(super) fn predict(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
        outputs: &mut Vec<f32>,
    ) -> Result<usize, ModelError> {
        self.config.rows.check_features(batch)?;
        let LayersConfig { loss, rows, .. } = &self.config;
        let found = self.run(weights, batch, workspace).outputs();
        loss.predictions(found, rows.targets, outputs);
        Ok(rows.outputs())
    }

    /// Runs rows forward without dropout.
    fn run<'w>(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &'w mut Workspace,
    ) -> &'w mut Scratch {
        let scratch = scratch(workspace);
        scratch.load(self, std::iter::once(batch));
        for number in 0..self.dense.len() {
            scratch.forward(self, weights, number);
        }
        scratch
    }
}

/// How many of the first microbatches run together: at least one.
fn group(microbatches: &[Microbatch<'_>]) -> usize {
    let mut rows = 0;
    let fitting = microbatches.iter().take_while(|m| {
        rows += m.batch.rows;
        rows <= GROUP_ROWS
    });
    fitting.count().max(1)
}

fn scratch(workspace: &mut Workspace) -> &mut Scratch {
    workspace
        .downcast_mut()
        .expect("a workspace is used with the model that made it")
}
