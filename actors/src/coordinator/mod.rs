//! The coordinator process: fleet, job, store and shards as actors, one listener for all links, and
//! the HTTP interface.
//!
//! Order of a start: task, numerics, state lock, reign, run, newest checkpoint, timeline; only then
//! are ports opened, and last of all the process says that it is ready (PROTOCOL 1, 2).

mod accept;
mod announce;
mod common;
mod fleet;
mod http;
mod inside;
mod job;
mod lineage;
mod notes;
mod opening;
mod rehearsal;
mod report;
mod store;
mod system;

use std::path::PathBuf;

use resilin_checkpoint::Start;
use resilin_core::handshake::Token;
use resilin_core::job::Document;
use resilin_learn::registry::Registry;

use crate::exit::Exit;
use crate::process::{self, Parent};

pub use announce::{Announcement, COORDINATOR_FILE, Location};
pub use http::RunStatus;
pub use report::Report;

/// What a coordinator is started with.
pub struct Options {
    /// The job file, with the overrides of the command line set in it.
    pub job: Document,
    /// The state directory.
    pub state: PathBuf,
    /// Where relative paths of `[data]` begin; `None`: the working directory.
    pub data: Option<PathBuf>,
    /// The address for workers, instead of `[cluster] listen`.
    pub listen: Option<String>,
    /// What members are told to dial, where that is another address than the one listened on.
    pub advertise: Option<String>,
    /// The address of the HTTP interface, instead of `[cluster] api`.
    pub api: Option<String>,
    /// The secret of the cluster; needed to listen elsewhere than on loopback.
    pub token: Option<Token>,
    /// The file that the secret came from, named to the command line tools.
    pub token_file: Option<PathBuf>,
    /// Whether the run goes on or starts over.
    pub start: Start,
    /// Whether this process ends with the one that started it.
    pub parent: Parent,
}

/// Runs a coordinator until its run is over, and says how it ended. Standard output gets one JSON
/// line for each [`Announcement`].
#[must_use]
pub fn run(options: Options, registry: &Registry) -> Exit {
    process::abort_on_panic();
    let opened = process::watch(options.parent).and_then(|()| opening::open(options, registry));
    match opened {
        Ok(opening::Opened::Finished(announcement)) => {
            announcement.print();
            Exit::Done
        }
        Ok(opening::Opened::Ready(opening)) => system::serve(*opening),
        Err(exit) => exit,
    }
}
