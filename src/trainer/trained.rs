//! What training leaves: weights, and what they say about rows.

use std::fmt;
use std::sync::Arc;

use resilin_core::layout::Entry;
use resilin_learn::dataset::{Batch, TargetKind, Targets};
use resilin_learn::kernel::{Evaluator, Which, hex, weights_sha256};
use resilin_learn::math::largest;
use resilin_learn::model::Score;
use resilin_learn::task::Task;

use super::TrainError;

/// Trained weights with the model and the rows they belong to.
pub struct Trained {
    task: Arc<Task>,
    weights: Vec<f32>,
    steps: u64,
    stopped: bool,
}

/// What a model gives for some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Predictions {
    outputs: Vec<f32>,
    width: usize,
    kind: TargetKind,
}

impl Trained {
    pub(super) fn new(task: Arc<Task>, weights: Vec<f32>, steps: u64, stopped: bool) -> Self {
        Self {
            task,
            weights,
            steps,
            stopped,
        }
    }

    /// All weights, tensor after tensor.
    #[must_use]
    pub fn weights(&self) -> &[f32] {
        &self.weights
    }

    /// The tensors with name and shape, in the order of the model.
    pub fn tensors(&self) -> impl Iterator<Item = (Entry, &[f32])> {
        let mut rest = self.weights.as_slice();
        self.task.model.entries().into_iter().map(move |entry| {
            let (values, after) = rest.split_at(entry.len());
            rest = after;
            (entry, values)
        })
    }

    /// SHA-256 of the weights in hex: the same for every run of the job, wherever and with whomever.
    #[must_use]
    pub fn sha256(&self) -> String {
        hex(&weights_sha256(&self.weights))
    }

    /// Steps that were applied.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Whether the observer stopped the run before its end.
    #[must_use]
    pub fn was_stopped(&self) -> bool {
        self.stopped
    }

    /// How well the test rows are predicted; `None` without any.
    ///
    /// # Errors
    /// Rows that cannot be read.
    pub fn evaluate(&self) -> Result<Option<Score>, TrainError> {
        let mut evaluator = Evaluator::new(Arc::clone(&self.task));
        Ok(evaluator.score_all(&self.weights, Which::Test)?)
    }

    /// What the model gives for rows of the training rows' width, row-major.
    ///
    /// # Errors
    /// Values that are not whole rows, or a model that has only a loss.
    pub fn predict(&self, features: &[f32]) -> Result<Predictions, TrainError> {
        let manifest = self.task.split.train.manifest();
        let width = manifest.width as usize;
        let batch = Batch {
            rows: features.len() / width.max(1),
            width,
            features: features.to_vec(),
            targets: Targets::default(),
        };
        let model = &self.task.model;
        let mut outputs = Vec::new();
        let mut workspace = model.workspace();
        let width = model.predict(&self.weights, &batch, &mut workspace, &mut outputs)?;
        Ok(Predictions {
            outputs,
            width,
            kind: manifest.targets,
        })
    }
}

impl fmt::Debug for Trained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trained")
            .field("steps", &self.steps)
            .field("stopped", &self.stopped)
            .field("weights_sha256", &self.sha256())
            .finish_non_exhaustive()
    }
}

impl Predictions {
    /// The values of each row.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.outputs.chunks_exact(self.width)
    }

    /// The predicted class of each row: the first of the largest values.
    ///
    /// # Panics
    /// If the model predicts values.
    #[must_use]
    pub fn classes(&self) -> Vec<u32> {
        assert!(
            matches!(self.kind, TargetKind::Classes(_)),
            "the model predicts values: take `rows`"
        );
        let class = |row: &[f32]| u32::try_from(largest(row)).expect("classes are u32");
        self.rows().map(class).collect()
    }
}
