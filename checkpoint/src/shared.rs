//! What the state directory and the handles to its runs share: root, files, records, reserve, reign.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use serde::de::DeserializeOwned;

use crate::error::{Result, StoreError};
use crate::files::{Files, sync_dir};
use crate::lock::Lock;
use crate::records::{self, Batch, Kind, Pair, RUNS, Records, info_directory, run_key};
use crate::reserve::Reserve;
use crate::run::{CommitRecord, RunRecord};

/// How the names of entries end that a clean start removes.
pub(crate) const TEMPORARY: &str = ".tmp";

/// The shared part; it lives as long as any handle.
#[derive(Debug)]
pub(crate) struct Shared {
    root: PathBuf,
    files: Arc<dyn Files>,
    records: Mutex<Box<dyn Records>>,
    reserve: Reserve,
    reign: Mutex<Option<u64>>,
    /// Held as long as any handle lives.
    _lock: Option<Lock>,
}

impl Shared {
    pub(crate) fn new(
        root: &Path,
        files: Arc<dyn Files>,
        records: Box<dyn Records>,
        lock: Option<Lock>,
    ) -> Self {
        Self {
            root: root.to_path_buf(),
            files,
            records: Mutex::new(records),
            reserve: Reserve::new(root),
            reign: Mutex::new(None),
            _lock: lock,
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn files(&self) -> &dyn Files {
        self.files.as_ref()
    }

    pub(crate) fn shared_files(&self) -> Arc<dyn Files> {
        Arc::clone(&self.files)
    }

    /// The reign that this process began.
    pub(crate) fn reign(&self) -> Result<u64> {
        self.reign_slot()
            .ok_or_else(|| StoreError::Refused("no reign was begun on this state".into()))
    }

    pub(crate) fn set_reign(&self, reign: u64) {
        *self.reign_slot() = Some(reign);
    }

    fn reign_slot(&self) -> MutexGuard<'_, Option<u64>> {
        self.reign
            .lock()
            .expect("nothing panics while the number is held")
    }

    fn records(&self) -> MutexGuard<'_, Box<dyn Records>> {
        self.records
            .lock()
            .expect("a panic with the records held ends the process")
    }

    /// Fails unless `bytes` can be written and the reserve stays whole.
    pub(crate) fn require_space(&self, bytes: u64) -> Result<()> {
        self.restore_reserve();
        self.reserve.require_space(self.files(), bytes)
    }

    /// Makes the reserve again if there is space.
    pub(crate) fn restore_reserve(&self) {
        self.reserve.restore(self.files());
    }

    pub(crate) fn has_reserve(&self) -> bool {
        self.reserve.is_whole(self.files())
    }

    /// Makes a batch durable, with the reserve's space if need be.
    pub(crate) fn apply(&self, batch: &Batch) -> Result<()> {
        self.reserve.make_room(self.files())?;
        self.records().apply(batch)
    }

    /// All pairs whose key begins with `prefix`.
    pub(crate) fn scan(&self, prefix: &[u8]) -> Result<Vec<Pair>> {
        self.records().scan(prefix)
    }

    /// The value of a key.
    pub(crate) fn get<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>> {
        let pairs = self.scan(key)?;
        let exact = pairs.iter().find(|(found, _)| found == key);
        exact
            .map(|(key, value)| records::parse(key, value))
            .transpose()
    }

    /// The record of the run with this directory.
    pub(crate) fn run(&self, directory: &str) -> Result<Option<RunRecord>> {
        self.get(&run_key(directory, Kind::Info))
    }

    /// The records of all runs.
    pub(crate) fn runs(&self) -> Result<Vec<RunRecord>> {
        let pairs = self.scan(RUNS)?;
        let infos = pairs
            .iter()
            .filter(|(key, _)| info_directory(key).is_some());
        infos
            .map(|(key, value)| records::parse(key, value))
            .collect()
    }

    /// The commit records of a run, oldest first.
    pub(crate) fn commits(&self, directory: &str) -> Result<Vec<CommitRecord>> {
        let pairs = self.scan(&run_key(directory, Kind::Commit))?;
        pairs
            .iter()
            .map(|(key, value)| records::parse(key, value))
            .collect()
    }

    /// Creates a run's directory, durably, unless it exists.
    pub(crate) fn ensure_dir(&self, dir: &Path) -> Result<()> {
        let exists = self
            .files
            .length(dir)
            .map_err(StoreError::io("look at", dir))?;
        if exists.is_none() {
            self.files
                .create_dir(dir)
                .map_err(StoreError::io("create", dir))?;
            sync_dir(self.files(), &self.root)?;
        }
        Ok(())
    }
}
