//! One pass through dense layers: buffers that are kept between calls, and the steps on them.

use std::ops::Range;

use resilin_core::random::Stream;

use super::RowLoss;
use super::layers::Layers;
use crate::dataset::{Batch, Targets};
use crate::math::{Write, add_bias, dropout_mask, multiply, view};
use crate::model::Outcome;

/// Activations and gradients of the rows that run together.
#[derive(Default)]
pub(super) struct Scratch {
    rows: usize,
    inputs: Vec<f32>,
    layers: Vec<LayerScratch>,
    /// The rows of each microbatch, and what they add up to.
    pub(super) spans: Vec<Range<usize>>,
    pub(super) outcomes: Vec<Outcome>,
}

/// What one layer keeps for the way back.
#[derive(Default)]
struct LayerScratch {
    /// Output after the activation; the loss gradient in the last layer.
    output: Vec<f32>,
    /// Dropout mask and masked output; unused without dropout.
    mask: Vec<f32>,
    dropped: Vec<f32>,
    /// Gradient of the layer's output before the activation; unused in the last layer.
    gradient: Vec<f32>,
}

impl Scratch {
    /// Takes the rows of all batches, one after the other.
    pub(super) fn load<'a>(&mut self, model: &Layers, batches: impl Iterator<Item = &'a Batch>) {
        self.layers
            .resize_with(model.dense.len(), LayerScratch::default);
        self.inputs.clear();
        self.rows = 0;
        for batch in batches {
            self.inputs.extend_from_slice(&batch.features);
            self.rows += batch.rows;
        }
    }

    /// What layer `number` is fed with.
    pub(super) fn input(&self, number: usize) -> &[f32] {
        match number.checked_sub(1) {
            None => &self.inputs,
            Some(below) if !self.layers[below].dropped.is_empty() => &self.layers[below].dropped,
            Some(below) => &self.layers[below].output,
        }
    }

    /// The gradient of layer `number`'s output before the activation.
    pub(super) fn gradient(&self, number: usize) -> &[f32] {
        let layer = &self.layers[number];
        if number + 1 == self.layers.len() {
            &layer.output
        } else {
            &layer.gradient
        }
    }

    /// Runs one layer without dropout.
    pub(super) fn forward(&mut self, model: &Layers, weights: &[f32], number: usize) {
        let layer = &model.dense[number];
        let mut output = std::mem::take(&mut self.layers[number].output);
        output.resize(self.rows * layer.outputs, 0.0);
        multiply(
            view(self.input(number), self.rows, layer.inputs),
            view(&weights[layer.weight.clone()], layer.inputs, layer.outputs),
            &mut output,
            Write::Replace,
        );
        if let Some(bias) = &layer.bias {
            add_bias(&mut output, &weights[bias.clone()]);
        }
        if let Some(activation) = model.activation(number) {
            activation.apply(&mut output);
        }
        self.layers[number].output = output;
        self.layers[number].dropped.clear();
    }

    /// Masks the output of a layer, each microbatch by the draws of its own stream.
    pub(super) fn drop_out(
        &mut self,
        model: &Layers,
        number: usize,
        streams: impl Iterator<Item = (usize, Stream)>,
    ) {
        let width = model.dense[number].outputs;
        let layer = &mut self.layers[number];
        layer.mask.resize(self.rows * width, 0.0);
        let mut start = 0;
        for (rows, mut stream) in streams {
            let end = start + rows * width;
            dropout_mask(
                &mut stream,
                model.config.dropout,
                &mut layer.mask[start..end],
            );
            start = end;
        }
        let products = layer.output.iter().zip(&layer.mask).map(|(y, m)| y * m);
        layer.dropped.extend(products);
    }

    /// What the last layer gives.
    pub(super) fn outputs(&self) -> &[f32] {
        &self.layers.last().expect("a model has a layer").output
    }

    /// Replaces the outputs of some rows by their gradient; returns the sum of the rows' losses.
    pub(super) fn pull_loss(
        &mut self,
        model: &Layers,
        loss: &RowLoss,
        rows: Range<usize>,
        targets: &Targets,
    ) -> f64 {
        let width = model.dense.last().expect("a model has a layer").outputs;
        let last = self.layers.last_mut().expect("a model has a layer");
        loss.pull(
            &mut last.output[rows.start * width..rows.end * width],
            targets,
        )
    }

    /// Makes the gradient below layer `number` from the one above it.
    pub(super) fn backward(&mut self, model: &Layers, weights: &[f32], number: usize) {
        let layer = &model.dense[number];
        let mut gradient = std::mem::take(&mut self.layers[number - 1].gradient);
        gradient.resize(self.rows * layer.inputs, 0.0);
        multiply(
            view(self.gradient(number), self.rows, layer.outputs),
            view(&weights[layer.weight.clone()], layer.inputs, layer.outputs).reversed_axes(),
            &mut gradient,
            Write::Replace,
        );
        let below = &mut self.layers[number - 1];
        if model.config.dropout > 0.0 {
            for (gradient, mask) in gradient.iter_mut().zip(&below.mask) {
                *gradient *= mask;
            }
        }
        model
            .config
            .activation
            .pull_back(&below.output, &mut gradient);
        below.gradient = gradient;
    }
}
