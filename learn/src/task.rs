//! A whole job, read and built: everything that a process needs to take part in a run or to train
//! alone. Immutable; shared in an `Arc`.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use resilin_core::job::{Bits, Document, Effective, Job, JobError, Key, Length};
use resilin_core::layout::{Entry, Layout, SliceMap};
use resilin_core::sampling::Sampling;
use resilin_core::tree::Tree;

use crate::dataset::{Manifest, Split, TargetKind};
use crate::kernel::{Digest, SlicePlan};
use crate::model::Model;
use crate::optimizer::{Preparation, UpdateRule};
use crate::registry::Registry;
use crate::schedule::LearningRate;

const LEARNING_RATE: Key = Key::bits(
    "learning_rate",
    "",
    "Learning rate before the schedule; if it is not set, the rule's usual one.",
);
const L2: Key = Key::bits(
    "l2",
    "",
    "L2 coefficient: l2 * w is added to the gradient of w.",
);
const WARMUP: Key = Key::bits(
    "warmup_steps",
    "steps",
    "Steps over which the learning rate rises from 0; the shape begins after them.",
);

/// The most parameters of a model: every process holds several vectors of this length.
const MOST_PARAMETERS: usize = 1 << 31;

/// Where a task's rows come from.
pub(crate) enum Rows<'a> {
    /// From what `[data]` names; relative paths start here.
    Read(Option<&'a Path>),
    /// They are known already; `[data]` is not looked at.
    Known(Split),
}

/// A job with all that it names.
pub struct Task {
    /// The core's sections.
    pub job: Job,
    /// Every key with its value; its text builds the same task in another process.
    pub effective: Effective,
    /// The rows.
    pub split: Split,
    /// The model.
    pub model: Box<dyn Model>,
    /// Its parameters in flatten order.
    pub layout: Arc<Layout>,
    /// Which rows each partition has at each step.
    pub sampling: Sampling,
    /// The tree over the partitions.
    pub tree: Tree,
    /// How weights are updated.
    pub rule: Arc<UpdateRule>,
    /// Steps of the whole run.
    pub total_steps: u64,
}

impl Task {
    pub(crate) fn read(
        registry: &Registry,
        mut document: Document,
        rows: Rows<'_>,
    ) -> Result<Self, JobError> {
        let job = Job::read(&mut document)?;
        let run = &job.run;

        let split = read_rows(registry, &mut document, rows)?;
        let manifest = split.train.manifest();

        let mut section = document.section("model");
        let model = registry.build_model(&mut section, manifest)?;
        let ready = model.prepare(run.seed);
        ready.map_err(|error| section.refuse(error))?;
        let entries = model.entries();
        if let Some(refusal) = too_large(&entries) {
            return Err(section.error("name", refusal));
        }
        section.finish()?;
        let layout = Arc::new(Layout::new(entries, run.block));
        assert!(!layout.is_empty(), "a model has parameters");

        let microbatch = u64::from(run.microbatch());
        let sampling = Sampling::new(
            manifest.rows,
            run.partitions,
            microbatch,
            run.shuffle,
            run.seed,
        );
        let total_steps = match run.length {
            Length::Epochs(epochs) => epochs.saturating_mul(sampling.steps_per_epoch()),
            Length::Steps(steps) => steps,
        };
        let steps = [total_steps, sampling.steps_per_epoch()];
        let rule = Arc::new(read_rule(registry, &mut document, &job, steps)?);
        let tree = Tree::new(run.partitions);
        let effective = document.finish()?;
        Ok(Self {
            job,
            effective,
            split,
            model,
            layout,
            sampling,
            tree,
            rule,
            total_steps,
        })
    }

    /// The weights of step 0, in layout order.
    #[must_use]
    pub fn initial_weights(&self) -> Vec<f32> {
        let mut weights = vec![0.0; self.layout.len()];
        self.model.initialise(self.job.run.seed, &mut weights);
        weights
    }

    /// How a refusal names the model.
    #[must_use]
    pub fn model_name(&self) -> String {
        let value = |key| self.effective.value("model", key);
        match (value("command"), value("name")) {
            (Some(command), _) => format!("the model command {command}"),
            (None, Some(name)) => format!("the model {name}"),
            (None, None) => "the model".into(),
        }
    }

