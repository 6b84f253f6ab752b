//! The shapes of a learning rate.

use resilin_core::job::{JobError, Key, Section};

use crate::registry::Registry;
use crate::schedule::{Constant, Cosine, Schedule, StepDecay};

const DECAY: Key = Key::bits("decay", "", "Factor on the learning rate at each fall.");
const EVERY: Key = Key::bits("every_steps", "steps", "Steps from one fall to the next.");
const FLOOR: Key = Key::bits(
    "floor",
    "",
    "Factor on the learning rate at the end of the run.",
);

pub(super) fn register(registry: Registry) -> Registry {
    registry
        .schedule("constant", constant)
        .schedule("step", step)
        .schedule("cosine", cosine)
}

fn constant(_: &mut Section<'_>, _: u64) -> Result<Box<dyn Schedule>, JobError> {
    Ok(Box::new(Constant))
}

fn step(section: &mut Section<'_>, _: u64) -> Result<Box<dyn Schedule>, JobError> {
    Ok(Box::new(StepDecay {
        decay: section.float(&DECAY, Some(0.5), 0.0..=1.0)?,
        every: section.unsigned(&EVERY, Some(1000), 1..=1 << 48)?,
    }))
}

fn cosine(section: &mut Section<'_>, total: u64) -> Result<Box<dyn Schedule>, JobError> {
    let floor = section.float(&FLOOR, Some(0.0), 0.0..=1.0)?;
    Ok(Box::new(Cosine { floor, total }))
}
