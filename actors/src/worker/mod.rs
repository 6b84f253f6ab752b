//! The worker process: joins a coordinator, evaluates what it is leased, and leaves when told to.
//!
//! The main thread has the control link and the machine, so that heartbeats wait for no tensor; a
//! second one has the data links; compute threads evaluate.

mod actor;
mod compute;
mod data;
mod debut;
mod join;
mod parts;
mod stored;
mod tensors;

use std::path::PathBuf;
use std::sync::Arc;

use resilin_core::Span;
use resilin_core::handshake::Token;
use resilin_learn::registry::Registry;

use crate::exit::Exit;
use crate::process::{self, Parent};

pub use debut::Milestone;

/// What a worker is started with.
pub struct Options {
    /// Where the coordinator listens, as `host:port`.
    pub join: String,
    /// The secret of the cluster.
    pub token: Option<Token>,
    /// Where relative paths of `[data]` begin; `None`: the working directory.
    pub data: Option<PathBuf>,
    /// CPUs that all its threads keep to; none: it runs anywhere.
    pub cpus: Vec<usize>,
    /// How long to dial a coordinator that does not answer; `None`: a minute, and once the job is
    /// known `[failure] redial_limit`.
    pub redial_limit: Option<Span>,
    /// Whether this process ends with the one that started it.
    pub parent: Parent,
}

/// Runs a worker until it is released, refused, or left without a coordinator.
#[must_use]
pub fn run(options: Options, registry: Arc<Registry>) -> Exit {
    let debut = debut::Debut::begin();
    process::abort_on_panic();
    // Threads inherit it from the one that starts them.
    let prepared = process::keep_to(&options.cpus).and_then(|()| process::watch(options.parent));
    if let Err(exit) = prepared {
        return exit;
    }
    let served = actix::System::new().block_on(join::serve(options, registry, debut));
    served.unwrap_or_else(|exit| exit)
}
