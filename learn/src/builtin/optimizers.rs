//! The update rules of a job file.

use resilin_core::job::{JobError, Key, Section};

use super::BELOW_ONE;
use crate::optimizer::{Adagrad, Adam, AdamW, Momentum, Nesterov, Optimizer, RmsProp, Sgd};
use crate::registry::Registry;

const MOMENTUM: Key =
    Key::bits("momentum", "", "What is kept of the velocity at each step.").range("0 to below 1");
const BETA1: Key = Key::bits("beta1", "", "Decay of the mean of gradients.").range("0 to below 1");
const BETA2: Key =
    Key::bits("beta2", "", "Decay of the mean of squared gradients.").range("0 to below 1");
const EPSILON: Key =
    Key::bits("epsilon", "", "Added to the root of the mean square.").range("above 0");
const WEIGHT_DECAY: Key = Key::bits(
    "weight_decay",
    "",
    "Share of each weight, times the learning rate, that a step takes away.",
);
const SQUARES_DECAY: Key =
    Key::bits("decay", "", "Decay of the mean of squared gradients.").range("0 to below 1");
const START: Key = Key::bits(
    "start",
    "",
    "The mean of squared gradients before the first step: 0 in PyTorch, 1 in TensorFlow.",
);

pub(super) fn register(registry: Registry) -> Registry {
    registry
        .optimizer("sgd", sgd)
        .optimizer("momentum", momentum)
        .optimizer("nesterov", nesterov)
        .optimizer("adam", |section| Ok(Box::new(adam(section)?)))
        .optimizer("adamw", adamw)
        .optimizer("rmsprop", rmsprop)
        .optimizer("adagrad", adagrad)
}

fn sgd(_: &mut Section<'_>) -> Result<Box<dyn Optimizer>, JobError> {
    Ok(Box::new(Sgd))
}

fn momentum(section: &mut Section<'_>) -> Result<Box<dyn Optimizer>, JobError> {
    let momentum = section.float(&MOMENTUM, Some(0.9), 0.0..=BELOW_ONE)?;
    Ok(Box::new(Momentum { momentum }))
}

fn nesterov(section: &mut Section<'_>) -> Result<Box<dyn Optimizer>, JobError> {
    let momentum = section.float(&MOMENTUM, Some(0.9), 0.0..=BELOW_ONE)?;
    Ok(Box::new(Nesterov { momentum }))
}

fn adam(section: &mut Section<'_>) -> Result<Adam, JobError> {
    Ok(Adam {
        beta1: section.float(&BETA1, Some(0.9), 0.0..=BELOW_ONE)?,
        beta2: section.float(&BETA2, Some(0.999), 0.0..=BELOW_ONE)?,
        epsilon: epsilon(section, 1e-8)?,
    })
}

fn adamw(section: &mut Section<'_>) -> Result<Box<dyn Optimizer>, JobError> {
    let adam = adam(section)?;
    let decay = section.float(&WEIGHT_DECAY, Some(0.01), 0.0..=1e6)?;
    Ok(Box::new(AdamW { adam, decay }))
}

fn rmsprop(section: &mut Section<'_>) -> Result<Box<dyn Optimizer>, JobError> {
    Ok(Box::new(RmsProp {
        decay: section.float(&SQUARES_DECAY, Some(0.99), 0.0..=BELOW_ONE)?,
        epsilon: epsilon(section, 1e-8)?,
        start: section.float(&START, Some(0.0), 0.0..=1e6)?,
    }))
}

fn adagrad(section: &mut Section<'_>) -> Result<Box<dyn Optimizer>, JobError> {
    let epsilon = epsilon(section, 1e-10)?;
    Ok(Box::new(Adagrad { epsilon }))
}

fn epsilon(section: &mut Section<'_>, usual: f64) -> Result<f64, JobError> {
    section.float(&EPSILON, Some(usual), f64::from(f32::MIN_POSITIVE)..=1.0)
}
