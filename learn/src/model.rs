//! What a model is to the rest of Resilin: named parameters, and a pure function from weights and
//! microbatches to sums of per-sample gradients.

use std::any::Any;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use resilin_core::job::JobError;
use resilin_core::layout::Entry;
use resilin_core::random::{Key, Purpose, Stream};
use resilin_core::{Generation, PartitionId, Step};

use crate::dataset::Batch;
use crate::kernel::Digest;
use crate::math::Write;

/// The samples of one partition at one step, with the names of its random draws.
pub struct Microbatch<'a> {
    /// The job's seed.
    pub seed: u64,
    /// The step whose weights are evaluated.
    pub step: Step,
    /// The partition that contributes the samples.
    pub partition: PartitionId,
    /// At least one row.
    pub batch: &'a Batch,
}

impl Microbatch<'_> {
    /// The stream of a draw for tensor or layer `index`; position = row x width + column.
    #[must_use]
    pub fn stream(&self, purpose: Purpose, index: u32) -> Stream {
        let clock = self.step.0;
        Key {
            clock,
            partition: self.partition.0,
            index,
            ..Key::new(self.seed, purpose)
        }
        .stream()
    }
}

/// What a microbatch adds up to beside its gradient.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Rows evaluated.
    pub samples: u64,
    /// What the summed gradient is divided by at the step; the row count unless rows have weights.
    pub weight: f64,
    /// Sum of per-sample losses.
    pub loss_sum: f64,
}

/// Takes gradients as a model makes them.
pub trait Sink {
    /// Where the gradient of the `k`-th microbatch goes: one value a parameter, in layout order, with
    /// unspecified contents. The model writes all of it: the *sum* of per-sample gradients.
    fn gradient(&mut self, k: usize) -> &mut [f32];

    /// The gradient of the `k`-th microbatch is complete.
    fn done(&mut self, k: usize, outcome: Outcome);

    /// In place of `gradient` and `done`, for a model that can make any part of a gradient when asked:
    /// calls `make` for each part of each microbatch of the group, in an order that keeps the values
    /// near.
    fn in_parts(&mut self, group: &Group<'_>, make: &mut dyn FnMut(Piece<'_>)) {
        for (k, outcome) in group.outcomes.iter().enumerate() {
            let gradient = self.gradient(group.first + k);
            for (number, part) in group.parts.iter().enumerate() {
                make(Piece {
                    k,
                    part: number,
                    values: &mut gradient[part.clone()],
                    write: Write::Replace,
                });
            }
            self.done(group.first + k, *outcome);
        }
    }
}

/// Microbatches whose gradients are made part by part.
pub struct Group<'a> {
    /// The first one's number in the call to the model.
    pub first: usize,
    /// One a microbatch, in ascending order.
    pub outcomes: &'a [Outcome],
    /// Ranges of the flat vector that together are the whole, each value once.
    pub parts: &'a [Range<usize>],
    /// Whether `make` may be told to add.
    pub addition: Addition,
}

/// A part of one microbatch's gradient that a model is to make.
pub struct Piece<'a> {
    /// The microbatch, counted within the group.
    pub k: usize,
    /// Index of the part.
    pub part: usize,
    /// Where its values go.
    pub values: &'a mut [f32],
    /// What happens to those that are there; never `Add` where that is not exact.
    pub write: Write,
}

/// What a model can do with the values that are already at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addition {
    /// Overwrite them.
    Apart,
    /// Also add to them, with exactly the bits of an addition after the fact.
    Exact,
}

/// The most losses that a model may name.
pub const MOST_LOSSES: usize = resilin_core::message::PARTS;

/// How well some rows are predicted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Score {
    /// Rows scored.
    pub rows: u64,
    /// Rows whose class was predicted; `None` for models without classes.
    pub correct: Option<u64>,
    /// Sum of per-sample losses, added row by row.
    pub loss_sum: f64,
    /// The same of each named loss before its weight, in the order of [`Model::losses`]; 0 beyond
    /// them.
    pub parts: [f64; MOST_LOSSES],
}

impl Score {
    /// The mean over the rows of each loss that the model names.
    #[must_use]
    pub fn mean_losses(&self, names: &[String]) -> BTreeMap<String, f64> {
        mean_losses(names, &self.parts, self.rows)
    }
}

/// The mean over `rows` rows of each named loss.
#[must_use]
pub fn mean_losses(
    names: &[String],
    parts: &[f64; MOST_LOSSES],
    rows: u64,
) -> BTreeMap<String, f64> {
    let means = parts.iter().map(|part| part / rows as f64);
    names.iter().cloned().zip(means).collect()
}

/// Memory a model keeps between evaluations, so that steps allocate nothing. Contents never
/// influence results.
pub type Workspace = Box<dyn Any + Send>;

/// Why a model could not be evaluated.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ModelError(pub String);

/// For `?` where a model is built from the section `[model]` of a job.
impl From<ModelError> for JobError {
    fn from(error: ModelError) -> Self {
        Self::of_section("model", error)
    }
}

