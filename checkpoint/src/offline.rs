//! A state directory as a reader sees it: files alone, no lock, nothing changed. It works beside a
//! coordinator and after damage.

use std::path::{Path, PathBuf};

use crate::error::{Result, StoreError};
use crate::events::EVENTS;
use crate::files::{self, Files};
use crate::ledger::LEDGER;

/// The directories of the runs below `root`, sorted: whatever has a ledger or an event file.
///
/// # Errors
/// The file system's for the state directory itself.
pub fn run_directories(files: &dyn Files, root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for name in files.list(root).map_err(StoreError::io("list", root))? {
        let dir = root.join(&name);
        // A plain file has no entries; it is not a run.
        let entries = files::list(files, &dir).unwrap_or_default();
        if entries
            .iter()
            .any(|entry| entry == LEDGER || entry == EVENTS)
        {
            found.push(dir);
        }
    }
    Ok(found)
}
