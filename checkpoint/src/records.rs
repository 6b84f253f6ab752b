//! The small things that must survive, as keys and values: what the store needs of sled.
//!
//! Keys sort as bytes: numbers are big-endian, everything of a run begins with its directory's
//! name. A batch is applied whole or not at all.

use std::collections::BTreeMap;
use std::fmt;

use resilin_core::{SliceId, Step, Timeline};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Result, StoreError};

/// The longest value. Larger ones leave sled's log for files of their own, which it neither syncs
/// nor removes in time (measured: 8.1 GB on disk for 60 MB of live data).
pub const VALUE_LIMIT: usize = 64 * 1024;

/// Changes that become durable together: key to new value, or to `None` for removal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch(BTreeMap<Vec<u8>, Option<Vec<u8>>>);

impl Batch {
    /// Sets a key to a value written as JSON.
    ///
    /// # Errors
    /// A value above [`VALUE_LIMIT`].
    pub(crate) fn put<T: Serialize>(&mut self, key: Vec<u8>, value: &T) -> Result<()> {
        let value = serde_json::to_vec(value).expect("records have string keys only");
        if value.len() > VALUE_LIMIT {
            return Err(StoreError::Refused(format!(
                "a record of {} bytes is above the {VALUE_LIMIT} that the store takes; shorten the job file or the report",
                value.len()
            )));
        }
        self.0.insert(key, Some(value));
        Ok(())
    }

    /// Removes a key.
    pub(crate) fn remove(&mut self, key: Vec<u8>) {
        self.0.insert(key, None);
    }

    /// The changes in key order.
    pub fn changes(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        self.0
            .iter()
            .map(|(key, value)| (key.as_slice(), value.as_deref()))
    }
}

/// A key with its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A durable ordered map. Calls block, but never past the deadline of the implementation.
pub trait Records: fmt::Debug + Send {
    /// All pairs whose key begins with `prefix`, in key order.
    ///
    /// # Errors
    /// Those of the implementation.
    fn scan(&self, prefix: &[u8]) -> Result<Vec<Pair>>;

    /// Applies a batch; it is durable on return.
    ///
    /// # Errors
    /// Those of the implementation; the batch may then be applied or not.
    fn apply(&self, batch: &Batch) -> Result<()>;
}

/// Reads a value that [`Batch::put`] wrote.
pub(crate) fn parse<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T> {
    serde_json::from_slice(value).map_err(|error| {
        let key = String::from_utf8_lossy(key).into_owned();
        StoreError::damaged(
            key.as_ref(),
            format!("not a record of this version: {error}"),
        )
    })
}

/// The last reign that was begun.
pub(crate) fn reign_key() -> Vec<u8> {
    b"g/reign".to_vec()
}

/// Set once every directory with a valid manifest has its record: without it, nothing is cleaned.
pub(crate) fn complete_key() -> Vec<u8> {
    b"g/complete".to_vec()
}

/// Prefix of the markers of run directories that are being removed.
pub(crate) const REMOVAL: &[u8] = b"x/";

/// The marker of a run directory that is being removed.
pub(crate) fn removal_key(directory: &str) -> Vec<u8> {
    [REMOVAL, directory.as_bytes()].concat()
}

/// Prefix of everything that belongs to runs.
pub(crate) const RUNS: &[u8] = b"r/";

/// Which record of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The newest branch.
    Branch,
    /// Commit records of checkpoints.
    Commit,
    /// The run record.
    Info,
    /// The newest timeline.
    Timeline,
    /// Views of slices.
    View,
    /// What an operator asked for and is not done.
    Wishes,
}

impl Kind {
    fn byte(self) -> u8 {
        match self {
            Self::Branch => b'b',
            Self::Commit => b'c',
            Self::Info => b'i',
            Self::Timeline => b't',
            Self::View => b'v',
            Self::Wishes => b'w',
        }
    }
}

/// The key of a run's record, or the prefix of all its records of the kind. `directory` has no
/// slash, so that no run's prefix is another's.
pub(crate) fn run_key(directory: &str, kind: Kind) -> Vec<u8> {
    assert!(!directory.contains('/'), "run names are checked before");
    [RUNS, directory.as_bytes(), b"/", &[kind.byte()]].concat()
}

/// The key of a checkpoint's commit record; they sort by timeline, then step.
pub(crate) fn commit_key(directory: &str, timeline: Timeline, step: Step) -> Vec<u8> {
    let mut key = run_key(directory, Kind::Commit);
    key.extend(timeline.reign.to_be_bytes());
    key.extend(timeline.number.to_be_bytes());
    key.extend(step.0.to_be_bytes());
    key
}

/// The key of a slice's view.
pub(crate) fn view_key(directory: &str, slice: SliceId) -> Vec<u8> {
    let mut key = run_key(directory, Kind::View);
    key.extend(slice.0.to_be_bytes());
    key
}

/// The directory of a run whose info record has this key.
pub(crate) fn info_directory(key: &[u8]) -> Option<&str> {
    let directory = key.strip_prefix(RUNS)?.strip_suffix(b"/i")?;
    let directory = str::from_utf8(directory).ok()?;
    (!directory.contains('/')).then_some(directory)
}
