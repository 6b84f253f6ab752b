//! A built-in model whose layers are written on the tape.
//!
//! `linear`, `softmax` and `mlp` have an engine of their own; the others are a [`Network`]: layers
//! from operations, generic over the float, so that finite differences can check them in f64.

use resilin_core::layout::Entry;

use super::{Draws, RowLoss, Rows};
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

    /// The outputs of rows, [rows, outputs]. Terms that the loss has beside that of the rows, such
    /// as [`ops::buffer`], are added to `terms`.
    fn outputs<F: Float>(
        &self,
        tape: &mut Tape<F>,
        batch: &Batch,
        draws: &Draws<'_>,
        terms: &mut Vec<Var>,
    ) -> Var;

    /// Writes the initial weights.
    fn initialise(&self, seed: u64, weights: &mut [f32]);

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
    let loss = network.row_losses(tape, outputs, batch, network.loss());
    terms
        .into_iter()
        .fold(loss, |loss, term| ops::add(tape, loss, term))
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
            self.check(microbatch.batch)?;
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
        self.check(batch)?;
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
        Ok(self.network.rows().outputs())
    }
}

impl<N: Network> OnTape<N> {
    fn check(&self, batch: &Batch) -> Result<(), ModelError> {
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
        let loss = self.network.row_losses(tape, outputs, batch, scored);
        Score {
            rows: batch.rows as u64,
            correct: self.network.correct(tape.value(outputs), &batch.targets),
            loss_sum: f64::from(tape.scalar(loss)),
        }
    }
}

fn tape(workspace: &mut Workspace) -> &mut Tape<f32> {
    workspace
        .downcast_mut()
        .expect("a workspace is used with the model that made it")
}
