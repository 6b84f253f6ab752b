//! `transformer`: a byte-level language model in the manner of GPT-2 (Radford et al. 2019), without
//! biases.
//!
//! A row is a run of bytes, and its class the byte that follows: at every place the model predicts
//! the next byte, and a row's loss is the mean over its places. Rows come from the source `text`.

use resilin_core::layout::{Entry, Role};
use resilin_core::random::Stream;

use super::initial::Initial;
use super::on_tape::{Network, OnTape};
use super::{Draws, RowLoss, Rows};
use crate::autograd::ops::{self, Mask};
use crate::autograd::{Parameters, Tape, Var};
use crate::dataset::{Batch, TargetKind, Targets};
use crate::math::Float;
use crate::model::ModelError;

/// Added to a variance before its root.
const EPSILON: f64 = 1e-5;

/// Standard deviation of the initial weights.
const DEVIATION: f64 = 0.02;

/// How much wider than the model the layer in a block's middle is.
const WIDER: usize = 4;

/// What a transformer looks like.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerConfig {
    /// The rows it takes: places of a row, and classes a place.
    pub rows: Rows,
    /// Number of blocks.
    pub blocks: usize,
    /// Heads of attention in a block; they divide the width.
    pub heads: usize,
    /// Values that stand for a place.
    pub width: usize,
    /// Share of values that is dropped in training, behind the embedding and each half block.
    pub dropout: f32,
}

/// A language model; the embedding `token.weight` [classes, width] gives the logits, too.
pub type Transformer = OnTape<TransformerNetwork>;

/// The layers of a [`Transformer`].
pub struct TransformerNetwork {
    config: TransformerConfig,
    classes: usize,
    parameters: Parameters,
    loss: RowLoss,
}

impl TransformerNetwork {
    /// The network of a configuration.
    ///
    /// # Errors
    /// Rows of values, heads that do not divide the width, or a size of zero.
    pub fn new(config: TransformerConfig) -> Result<Self, ModelError> {
        let TargetKind::Classes(classes) = config.rows.targets else {
            return Err(ModelError(
                "a transformer predicts the next of some classes; take rows from the source text"
                    .into(),
            ));
        };
        let sizes = [
            config.rows.width,
            config.width,
            config.heads,
            classes as usize,
        ];
        if sizes.contains(&0) || !config.width.is_multiple_of(config.heads) {
            return Err(ModelError(format!(
                "{} heads do not divide a width of {}; choose a multiple",
                config.heads, config.width
            )));
        }
        if !(0.0..1.0).contains(&config.dropout) {
            return Err(ModelError(format!(
                "dropout {}: choose a rate from 0 to below 1",
                config.dropout
            )));
        }
        Ok(Self {
            parameters: Parameters::new(entries(&config, classes as usize))?,
            classes: classes as usize,
            config,
            loss: RowLoss::CrossEntropy,
        })
    }

    /// The byte that follows each place of the rows.
    fn following(batch: &Batch, last: &[u32]) -> Vec<u32> {
        let rows = batch.features.chunks_exact(batch.width).zip(last);
        rows.flat_map(|(row, last)| {
            let inner = row[1..].iter().map(|byte| *byte as u32);
            inner.chain(std::iter::once(*last))
        })
        .collect()
    }
}

impl Network for TransformerNetwork {
    fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    fn rows(&self) -> Rows {
        self.config.rows
    }

    fn loss(&self) -> &RowLoss {
        &self.loss
    }

    fn is_choosy(&self) -> bool {
        true
    }

    fn check(&self, batch: &Batch) -> Result<(), ModelError> {
        self.rows().check_features(batch)?;
        let checked = super::rows::check_numbers(batch, |_| self.classes);
        checked.map_err(|error| {
            ModelError(format!(
                "a transformer takes rows such as those of the source text: {error}"
            ))
        })
    }

    /// Logits of every place, [rows x places, classes].
    fn outputs<F: Float>(
        &self,
        tape: &mut Tape<F>,
        batch: &Batch,
        draws: &Draws<'_>,
        _: &mut Vec<Var>,
    ) -> Var {
        let config = &self.config;
        let ids: Vec<u32> = batch.features.iter().map(|byte| *byte as u32).collect();
        let table = tape.parameter("token.weight");
        let places = tape.parameter("place.weight");
        let tokens = ops::embedding(tape, table, &[batch.rows, batch.width], &ids);
        let x = ops::add(tape, tokens, places);
        let x = ops::reshape(tape, x, &[ids.len(), config.width]);
        let mut pass = Pass {
            tape,
            config,
            rows: batch.rows,
            draws,
            dropped: 0,
        };
        let mut x = pass.dropout(x);
        for block in 0..config.blocks {
            let name = format!("block{block}");
            let attended = pass.attention(&name, x);
            x = ops::add(pass.tape, x, attended);
            let widened = pass.dense(&name, x);
            x = ops::add(pass.tape, x, widened);
        }
        let x = pass.norm("norm", x);
        let to_logits = ops::transpose(tape, table, &[1, 0]);
        ops::dense(tape, x, to_logits, None)
    }

