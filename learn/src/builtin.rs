//! The models, optimizers and schedules that every program has, and the keys that describe them.

use resilin_core::job::{JobError, Key, Section};

use crate::dataset::{Manifest, TargetKind};
use crate::math::Activation;
use crate::model::{Model, ModelError};
use crate::models::{Linear, LinearConfig, Mlp, MlpConfig, Rows, Softmax, SoftmaxConfig};
use crate::optimizer::{Adagrad, Adam, AdamW, Momentum, Nesterov, Optimizer, RmsProp, Sgd};
use crate::registry::Registry;
use crate::schedule::{Constant, Cosine, Schedule, StepDecay};

const HIDDEN: Key = Key::bits(
    "hidden",
    "units",
    "Width of each hidden layer, from the input on.",
);
const ACTIVATION: Key = Key::bits("activation", "", "What follows each hidden layer.");
const DROPOUT: Key = Key::bits(
    "dropout",
    "",
    "Share of each hidden layer's outputs that is dropped in training.",
)
.range("0 to below 1");
const BIAS: Key = Key::bits("bias", "", "Whether a constant is added for each output.");
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
const DECAY: Key = Key::bits("decay", "", "Factor on the learning rate at each fall.");
const EVERY: Key = Key::bits("every_steps", "steps", "Steps from one fall to the next.");
const FLOOR: Key = Key::bits(
    "floor",
    "",
    "Factor on the learning rate at the end of the run.",
);

/// The largest number that a decay below 1 may be.
const BELOW_ONE: f64 = 1.0 - f64::EPSILON;

pub(crate) fn register(registry: Registry) -> Registry {
    registry
        .model("linear", linear)
        .model("softmax", softmax)
        .model("mlp", mlp)
        .optimizer("sgd", sgd)
        .optimizer("momentum", momentum)
        .optimizer("nesterov", nesterov)
        .optimizer("adam", |section| Ok(Box::new(adam(section)?)))
        .optimizer("adamw", adamw)
        .optimizer("rmsprop", rmsprop)
        .optimizer("adagrad", adagrad)
        .schedule("constant", constant)
        .schedule("step", step)
        .schedule("cosine", cosine)
}

fn linear(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let bias = section.boolean(&BIAS, Some(true))?;
    match data.targets {
        TargetKind::Values(outputs) => {
            let config = LinearConfig {
                inputs: width(data),
                outputs,
                bias,
            };
            boxed(section, Linear::new(config))
        }
        TargetKind::Classes(_) => {
            let message = "predicts values, but the data have classes; use softmax or mlp";
            Err(section.error("name", message))
        }
    }
}

fn softmax(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let bias = section.boolean(&BIAS, Some(true))?;
    match data.targets {
        TargetKind::Classes(classes) => {
            let config = SoftmaxConfig {
                inputs: width(data),
                classes,
                bias,
            };
            boxed(section, Softmax::new(config))
        }
        TargetKind::Values(_) => {
            let message = "predicts classes, but the data have values; use linear or mlp";
            Err(section.error("name", message))
        }
    }
}

fn mlp(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let hidden = section.integers(&HIDDEN, Some(&[128, 64]), 1..=1 << 20)?;
    let activation = section.choice(&ACTIVATION, Some("relu"), &["tanh", "relu", "sigmoid"])?;
    let dropout = section.float(&DROPOUT, Some(0.0), 0.0..=0.999)?;
    let model = Mlp::new(MlpConfig {
        rows: Rows {
            width: width(data),
            targets: data.targets,
        },
        hidden: hidden
            .into_iter()
            .map(|h| usize::try_from(h).expect("at most 2^20"))
            .collect(),
        activation: match activation.as_str() {
            "tanh" => Activation::Tanh,
            "sigmoid" => Activation::Sigmoid,
            _ => Activation::Relu,
        },
        dropout: dropout as f32,
    });
    boxed(section, model)
}

fn width(data: &Manifest) -> usize {
    usize::try_from(data.width).expect("a row fits into memory")
}

fn boxed(
    section: &Section<'_>,
    model: Result<impl Model + 'static, ModelError>,
) -> Result<Box<dyn Model>, JobError> {
    match model {
        Ok(model) => Ok(Box::new(model)),
        Err(error) => Err(section.error("name", error)),
    }
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
