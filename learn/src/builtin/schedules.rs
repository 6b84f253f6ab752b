//! The shapes of a learning rate.

use resilin_core::job::{JobError, Key, Section};

use crate::plateau::Plateau;
use crate::registry::Registry;
use crate::schedule::{Constant, Cosine, Schedule, StepDecay};

const DECAY: Key = Key::bits("decay", "", "Factor on the learning rate at each fall.");
const EVERY: Key = Key::bits("every_steps", "steps", "Steps from one fall to the next.");
const FLOOR: Key = Key::bits(
    "floor",
    "",
    "Factor on the learning rate at the end of the run.",
);
const LOOK: Key = Key::bits(
    "every_steps",
    "steps",
    "Steps between two looks at the mean training loss; an epoch if it is not set.",
);
const PATIENCE: Key = Key::bits(
    "patience",
    "looks",
    "Looks without a better loss that are borne before the learning rate falls.",
);
const THRESHOLD: Key = Key::bits(
    "threshold",
    "",
    "Share by which a loss must be below the best one to be better.",
);
const COOLDOWN: Key = Key::bits("cooldown", "looks", "Looks after a fall that do not count.");
const LOWEST: Key = Key::bits(
    "floor",
    "",
    "The factor on the learning rate falls no lower.",
);

pub(super) fn register(registry: Registry) -> Registry {
    registry
        .schedule("constant", constant)
        .schedule("step", step)
        .schedule("cosine", cosine)
        .schedule("plateau", plateau)
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

fn plateau(section: &mut Section<'_>, _: u64) -> Result<Box<dyn Schedule>, JobError> {
    let every = section.optional_integer(&LOOK, 1..=1 << 48)?;
    let count = |number| u32::try_from(number).expect("in range");
    Ok(Box::new(Plateau {
        decay: section.float(&DECAY, Some(0.1), 0.0..=1.0)?,
        every: every.map(i64::unsigned_abs),
        patience: count(section.unsigned(&PATIENCE, Some(10), 0..=1_000_000)?),
        threshold: section.float(&THRESHOLD, Some(1e-4), 0.0..=1.0)?,
        cooldown: count(section.unsigned(&COOLDOWN, Some(0), 0..=1_000_000)?),
        floor: section.float(&LOWEST, Some(0.0), 0.0..=1.0)?,
    }))
}
