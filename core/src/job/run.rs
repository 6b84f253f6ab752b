//! `[run]`: what is trained for how long, and everything about it that decides bits.

use serde::{Deserialize, Serialize};

use super::error::JobError;
use super::key::Key;
use super::section::Section;
use crate::sampling::Shuffle;
use crate::tree::Tree;

const NAME: Key = Key::free(
    "name",
    "",
    "Name of the run; its directory is NAME-DIGEST8 below the state directory.",
)
.range("1 to 64 of A-Z a-z 0-9 . _ -, a letter or digit first");
const SEED: Key = Key::bits("seed", "", "Seed of every random draw.");
const EPOCHS: Key = Key::bits(
    "epochs",
    "epochs",
    "Length of the run in passes over the data; 20 if steps is not set either.",
);
const STEPS: Key = Key::bits(
    "steps",
    "steps",
    "Length of the run in steps, instead of epochs.",
);
const BATCH: Key = Key::bits(
    "batch",
    "samples",
    "Samples of one step over all partitions.",
);
const PARTITIONS: Key = Key::bits(
    "partitions",
    "",
    "Parts of every epoch's order, the unit that moves between workers; divides batch. If it is \
     not set, the largest divisor of batch up to 16.",
);
const SHUFFLE: Key = Key::bits(
    "shuffle",
    "",
    "Order of an epoch: all rows, rows within their partition's range, or as in the file.",
);
const SLOT_LEVEL: Key = Key::bits(
    "slot_level",
    "",
    "Level of the tree nodes that own state between steps; 0 is one partition.",
);
const BLOCK: Key = Key::bits(
    "block",
    "parameters",
    "Consecutive parameters that are hashed, measured and dealt to shards together.",
);
const BITS: Key = Key::bits(
    "bits",
    "",
    "Whether the weights must be the same to the bit; off for models whose own results vary.",
);
const CLIP_NORM: Key = Key::bits(
    "clip_norm",
    "",
    "Largest global norm of the gradient; longer ones are scaled down.",
)
.range("above 0");
const CLIP_VALUE: Key = Key::bits(
    "clip_value",
    "",
    "Largest magnitude of a gradient's element; larger ones are cut.",
)
.range("above 0");
const NON_FINITE: Key = Key::bits(
    "non_finite",
    "",
    "What a step does whose gradient has a NaN or an infinity: stops the run, or is left out.",
);
const EVALUATE_EVERY: Key = Key::free(
    "evaluate_every",
    "epochs",
    "Epochs between two evaluations on the test rows; 0 evaluates at the end only. Training goes on \
     beside one, and waits for it only where the next is due.",
);

/// The most samples of a step.
const MAX_BATCH: u32 = 1 << 24;

/// The most partitions that a coordinator stays quick with: a change of membership is told in one
/// message a member, which names each.
const MAX_PARTITIONS: u32 = 1 << 12;

/// How long a run is. Both decide bits: a schedule may stretch over the whole length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// Passes over the training rows, at least 1.
    Epochs(u64),
    /// Updates, at least 1.
    Steps(u64),
}

/// Whether the run promises the same weights to the bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bits {
    /// It does; a model whose results vary is refused.
    #[default]
    On,
    /// It does not: exactly-once and recovery hold, the hash promise is dropped.
    Off,
}

/// What a step with non-finite values does. They never reach the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NonFinite {
    /// The run stops at the step.
    Halt,
    /// The step changes nothing.
    Skip,
}

/// The section `[run]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// Name of the run, safe as a file name.
    pub name: String,
    /// Seed of every draw.
    pub seed: u64,
    /// How long the run is.
    pub length: Length,
    /// Samples of a step.
    pub batch: u32,
    /// Partitions; divides `batch`.
    pub partitions: u32,
    /// Order of an epoch.
    pub shuffle: Shuffle,
    /// Level of the slots in the tree.
    pub slot_level: u8,
    /// Parameters of a block.
    pub block: usize,
    /// Whether the hash promise holds.
    pub bits: Bits,
    /// Largest global norm of a gradient.
    pub clip_norm: Option<f64>,
    /// Largest magnitude of a gradient's element.
    pub clip_value: Option<f64>,
    /// What non-finite values do.
    pub non_finite: NonFinite,
    /// Epochs between evaluations; 0 = at the end only.
    pub evaluate_every: u64,
}