    fn row_losses<F: Float>(
        &self,
        tape: &mut Tape<F>,
        outputs: Var,
        batch: &Batch,
        loss: &RowLoss,
    ) -> Var {
        let Targets::Classes(last) = &batch.targets else {
            panic!("rows of classes: they were checked")
        };
        let all = Targets::Classes(Self::following(batch, last));
        let sum = loss.on_tape(tape, outputs, &all);
        ops::scale(tape, sum, F::ONE / F::from_f64(batch.width as f64))
    }

    /// Logits of the byte behind each row.
    fn predictions(&self, outputs: &[f32], to: &mut Vec<f32>) {
        let row = self.config.rows.width * self.classes;
        for row in outputs.chunks_exact(row) {
            to.extend_from_slice(&row[row.len() - self.classes..]);
        }
    }

    /// Rows whose last byte is predicted.
    fn correct(&self, outputs: &[f32], targets: &Targets) -> Option<u64> {
        let mut last = Vec::new();
        self.predictions(outputs, &mut last);
        self.loss.correct(&last, targets)
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        // What is added in every block starts smaller, so that the sum over blocks does not grow.
        let added = DEVIATION / (2.0 * self.config.blocks.max(1) as f64).sqrt();
        let mut rest = weights;
        for (tensor, entry) in (0..).zip(self.parameters.entries()) {
            let (values, after) = rest.split_at_mut(entry.len());
            let stream = Initial::stream(seed, tensor);
            match entry.name.rsplit('.').nth(1) {
                Some("norm" | "norm0" | "norm1") => values.fill(1.0),
                Some("projection" | "down") => normal(stream, added, values),
                _ => normal(stream, DEVIATION, values),
            }
            rest = after;
        }
    }
}

fn normal(mut stream: Stream, deviation: f64, values: &mut [f32]) {
    for value in values {
        *value = (stream.normal() * deviation) as f32;
    }
}

fn entries(config: &TransformerConfig, classes: usize) -> Vec<Entry> {
    let width = config.width;
    let mut entries = Vec::new();
    let mut add = |name: String, shape: &[usize]| {
        entries.push(Entry {
            name: format!("{name}.weight"),
            shape: shape.to_vec(),
            role: Role::Trained,
        });
    };
    add("token".into(), &[classes, width]);
    add("place".into(), &[config.rows.width, width]);
    for block in 0..config.blocks {
        add(format!("block{block}.norm0"), &[width]);
        add(format!("block{block}.attention"), &[width, 3 * width]);
        add(format!("block{block}.projection"), &[width, width]);
        add(format!("block{block}.norm1"), &[width]);
        add(format!("block{block}.up"), &[width, WIDER * width]);
        add(format!("block{block}.down"), &[WIDER * width, width]);
    }
    add("norm".into(), &[width]);
    entries
}

/// One evaluation on a tape. Values are [rows x places, width].
struct Pass<'a, 'b, F> {
    tape: &'a mut Tape<F>,
    config: &'a TransformerConfig,
    rows: usize,
    draws: &'a Draws<'b>,
    /// Number of the next dropout.
    dropped: u32,
}

impl<F: Float> Pass<'_, '_, F> {
    fn dropout(&mut self, x: Var) -> Var {
        let rate = self.config.dropout;
        if rate == 0.0 {
            return x;
        }
        self.dropped += 1;
        self.draws.dropout(self.tape, x, rate, self.dropped - 1)
    }

    fn norm(&mut self, name: &str, x: Var) -> Var {
        let weight = self.tape.parameter(&format!("{name}.weight"));
        ops::layer_norm(self.tape, x, weight, None, F::from_f64(EPSILON))
    }

    fn product(&mut self, name: &str, x: Var) -> Var {
        let weight = self.tape.parameter(&format!("{name}.weight"));
        ops::dense(self.tape, x, weight, None)
    }

    /// Attention to the places before, by several heads.
    fn attention(&mut self, block: &str, x: Var) -> Var {
        let TransformerConfig {
            heads, width, rows, ..
        } = self.config;
        let (places, part) = (rows.width, width / heads);
        let x = self.norm(&format!("{block}.norm0"), x);
        let all = self.product(&format!("{block}.attention"), x);
        let all = ops::reshape(self.tape, all, &[self.rows, places, 3, *heads, part]);
        let all = ops::transpose(self.tape, all, &[2, 0, 3, 1, 4]);
        let [q, k, v] = [0, 1, 2].map(|number| {
            let one = ops::slice(self.tape, all, 0, number..number + 1);
            ops::reshape(self.tape, one, &[self.rows, *heads, places, part])
        });
        let attended = ops::attention(self.tape, q, k, v, Mask::Causal);
        let attended = ops::transpose(self.tape, attended, &[0, 2, 1, 3]);
        let attended = ops::reshape(self.tape, attended, &[self.rows * places, *width]);
        let projected = self.product(&format!("{block}.projection"), attended);
        self.dropout(projected)
    }

    fn dense(&mut self, block: &str, x: Var) -> Var {
        let x = self.norm(&format!("{block}.norm1"), x);
        let wide = self.product(&format!("{block}.up"), x);
        let wide = ops::gelu_tanh(self.tape, wide);
        let narrow = self.product(&format!("{block}.down"), wide);
        self.dropout(narrow)
    }
}
