//! `[checkpoint]`: how often a run is made durable and how much of it is kept. Decides no bits.

use super::error::JobError;
use super::key::Key;
use super::section::Section;
use crate::time::Span;

const EVERY_STEPS: Key = Key::free(
    "every_steps",
    "steps",
    "Steps between two checkpoints, beside every_seconds.",
);
const EVERY_SECONDS: Key = Key::free(
    "every_seconds",
    "seconds",
    "Time between two checkpoints; 0 turns it off. The end of the run always makes one.",
);
const KEEP: Key = Key::free(
    "keep",
    "checkpoints",
    "Newest good checkpoints that are kept; damaged ones do not count.",
);

/// The section `[checkpoint]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointSection {
    /// Steps between two checkpoints.
    pub every_steps: Option<u64>,
    /// Time between two checkpoints; `None` where it is turned off.
    pub every: Option<Span>,
    /// Good checkpoints that are kept, at least 2: the newest may turn out damaged.
    pub keep: usize,
}

impl CheckpointSection {
    /// Reads the section.
    ///
    /// # Errors
    /// If a key is not what it may be.
    pub fn read(section: &mut Section<'_>) -> Result<Self, JobError> {
        let every_steps = section.optional_integer(&EVERY_STEPS, 1..=1 << 48)?;
        let every_seconds = section.float(&EVERY_SECONDS, Some(30.0), 0.0..=1e6)?;
        let keep = section.integer(&KEEP, Some(3), 2..=1000)?;
        Ok(Self {
            every_steps: every_steps.map(i64::unsigned_abs),
            every: (every_seconds > 0.0).then(|| Span::from_secs_f64(every_seconds)),
            keep: usize::try_from(keep).expect("at most 1000"),
        })
    }
}