impl Run {
    /// Reads the section.
    ///
    /// # Errors
    /// If a key is not what it may be, or batch and partitions do not fit.
    pub fn read(section: &mut Section<'_>) -> Result<Self, JobError> {
        let name = name(section)?;
        let seed = section.unsigned(&SEED, Some(1), 0..=u64::MAX)?;
        let length = length(section)?;
        let batch = small(section, &BATCH, 64, MAX_BATCH)?;
        let partitions = small(
            section,
            &PARTITIONS,
            default_partitions(batch),
            MAX_PARTITIONS,
        )?;
        let shuffle = section.choice(&SHUFFLE, Some("global"), &["global", "within", "none"])?;
        let slot_level = section.integer(&SLOT_LEVEL, Some(0), 0..=24)?;
        let block = section.integer(&BLOCK, Some(65_536), 1..=1 << 24)?;
        let bits = section.choice(&BITS, Some("on"), &["on", "off"])?;
        let run = Self {
            name,
            seed,
            length,
            batch,
            partitions,
            shuffle: match shuffle.as_str() {
                "global" => Shuffle::Global,
                "within" => Shuffle::Within,
                _ => Shuffle::None,
            },
            slot_level: u8::try_from(slot_level).expect("at most 24"),
            block: usize::try_from(block).expect("at most 2^24"),
            bits: if bits == "on" { Bits::On } else { Bits::Off },
            clip_norm: section.optional_float(&CLIP_NORM, f64::MIN_POSITIVE..=f64::MAX)?,
            clip_value: section.optional_float(&CLIP_VALUE, f64::MIN_POSITIVE..=f64::MAX)?,
            non_finite: match section
                .choice(&NON_FINITE, Some("halt"), &["halt", "skip"])?
                .as_str()
            {
                "halt" => NonFinite::Halt,
                _ => NonFinite::Skip,
            },
            evaluate_every: section.unsigned(&EVALUATE_EVERY, Some(1), 0..=1_000_000)?,
        };
        run.validate(section)?;
        Ok(run)
    }

    /// Samples of one partition at one step.
    #[must_use]
    pub fn microbatch(&self) -> u32 {
        self.batch / self.partitions
    }

    fn validate(&self, section: &Section<'_>) -> Result<(), JobError> {
        if !self.batch.is_multiple_of(self.partitions) {
            return Err(section.error(PARTITIONS.name, uneven(self.batch, self.partitions)));
        }
        let root = Tree::new(self.partitions).root().level;
        if self.slot_level > root {
            let message = format!(
                "level {} lies above the root of {} partitions; use 0 to {root}",
                self.slot_level, self.partitions
            );
            return Err(section.error(SLOT_LEVEL.name, message));
        }
        Ok(())
    }
}

fn name(section: &mut Section<'_>) -> Result<String, JobError> {
    let name = section.text(&NAME, Some("digits"))?;
    let safe = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let first = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if first && name.len() <= 64 && name.chars().all(safe) {
        return Ok(name);
    }
    Err(section.error(NAME.name, format!("not a name; use {}", NAME.range)))
}

fn length(section: &mut Section<'_>) -> Result<Length, JobError> {
    const MOST: u64 = 1 << 48;
    let (epochs, steps) = (section.has(EPOCHS.name), section.has(STEPS.name));
    if epochs && steps {
        return Err(section.error(STEPS.name, "epochs is set too; remove one of the two"));
    }
    if steps {
        section.optional_integer(&EPOCHS, 1..=1 << 48)?;
        return Ok(Length::Steps(section.unsigned(&STEPS, None, 1..=MOST)?));
    }
    let epochs = section.unsigned(&EPOCHS, Some(20), 1..=MOST)?;
    section.optional_integer(&STEPS, 1..=1 << 48)?;
    Ok(Length::Epochs(epochs))
}

fn small(section: &mut Section<'_>, key: &Key, default: u32, most: u32) -> Result<u32, JobError> {
    let number = section.integer(key, Some(default.into()), 1..=most.into())?;
    Ok(u32::try_from(number).expect("in a range of u32"))
}

/// The largest divisor of `batch` up to 16.
fn default_partitions(batch: u32) -> u32 {
    (1..=16)
        .rev()
        .find(|p| batch.is_multiple_of(*p))
        .expect("1 divides everything")
}

/// Says why `batch` over `partitions` is refused, with the nearest values that are not.
fn uneven(batch: u32, partitions: u32) -> String {
    let (lower, upper) = (
        batch / partitions * partitions,
        batch.next_multiple_of(partitions),
    );
    let batches = match lower {
        0 => upper.to_string(),
        lower => format!("{lower} or {upper}"),
    };
    let fits = |p: &u32| batch.is_multiple_of(*p);
    let below = (1..partitions.min(batch + 1)).rev().find(fits);
    let above = (partitions..=batch).find(fits);
    let legal: Vec<String> = [below, above]
        .into_iter()
        .flatten()
        .map(|p| p.to_string())
        .collect();
    format!(
        "batch {batch} over {partitions} partitions is not whole; use batch {batches}, or \
         partitions {}",
        legal.join(" or ")
    )
}