    /// How `shards` shards divide the blocks.
    #[must_use]
    pub fn slices(&self, shards: u16) -> SliceMap {
        SliceMap::new(self.layout.blocks(), shards)
    }

    /// What the slice of these blocks is.
    #[must_use]
    pub fn slice_plan(&self, blocks: Range<usize>) -> SlicePlan {
        SlicePlan {
            layout: Arc::clone(&self.layout),
            blocks,
            tree: self.tree,
            rule: Arc::clone(&self.rule),
        }
    }

    /// BLAKE3 over what training and test rows are, whatever files they came from, and over the
    /// model's fingerprint, if it has one: a worker with another digest has other rows or another
    /// model and is refused.
    #[must_use]
    pub fn data_digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(rows_line(self.split.train.manifest()).as_bytes());
        if let Some(test) = &self.split.test {
            hasher.update(rows_line(test.manifest()).as_bytes());
        }
        if let Some(fingerprint) = self.model.fingerprint() {
            hasher.update(&fingerprint);
        }
        *hasher.finalize().as_bytes()
    }
}

/// Why a model does not fit, in words; its sizes may be beyond what a `usize` holds.
fn too_large(entries: &[Entry]) -> Option<String> {
    let parameters = entries.iter().try_fold(0_usize, |sum, entry| {
        let mut sizes = entry.shape.iter();
        let values = sizes.try_fold(1_usize, |product, size| product.checked_mul(*size))?;
        sum.checked_add(values)
    });
    let count = match parameters {
        Some(count) if count <= MOST_PARAMETERS => return None,
        Some(count) => count.to_string(),
        None => "more than 2^64".into(),
    };
    Some(format!(
        "the model has {count} parameters, more than {MOST_PARAMETERS} (8 GiB as f32); use smaller \
         layers or fewer features"
    ))
}

fn rows_line(manifest: &Manifest) -> String {
    let (kind, count) = match manifest.targets {
        TargetKind::Classes(count) => ("classes", count),
        TargetKind::Values(count) => ("values", count),
    };
    format!(
        "{} {} {kind} {count} {}\n",
        manifest.rows, manifest.width, manifest.digest
    )
}

fn read_rows(
    registry: &Registry,
    document: &mut Document,
    rows: Rows<'_>,
) -> Result<Split, JobError> {
    let mut section = document.section("data");
    let directory = match rows {
        Rows::Read(directory) => directory,
        Rows::Known(split) => return Ok(split),
    };
    let split = registry.build_data(&mut section, directory)?;
    if split.train.manifest().rows == 0 {
        return Err(section.error("name", "no training rows; hold out fewer"));
    }
    section.finish()?;
    Ok(split)
}

fn read_rule(
    registry: &Registry,
    document: &mut Document,
    job: &Job,
    [total_steps, epoch]: [u64; 2],
) -> Result<UpdateRule, JobError> {
    let mut section = document.section("optimizer");
    let optimizer = registry.build_optimizer(&mut section)?;
    let base = section.float(&LEARNING_RATE, Some(optimizer.usual_rate()), 0.0..=1e6)?;
    let l2 = section.float(&L2, Some(0.0), 0.0..=1e6)?;
    section.finish()?;

    let mut section = document.section("schedule");
    let warmup = section.unsigned(&WARMUP, Some(0), 0..=1 << 48)?;
    let shape = registry.build_schedule(&mut section, total_steps.saturating_sub(warmup))?;
    if shape.adaptive().is_some() && job.run.bits == Bits::Off {
        let message = "follows the loss, of which slices may hold two results where bits are off; \
                       take another schedule, or set [run] bits = \"on\"";
        return Err(section.error("name", message));
    }
    section.finish()?;

    Ok(UpdateRule {
        preparation: Preparation {
            l2,
            clip_value: job.run.clip_value,
        },
        rate: LearningRate::new(base, warmup, shape).with_epochs_of(epoch),
        optimizer,
    })
}
