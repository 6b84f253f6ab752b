//! A model with a moving average of its weights (Polyak and Juditsky 1992), which scores and
//! predictions use in place of the weights.
//!
//! The averages are buffers of the model: every microbatch gives the next ones, the same numbers
//! whoever evaluates it, and they are summed, checkpointed and sent as any other buffer. Whoever
//! joins gets them with the weights. They cost as many values on the way as the weights do.

use std::ops::Range;

use resilin_core::layout::{Entry, Role};
use resilin_core::{Generation, PartitionId, Step};

use crate::dataset::Batch;
use crate::kernel::Digest;
use crate::model::{Microbatch, Model, ModelError, Outcome, Repeats, Score, Sink, Workspace};

/// A model beside the averages of what it trains, named `average.NAME`.
pub struct Averaged {
    model: Box<dyn Model>,
    keep: f64,
}

impl Averaged {
    /// The model with an average that keeps the share `keep` (in [0, 1)) of itself at each step, and
    /// less in the first ones, where there is little to keep: (1 + t) / (10 + t) at step t.
    #[must_use]
    pub fn new(model: Box<dyn Model>, keep: f64) -> Self {
        Self { model, keep }
    }

    /// Where the trained values are in the flat vector of the model itself.
    fn trained(&self) -> Vec<Range<usize>> {
        let mut start = 0;
        let mut trained = Vec::new();
        for entry in self.model.entries() {
            let range = start..start + entry.len();
            start = range.end;
            match entry.role {
                Role::Trained => trained.push(range),
                Role::Buffer => {}
            }
        }
        trained
    }
}

/// The averaged model's own workspace beside that of the model.
struct Space {
    model: Workspace,
    /// Values of the model itself.
    own: usize,
    trained: Vec<Range<usize>>,
    /// The averages of the next step, or the weights that are scored.
    made: Vec<f32>,
}

impl Space {
    /// Writes the averages after a step at which `keep` of them stays.
    fn advance(&mut self, weights: &[f32], keep: f64) {
        let (weights, averages) = weights.split_at(self.own);
        let (kept, added) = (keep as f32, (1.0 - keep) as f32);
        let trained = self
            .trained
            .iter()
            .flat_map(|range| &weights[range.clone()]);
        let next = averages.iter().zip(trained);
        self.made.clear();
        self.made
            .extend(next.map(|(average, weight)| kept * average + added * weight));
    }

    /// Writes the model's values with the averages in place of what is trained.
    fn average(&mut self, weights: &[f32]) {
        let (weights, mut averages) = weights.split_at(self.own);
        self.made.clear();
        self.made.extend_from_slice(weights);
        for range in &self.trained {
            let (these, rest) = averages.split_at(range.len());
            self.made[range.clone()].copy_from_slice(these);
            averages = rest;
        }
    }
}

fn space(workspace: &mut Workspace) -> &mut Space {
    workspace
        .downcast_mut()
        .expect("a workspace is used with the model that made it")
}

/// Gives the model its part of each gradient, and writes the averages behind it.
struct Behind<'a> {
    sink: &'a mut dyn Sink,
    own: usize,
    averages: &'a [f32],
}

impl Sink for Behind<'_> {
    fn gradient(&mut self, k: usize) -> &mut [f32] {
        &mut self.sink.gradient(k)[..self.own]
    }

    fn done(&mut self, k: usize, outcome: Outcome) {
        // A buffer becomes the sum over all microbatches, divided by the sum of their weights.
        let weight = outcome.weight as f32;
        let behind = &mut self.sink.gradient(k)[self.own..];
        for (value, average) in behind.iter_mut().zip(self.averages) {
            *value = weight * average;
        }
        self.sink.done(k, outcome);
    }
}

impl Model for Averaged {
    fn prepare(&self, seed: u64) -> Result<(), ModelError> {
        self.model.prepare(seed)
    }

    fn fingerprint(&self) -> Option<Digest> {
        self.model.fingerprint()
    }

    fn rest(&self) {
        self.model.rest();
    }

    fn restored(&self, step: Step) {
        self.model.restored(step);
    }

    fn regrouped(&self, generation: Generation, partitions: &[PartitionId]) {
        self.model.regrouped(generation, partitions);
    }

    fn repeats(&self) -> Repeats {
        self.model.repeats()
    }

    fn is_choosy(&self) -> bool {
        self.model.is_choosy()
    }

    fn check(&self, batch: &Batch) -> Result<(), ModelError> {
        self.model.check(batch)
    }

    fn advice(&self, samples: u32) -> Option<String> {
        self.model.advice(samples)
    }

    fn losses(&self) -> Vec<String> {
        self.model.losses()
    }

    fn entries(&self) -> Vec<Entry> {
        let own = self.model.entries();
        let trained = own.iter().filter(|entry| entry.role == Role::Trained);
        let averages: Vec<Entry> = trained
            .map(|entry| Entry {
                name: format!("average.{}", entry.name),
                shape: entry.shape.clone(),
                role: Role::Buffer,
            })
            .collect();
        [own, averages].concat()
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        let trained = self.trained();
        let count: usize = trained.iter().map(Range::len).sum();
        let (own, mut averages) = weights.split_at_mut(weights.len() - count);
        self.model.initialise(seed, own);
        for range in trained {
            let (these, rest) = averages.split_at_mut(range.len());
            these.copy_from_slice(&own[range]);
            averages = rest;
        }
    }

    fn workspace(&self) -> Workspace {
        Box::new(Space {
            model: self.model.workspace(),
            own: self.model.entries().iter().map(Entry::len).sum(),
            trained: self.trained(),
            made: Vec::new(),
        })
    }

    fn evaluate(
        &self,
        weights: &[f32],
        microbatches: &[Microbatch<'_>],
        workspace: &mut Workspace,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        let space = space(workspace);
        // All microbatches of a call are of one step.
        if let Some(Microbatch { step, .. }) = microbatches.first() {
            let begun = (1.0 + step.0 as f64) / (10.0 + step.0 as f64);
            space.advance(weights, self.keep.min(begun));
        }
        let mut behind = Behind {
            sink,
            own: space.own,
            averages: &space.made,
        };
        let own = &weights[..space.own];
        self.model
            .evaluate(own, microbatches, &mut space.model, &mut behind)
    }

    fn score(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
    ) -> Result<Score, ModelError> {
        let space = space(workspace);
        space.average(weights);
        self.model.score(&space.made, batch, &mut space.model)
    }

    fn predict(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
        outputs: &mut Vec<f32>,
    ) -> Result<usize, ModelError> {
        let space = space(workspace);
        space.average(weights);
        let model = &mut space.model;
        self.model.predict(&space.made, batch, model, outputs)
    }
}
