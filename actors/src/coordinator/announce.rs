//! What a coordinator tells the process that started it, and where command line tools find it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::report::Report;

/// Name of the file in the state directory that says where the coordinator is, while it lives.
pub const COORDINATOR_FILE: &str = "coordinator.json";

/// Where a coordinator is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Where workers dial, as `host:port`.
    pub join: String,
    /// Where the coordinator listens for them: the same, unless it advertises another address.
    pub listen: String,
    /// Where the HTTP interface listens, as `host:port`.
    pub api: String,
    /// Id of the run, in hex.
    pub run: String,
    /// Process id of the coordinator.
    pub pid: u32,
    /// The run's directory.
    pub directory: PathBuf,
    /// The file with the token, if one is needed.
    pub token_file: Option<PathBuf>,
}

impl Location {
    /// Writes the file in the state directory; a reader sees the old or the new one, never half.
    pub(super) fn write(&self, state: &Path) -> io::Result<()> {
        let text = serde_json::to_string_pretty(self).expect("a location has string keys only");
        let temporary = state.join("coordinator.json.tmp");
        std::fs::write(&temporary, text)?;
        std::fs::rename(temporary, state.join(COORDINATOR_FILE))
    }

    /// Reads the file in a state directory; `None` if no coordinator lives there.
    ///
    /// # Errors
    /// The file system's.
    pub fn read(state: &Path) -> io::Result<Option<Self>> {
        match std::fs::read(state.join(COORDINATOR_FILE)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the file at the end.
    pub(super) fn remove(state: &Path) {
        if let Err(error) = std::fs::remove_file(state.join(COORDINATOR_FILE)) {
            tracing::warn!(%error, "cannot remove the coordinator's address file");
        }
    }
}

/// A line on the coordinator's standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Announcement {
    /// Workers may dial.
    Ready(Location),
    /// The run was finished before this start; nothing was done.
    Finished {
        /// The run's directory.
        directory: PathBuf,
        /// The report as it was kept.
        report: serde_json::Value,
    },
    /// The run ended now.
    Over {
        /// The run's directory.
        directory: PathBuf,
        /// How it ended.
        report: Box<Report>,
    },
}

impl Announcement {
    /// Writes the line.
    pub(super) fn print(&self) {
        let mut line = serde_json::to_string(self).expect("an announcement has string keys only");
        line.push('\n');
        let mut out = io::stdout().lock();
        // Whoever started this process may have gone; that is no reason to end.
        let _ = out.write_all(line.as_bytes()).and_then(|()| out.flush());
    }
}
