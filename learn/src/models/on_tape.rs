//! A built-in model whose layers are written on the tape.
//!
//! `linear`, `softmax` and `mlp` have an engine of their own; the others are a [`Network`]: layers
//! from operations, generic over the float, so that finite differences can check them in f64.

use resilin_core::layout::Entry;

use super::named_loss::{parts, weighted_sum};
use super::{Draws, NamedLoss, RowLoss, Rows};
use crate::autograd::{Parameters, Tape, Var, ops};
use crate::dataset::{Batch, Targets};
use crate::math::Float;
use crate::model::{Microbatch, Model, ModelError, Outcome, Repeats, Score, Sink, Workspace};

/// Rows that are scored together: bounds the tape. Rows do not see each other, so the count decides
/// only how losses are added.
const SCORED_ROWS: usize = 32;

/// Layers that turn rows into outputs.
pub trait Network: Send + Sync + 'static {
    /// The named tensors.
    fn parameters(&self) -> &Parameters;

    /// The rows it takes.
    fn rows(&self) -> Rows;

    /// What a row costs.
    fn loss(&self) -> &RowLoss;

    /// The losses that a row's cost is the weighted sum of, where there are several: first that of
    /// the outputs ([`Self::row_losses`]), then one for each of the first terms.
    fn losses(&self) -> &[NamedLoss] {
        &[]
    }

    /// The outputs of rows, [rows, outputs]. Terms that the loss has beside that of the outputs, such
    /// as further named losses or [`ops::buffer`], are added to `terms`.
    fn outputs<F: Float>(
        &self,
        tape: &mut Tape<F>,
        batch: &Batch,
        draws: &Draws<'_>,
        terms: &mut Vec<Var>,
    ) -> Var;

    /// Writes the initial weights.
    fn initialise(&self, seed: u64, weights: &mut [f32]);

    /// Whether [`Self::check`] looks at values and not only at their number.
    fn is_choosy(&self) -> bool {
        false
    }

    /// What a person should know who trains it on microbatches of so many samples.
    fn advice(&self, _samples: u32) -> Option<String> {
        None
    }

    /// Whether the rows' values are such as the network takes; targets are not looked at.
    ///
    /// # Errors
    /// Rows that do not fit.
    fn check(&self, batch: &Batch) -> Result<(), ModelError> {
        self.rows().check_features(batch)
    }

    /// The sum of the rows' losses.
    fn row_losses<F: Float>(
        &self,
        tape: &mut Tape<F>,
        outputs: Var,
        batch: &Batch,
        loss: &RowLoss,
    ) -> Var {
        loss.on_tape(tape, outputs, &batch.targets)
    }

    /// Values that are predicted for a row.
    fn predicted(&self) -> usize {
        self.rows().outputs()
    }

    /// Appends what outputs predict, as [`Model::predict`] gives it.
    fn predictions(&self, outputs: &[f32], to: &mut Vec<f32>) {
        self.loss().predictions(outputs, self.rows().targets, to);
    }

    /// Rows predicted right; `None` without classes.
    fn correct(&self, outputs: &[f32], targets: &Targets) -> Option<u64> {
        self.loss().correct(outputs, targets)
    }
}

/// The sum of the rows' losses of a network in training, with its other terms.
pub fn training_loss<F: Float, N: Network>(
    network: &N,
    tape: &mut Tape<F>,
    batch: &Batch,
    draws: &Draws<'_>,
) -> Var {
    let mut terms = Vec::new();
    let outputs = network.outputs(tape, batch, draws, &mut terms);
    let first = network.row_losses(tape, outputs, batch, network.loss());
    let (loss, others) = whole_loss(network, tape, first, &terms);
    others
        .iter()
        .fold(loss, |loss, term| ops::add(tape, loss, *term))
}

/// What the rows cost in all, and the terms that are no named loss.
fn whole_loss<'t, F: Float, N: Network>(
    network: &N,
    tape: &mut Tape<F>,
    first: Var,
    terms: &'t [Var],
) -> (Var, &'t [Var]) {
    let losses = network.losses();
    let Some(further) = losses.len().checked_sub(1) else {
        return (first, terms);
    };
    let (named, others) = terms.split_at(further);
    let all: Vec<Var> = std::iter::once(first)
        .chain(named.iter().copied())
        .collect();
    (weighted_sum(tape, losses, &all), others)
}

/// A [`Model`] of a network.
pub struct OnTape<N> {
    network: N,
}

