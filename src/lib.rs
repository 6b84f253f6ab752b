//! Resilin trains models on machines that come and go: kill any process at any moment, the weights
//! come out the same, to the bit.
//!
//! This crate is the face: the command line, and what a Rust user needs for an own model. A program
//! that calls [`main`] with its own names in the [`Registry`] is a full `resilin`: it starts itself
//! as coordinator and workers.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     // Add to the registry: .model("mine", ...), .data("rows", ...), .optimizer("rule", ...)
//!     resilin::main(resilin::Registry::default())
//! }
//! ```
//!
//! Rows of one's own, for `[data] name = "squares"`; ones that are too many for memory implement
//! [`Dataset`]:
//!
//! ```no_run
//! # use std::process::ExitCode;
//! use std::sync::Arc;
//! use resilin::{Registry, Split, Table};
//!
//! # fn main() -> ExitCode {
//! let registry = Registry::default().data("squares", |_section, _directory| {
//!     let values: Vec<f32> = (0..1000).map(|row| row as f32 / 1000.0).collect();
//!     let squares = values.iter().map(|value| value * value).collect();
//!     let table = Table::of_values("squares", 1, values, 1, squares)?;
//!     Ok(Split { train: Arc::new(table), test: None })
//! });
//! resilin::main(registry)
//! # }
//! ```

mod address;
#[cfg(feature = "burn")]
pub mod burn;
mod cli;
mod client;
mod commands;
mod date;
mod face;
mod figures;
mod input;
mod job_file;
mod log;
mod print;
mod results;
mod runs;
mod trainer;
mod trial;

use std::process::ExitCode;
use std::sync::Arc;

use resilin_actors::Exit;

pub use resilin_core::job::{JobError, Key, Section, Value};
pub use resilin_core::layout::Entry;
pub use resilin_core::random;
pub use resilin_data::Table;
pub use resilin_learn::dataset::{Dataset, Manifest, Split, TargetKind};
pub use resilin_learn::model::Model;
pub use resilin_learn::registry::Registry;
pub use resilin_learn::{autograd, dataset, math, model, models, optimizer, schedule};
pub use trainer::{Moment, Predictions, TrainError, Trained, Trainer};

/// The whole program: reads the command line, does what it says, and gives the exit code. The data
/// sources and the model `command` that every `resilin` has are added; a name in `registry` comes
/// before theirs.
#[must_use]
pub fn main(registry: Registry) -> ExitCode {
    let built_in = resilin_foreign::models(resilin_data::sources(Registry::default()));
    let registry = built_in.with(registry);
    let exit = match cli::run(Arc::new(registry)) {
        Ok(()) => Exit::Done,
        Err(exit) => exit,
    };
    match &exit {
        Exit::Done => {}
        Exit::Stopped(_) => print::log(&exit.to_string()),
        Exit::Fault(_)
        | Exit::Usage(_)
        | Exit::Refused(_)
        | Exit::Damaged(_)
        | Exit::WaitedTooLong(_)
        | Exit::Gone(_) => print::log(&format!("error: {exit}")),
    }
    ExitCode::from(exit.code())
}