/// Why the same rows are known to give the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// All arithmetic is this library's own.
    ByConstruction,
    /// Nobody knows: one microbatch is evaluated twice before a process takes part.
    Unproven,
}

/// A model: pure, single-threaded, and the same bits for the same input wherever it runs.
pub trait Model: Send + Sync {
    /// Gets ready for runs with this seed; called once, before anything else.
    ///
    /// # Errors
    /// Something that the model needs is not here.
    fn prepare(&self, _seed: u64) -> Result<(), ModelError> {
        Ok(())
    }

    /// Digest of what the model is beyond the keys of the job, where that can differ between
    /// machines; a process with another one is refused.
    fn fingerprint(&self) -> Option<Digest> {
        None
    }

    /// Lets go of what only evaluations need: this process makes none for now.
    fn rest(&self) {}

    /// This worker process begins to evaluate a branch of the run's history with this step: it joined
    /// the run, or everybody went back to a checkpoint. Called before what it evaluates from there
    /// on, by one of the threads that evaluate. Whatever the model does, its results must stay the
    /// same.
    fn restored(&self, _step: Step) {}

    /// Workers came or went, and this process evaluates these partitions in the new generation,
    /// from one of its next steps on. Called as [`Self::restored`] is, and after it.
    fn regrouped(&self, _generation: Generation, _partitions: &[PartitionId]) {}

    /// Whether the model must show that it repeats its results.
    fn repeats(&self) -> Repeats {
        Repeats::Unproven
    }

    /// Whether [`Self::check`] looks at values: every row is shown to it before a run then.
    fn is_choosy(&self) -> bool {
        false
    }

    /// Whether the rows' values are such as the model takes; targets are not looked at.
    ///
    /// # Errors
    /// Rows that do not fit.
    fn check(&self, _batch: &Batch) -> Result<(), ModelError> {
        Ok(())
    }

    /// What a person should know who trains it on microbatches of so many samples.
    fn advice(&self, _samples: u32) -> Option<String> {
        None
    }

    /// Names of the losses that a row's loss is the weighted sum of; none where it is one.
    fn losses(&self) -> Vec<String> {
        Vec::new()
    }

    /// Named tensors in flatten order.
    fn entries(&self) -> Vec<Entry>;

    /// Writes the initial weights, keyed by `seed` and tensor number.
    fn initialise(&self, seed: u64, weights: &mut [f32]);

    /// A fresh workspace.
    fn workspace(&self) -> Workspace;

    /// Gradients of the microbatches, each into its place in `sink`, in ascending order.
    ///
    /// # Errors
    /// Rows that do not fit the model; nothing may be used of what the sink got then.
    fn evaluate(
        &self,
        weights: &[f32],
        microbatches: &[Microbatch<'_>],
        workspace: &mut Workspace,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError>;

    /// Scores rows without dropout or other draws.
    ///
    /// # Errors
    /// Rows that do not fit the model.
    fn score(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
    ) -> Result<Score, ModelError>;

    /// Appends what the model gives for rows, row-major: for classes one value each, of which the
    /// largest is the predicted one, else the values. Targets are not looked at. Returns the values
    /// a row.
    ///
    /// # Errors
    /// Rows that do not fit the model, or a model that only has a loss.
    fn predict(
        &self,
        _weights: &[f32],
        _batch: &Batch,
        _workspace: &mut Workspace,
        _outputs: &mut Vec<f32>,
    ) -> Result<usize, ModelError> {
        Err(ModelError(
            "the model has a loss and no prediction; give it one (`with_prediction`)".into(),
        ))
    }
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn prepare(&self, seed: u64) -> Result<(), ModelError> {
        (**self).prepare(seed)
    }

    fn fingerprint(&self) -> Option<Digest> {
        (**self).fingerprint()
    }

    fn rest(&self) {
        (**self).rest();
    }

    fn restored(&self, step: Step) {
        (**self).restored(step);
    }

    fn regrouped(&self, generation: Generation, partitions: &[PartitionId]) {
        (**self).regrouped(generation, partitions);
    }

    fn repeats(&self) -> Repeats {
        (**self).repeats()
    }

    fn is_choosy(&self) -> bool {
        (**self).is_choosy()
    }

    fn check(&self, batch: &Batch) -> Result<(), ModelError> {
        (**self).check(batch)
    }

    fn advice(&self, samples: u32) -> Option<String> {
        (**self).advice(samples)
    }

    fn losses(&self) -> Vec<String> {
        (**self).losses()
    }

    fn entries(&self) -> Vec<Entry> {
        (**self).entries()
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        (**self).initialise(seed, weights);
    }

    fn workspace(&self) -> Workspace {
        (**self).workspace()
    }

    fn evaluate(
        &self,
        weights: &[f32],
        microbatches: &[Microbatch<'_>],
        workspace: &mut Workspace,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        (**self).evaluate(weights, microbatches, workspace, sink)
    }

    fn score(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
    ) -> Result<Score, ModelError> {
        (**self).score(weights, batch, workspace)
    }

    fn predict(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
        outputs: &mut Vec<f32>,
    ) -> Result<usize, ModelError> {
        (**self).predict(weights, batch, workspace, outputs)
    }
}
