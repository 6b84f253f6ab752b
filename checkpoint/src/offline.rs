//! A state directory as a reader sees it: files alone, no lock, nothing changed. It works beside a
//! coordinator and after damage.

use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{Result, StoreError};
use crate::events::EVENTS;
use crate::files::{self, Files};
use crate::ledger::LEDGER;
use crate::manifest::{Manifest, parse_directory_name};
use crate::restore::{self, Depth};

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

/// A checkpoint of a run.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its directory.
    pub path: PathBuf,
    /// What it is, or what does not fit.
    pub manifest: std::result::Result<Manifest, String>,
}

impl Stored {
    /// The whole flat tensors: name and values, in the order in which they were written.
    ///
    /// # Errors
    /// A damaged file, or the file system's.
    ///
    /// # Panics
    /// If the manifest is damaged.
    pub fn load(&self, files: &dyn Files) -> Result<Vec<(String, Vec<f32>)>> {
        let manifest = self.manifest.as_ref().expect("the caller looked");
        let blocks: Range<usize> = 0..manifest.layout.blocks();
        restore::load(files, &self.path, manifest, blocks)
    }
}

/// The checkpoints of the run in `dir` by step, looked at as closely as `depth` says.
///
/// # Errors
/// The file system's for the directory itself; a damaged checkpoint is in the answer.
pub fn checkpoints(files: &dyn Files, dir: &Path, depth: Depth) -> Result<Vec<Stored>> {
    let mut found = Vec::new();
    for name in files.list(dir).map_err(StoreError::io("list", dir))? {
        if parse_directory_name(&name).is_some() {
            let path = dir.join(name);
            let manifest = restore::check(files, &path, depth)
                .map(|(manifest, _)| manifest)
                .map_err(|error| error.to_string());
            found.push(Stored { path, manifest });
        }
    }
    Ok(found)
}
