//! The supervisor of `resilin train`: starts a coordinator, shard processes and workers as
//! children, restarts what fails within the budget, keeps as many workers as the coordinator wants,
//! and leaves no process behind.
//!
//! Children are the current executable in its own commands, exactly as a stranger on another host
//! would start them, in a process group of their own and with a pipe as standard input whose end
//! ends them.

mod budget;
mod child;
mod children;
mod look;
mod run;
mod seats;
mod words;

use std::fmt;
use std::path::PathBuf;

use resilin_core::Span;

use crate::coordinator::{Location, RunStatus};
use crate::exit::Exit;

pub use children::Children;
pub use run::run;

/// What a supervisor is started with.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program to start; normally the current executable.
    pub program: PathBuf,
    /// Its arguments for a coordinator. `--end-with-parent` is added always, and at a restart
    /// `--listen ADDR --api ADDR --workers N`, so that it is where it was and as it was asked to be.
    pub coordinator: Vec<String>,
    /// More arguments for the very first start only, such as `--fresh`.
    pub first_start: Vec<String>,
    /// Its arguments for a worker. `--join ADDR` and `--end-with-parent` are added, and `--cpus LIST`.
    pub worker: Vec<String>,
    /// CPUs that a worker has for itself while there are enough for all; `None`: workers run
    /// anywhere.
    pub cpus_each: Option<u16>,
    /// Its arguments for each shard process to keep running: one that is started anew takes those of
    /// one that is gone. `--join ADDR` and `--end-with-parent` are added.
    pub shards: Vec<Vec<String>>,
    /// The secret of the cluster, for the HTTP interface.
    pub token: Option<String>,
    /// Restarts of failed children within `window`.
    pub restarts: u32,
    /// Time over which restarts are counted.
    pub window: Span,
    /// How long members may take to end before they are killed.
    pub grace: Span,
    /// Gets the living children, to make them fail on purpose.
    pub children: Children,
}

/// What a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The coordinator.
    Coordinator,
    /// A worker.
    Worker,
    /// A process that serves slices.
    Shard,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Coordinator => "coordinator",
            Self::Worker => "worker",
            Self::Shard => "shard",
        })
    }
}

/// What happens, for a progress bar and for people.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A child was started.
    Started {
        /// What it is.
        role: Role,
        /// Its process id.
        pid: u32,
    },
    /// The coordinator listens, for the first time or again.
    Ready(Location),
    /// A line that a child wrote to standard error.
    Line {
        /// What it is.
        role: Role,
        /// Its process id.
        pid: u32,
        /// The line, without its end.
        text: String,
    },
    /// A child ended otherwise than in peace.
    Failed {
        /// What it was.
        role: Role,
        /// Its process id.
        pid: u32,
        /// Exit code or signal.
        how: String,
    },
    /// A child was killed through [`Children`] and is gone.
    Killed {
        /// What it was.
        role: Role,
        /// Its process id.
        pid: u32,
    },
    /// The run at this moment, several times a second.
    Status(Box<RunStatus>),
    /// A stop was asked for.
    Stopping,
}

/// How it went.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How `train` shall end.
    pub exit: Exit,
    /// The report, if there is one.
    pub report: Option<serde_json::Value>,
    /// The run's directory, once it was known.
    pub directory: Option<PathBuf>,
    /// Whether there was anything to do.
    pub done: When,
}

/// When a run was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Before this start: nothing was done.
    Before,
    /// It ended now.
    Now,
}