impl<N: Network> OnTape<N> {
    /// The model of a network.
    #[must_use]
    pub fn new(network: N) -> Self {
        Self { network }
    }
}

impl<N: Network> Model for OnTape<N> {
    fn repeats(&self) -> Repeats {
        Repeats::ByConstruction
    }

    fn is_choosy(&self) -> bool {
        self.network.is_choosy()
    }

    fn check(&self, batch: &Batch) -> Result<(), ModelError> {
        self.network.check(batch)
    }

    fn advice(&self, samples: u32) -> Option<String> {
        self.network.advice(samples)
    }

    fn losses(&self) -> Vec<String> {
        let losses = self.network.losses().iter();
        losses.map(|loss| loss.name.clone()).collect()
    }

    fn entries(&self) -> Vec<Entry> {
        self.network.parameters().entries().to_vec()
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        self.network.initialise(seed, weights);
    }

    fn workspace(&self) -> Workspace {
        Box::new(Tape::<f32>::new(self.network.parameters().clone()))
    }

    fn evaluate(
        &self,
        weights: &[f32],
        microbatches: &[Microbatch<'_>],
        workspace: &mut Workspace,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        for microbatch in microbatches {
            self.fits(microbatch.batch)?;
        }
        let tape = tape(workspace);
        tape.load(weights);
        for (k, microbatch) in microbatches.iter().enumerate() {
            let batch = microbatch.batch;
            tape.clear();
            let loss = training_loss(&self.network, tape, batch, &Draws::of(microbatch));
            tape.backward(loss, sink.gradient(k));
            let outcome = Outcome {
                samples: batch.rows as u64,
                weight: self.network.loss().weight(&batch.targets, batch.rows),
                loss_sum: f64::from(tape.scalar(loss)),
            };
            sink.done(k, outcome);
        }
        Ok(())
    }

    fn score(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
    ) -> Result<Score, ModelError> {
        self.fits(batch)?;
        let tape = tape(workspace);
        tape.load(weights);
        let mut all = Score::default();
        for start in (0..batch.rows).step_by(SCORED_ROWS) {
            let some = batch.rows(start..batch.rows.min(start + SCORED_ROWS));
            let score = self.score_some(tape, &some);
            all.rows += score.rows;
            all.loss_sum += score.loss_sum;
            all.correct = score
                .correct
                .map(|correct| all.correct.unwrap_or(0) + correct);
            for (sum, part) in all.parts.iter_mut().zip(score.parts) {
                *sum += part;
            }
        }
        Ok(all)
    }

    fn predict(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
        outputs: &mut Vec<f32>,
    ) -> Result<usize, ModelError> {
        self.network.check(batch)?;
        let tape = tape(workspace);
        tape.load(weights);
        // Rows to predict have no targets.
        let batch = Batch {
            targets: Targets::Values {
                width: 0,
                values: Vec::new(),
            },
            ..batch.clone()
        };
        for start in (0..batch.rows).step_by(SCORED_ROWS) {
            let some = batch.rows(start..batch.rows.min(start + SCORED_ROWS));
            tape.clear();
            let mut terms = Vec::new();
            let found = self
                .network
                .outputs(tape, &some, &Draws::none(), &mut terms);
            self.network.predictions(tape.value(found), outputs);
        }
        Ok(self.network.predicted())
    }
}

impl<N: Network> OnTape<N> {
    fn fits(&self, batch: &Batch) -> Result<(), ModelError> {
        self.network.rows().check(batch)?;
        self.network.check(batch)
    }

    fn score_some(&self, tape: &mut Tape<f32>, batch: &Batch) -> Score {
        tape.clear();
        let mut terms = Vec::new();
        let outputs = self
            .network
            .outputs(tape, batch, &Draws::none(), &mut terms);
        let scored = self.network.loss().scored();
        let first = self.network.row_losses(tape, outputs, batch, scored);
        let further = self.network.losses().len().saturating_sub(1);
        let (loss, _) = whole_loss(&self.network, tape, first, &terms);
        let named = std::iter::once(first).chain(terms[..further].iter().copied());
        let named: Vec<Var> = named.take(self.network.losses().len()).collect();
        Score {
            rows: batch.rows as u64,
            correct: self.network.correct(tape.value(outputs), &batch.targets),
            loss_sum: f64::from(tape.scalar(loss)),
            parts: parts(tape, &named),
        }
    }
}

fn tape(workspace: &mut Workspace) -> &mut Tape<f32> {
    workspace
        .downcast_mut()
        .expect("a workspace is used with the model that made it")
}
