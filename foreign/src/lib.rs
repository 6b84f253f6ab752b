//! Models in any language: `[model] command = "python3 model.py"` starts a program beside each
//! thread that evaluates, and has it compute losses and gradients.
//!
//! Weights, rows and gradients pass through memory that both processes see, one line of JSON a
//! request through a pipe (docs/foreign-models.md). The program is trusted with results and with
//! nothing else: it may crash, hang or answer nonsense at any time, and each of these becomes one
//! line that names it.

mod child;
mod command;
mod description;
mod desk;
mod fault;
mod lines;
mod memory;
mod message;
mod model;
mod pool;

use std::sync::Arc;
use std::time::Duration;

use resilin_core::job::{JobError, Key, Section};
use resilin_learn::dataset::Manifest;
use resilin_learn::model::Model;
use resilin_learn::registry::Registry;

use command::CommandLine;
use model::CommandModel;

/// The key of `[model]` whose value is the model.
pub const COMMAND: Key = Key::bits(
    "command",
    "",
    "Program and arguments that evaluate the model, split at blanks outside quotes; no shell.",
);
const DEADLINE: Key = Key::free(
    "deadline",
    "seconds",
    "Longest time for one answer of the command; its start may take five times as long. Then it counts as hung.",
);

/// Adds the model `command` to a registry. `[model] command` alone chooses it.
#[must_use]
pub fn models(registry: Registry) -> Registry {
    registry.model("command", build)
}

fn build(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let text = section.text(&COMMAND, None)?;
    let deadline = section.float(&DEADLINE, Some(60.0), 0.1..=86_400.0)?;
    let command = CommandLine::parse(&text).map_err(|why| section.error(COMMAND.name, why))?;
    let deadline = Duration::from_secs_f64(deadline);
    let model = CommandModel::new(Arc::new(command), deadline, data);
    Ok(Box::new(model))
}
