//! One run's part of the state: its record, its ledger, its numbers and its checkpoints.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use resilin_core::job::Effective;
use resilin_core::ledger::{Record, hex};
use resilin_core::sorted::{SortedMap, SortedSet};
use resilin_core::{SliceId, Step, Timeline};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::branches::Began;
use crate::error::{Result, StoreError};
use crate::events::Events;
use crate::history::History;
use crate::ledger::Ledger;
use crate::line::LedgerMark;
use crate::records::{Batch, Kind, parse, run_key, view_key};
use crate::restore::{self, Newest, Restored};
use crate::retention::{self, Pruned};
use crate::save::{Save, Set};
use crate::shared::Shared;

/// What the store knows about a run. The digest and the name identify it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// Name in the job file.
    pub name: String,
    /// Digest over every job key that decides bits.
    #[serde(with = "hex")]
    pub digest: [u8; 32],
    /// The effective job that the run was last opened with, without descriptions.
    pub job: Effective,
    /// When the run was created, in seconds since 1970.
    pub created: u64,
    /// Set once the last checkpoint is durable.
    pub finished: Option<Finished>,
}

impl RunRecord {
    /// Name of the run's directory: `NAME-DIGEST8`.
    #[must_use]
    pub fn directory(&self) -> String {
        format!("{}-{}", self.name, crate::digest::hex(&self.digest[..4]))
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finished {
    /// In seconds since 1970; 0 if the record was rebuilt from the manifest.
    pub at: u64,
    /// The report; `None` if the record was rebuilt: it must be made again.
    pub report: Option<serde_json::Value>,
}

/// The commit record of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommitRecord {
    /// The weights are those of this step.
    pub step: Step,
    /// The branch.
    pub timeline: Timeline,
    /// Name of its directory within the run's.
    pub directory: String,
    /// Bytes of its tensor files.
    pub bytes: u64,
    /// SHA-256 of its manifest's file, in hex.
    pub manifest_sha256: String,
    /// Whether the run ended with it.
    pub finished: bool,
    /// How far the ledger was durable before the manifest.
    pub ledger: LedgerMark,
}

/// An open run. Clones are handles to the same run.
#[derive(Clone, Debug)]
pub struct Run(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: Arc<Shared>,
    record: RunRecord,
    directory: String,
    path: PathBuf,
    ledger: Mutex<Ledger>,
    /// Checkpoints whose every byte was written or checked in this life of the process.
    verified: Mutex<SortedSet<String>>,
}

impl Run {
    pub(crate) fn new(state: Arc<Shared>, record: RunRecord, ledger: Ledger) -> Self {
        let directory = record.directory();
        let path = state.root().join(&directory);
        Self(Arc::new(Inner {
            state,
            record,
            directory,
            path,
            ledger: Mutex::new(ledger),
            verified: Mutex::default(),
        }))
    }

    /// What the store knew about the run when it was opened.
    #[must_use]
    pub fn record(&self) -> &RunRecord {
        &self.0.record
    }

    /// The run's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Begins a checkpoint, after a look at the free space.
    ///
    /// # Errors
    /// A full disk, a checkpoint that exists already, or the file system's; nothing was changed.
    pub fn begin(&self, set: Set) -> Result<Save> {
        Save::begin(self, set)
    }

    /// The newest checkpoint whose every byte fits and that no later branch left behind, and the
    /// newer ones that were skipped.
    ///
    /// # Errors
    /// The record store's; a damaged checkpoint is skipped, not an error.
    pub fn newest(&self) -> Result<Newest> {
        restore::newest(self)
    }

    /// The newest good checkpoint of this step that no later branch left behind.
    ///
    /// # Errors
    /// The record store's; a damaged checkpoint is passed over, not an error.
    pub fn at(&self, step: Step) -> Result<Option<Restored>> {
        restore::at(self, step)
    }

    /// Deletes all but the newest `keep` good checkpoints (at least one is always kept). Damaged
    /// ones, and those of branches that were left behind, are never counted.
    ///
    /// # Errors
    /// The record store's. A directory that cannot be deleted is a warning in the answer.
    pub fn prune(&self, keep: usize) -> Result<Pruned> {
        retention::prune(self, keep)
    }

    /// Ends the run whose last checkpoint is committed: its record gets the report (PROTOCOL 29).
    /// `now` is in seconds since 1970.
    ///
    /// # Errors
    /// The record store's; the run is then not finished.
    pub fn finish(&self, now: u64, report: serde_json::Value) -> Result<()> {
        let mut record = self.record().clone();
        record.finished = Some(Finished {
            at: now,
            report: Some(report),
        });
        let mut batch = Batch::default();
        batch.put(run_key(self.directory(), Kind::Info), &record)?;
        self.state().apply(&batch)
    }

    /// Issues the next timeline; durable on return (PROTOCOL 2).
    ///
    /// # Errors
    /// The record store's: the number must then not be used.
    pub fn next_timeline(&self) -> Result<Timeline> {
        let reign = self.state().reign()?;
        let key = run_key(self.directory(), Kind::Timeline);
        let stored: Option<Timeline> = self.state().get(&key)?;
        let timeline = match stored {
            Some(stored) if stored.reign >= reign => stored.next(),
            Some(_) | None => Timeline::first(reign),
        };
        let mut batch = Batch::default();
        batch.put(key, &timeline)?;
        self.state().apply(&batch)?;
        Ok(timeline)
    }

    /// Makes views of the newest branch durable, before anyone is told (PROTOCOL 3): all or none.
    ///
    /// # Errors
    /// The record store's: the views must then not be used.
    pub fn set_views<V: Serialize>(&self, views: &SortedMap<SliceId, V>) -> Result<()> {
        let mut batch = Batch::default();
        for (slice, view) in views {
            batch.put(view_key(self.directory(), *slice), view)?;
        }
        self.state().apply(&batch)
    }

    /// Forgets all views: nobody serves the branch any more, and the next start begins another at the
    /// newest checkpoint.
    ///
    /// # Errors
    /// The record store's: the next start waits in vain for who served the slices.
    pub fn forget_views(&self) -> Result<()> {
        let mut batch = Batch::default();
        self.remove_views(&mut batch)?;
        self.state().apply(&batch)
    }

    fn remove_views(&self, batch: &mut Batch) -> Result<()> {
        for (key, _) in self.state().scan(&run_key(self.directory(), Kind::View))? {
            batch.remove(key);
        }
        Ok(())
    }

    /// Makes a branch durable, before anyone is told: its timeline is issued with it, and views of
    /// the one before are gone (PROTOCOL 2, 4).
    ///
    /// # Errors
    /// The record store's: the branch must then not be used.
    pub fn set_branch<B: Serialize>(&self, timeline: Timeline, branch: &B) -> Result<()> {
        let mut batch = Batch::default();
        self.remove_views(&mut batch)?;
        batch.put(run_key(self.directory(), Kind::Timeline), &timeline)?;
        batch.put(run_key(self.directory(), Kind::Branch), branch)?;
        self.state().apply(&batch)
    }

    /// The durable branch; none at a first start, and after the records were rebuilt.
    ///
    /// # Errors
    /// The record store's.
    pub fn branch<B: DeserializeOwned>(&self) -> Result<Option<B>> {
        let key = run_key(self.directory(), Kind::Branch);
        self.state().get(&key)
    }

    /// The durable views by slice; none after the records were rebuilt.
    ///
    /// # Errors
    /// The record store's.
    pub fn views<V: DeserializeOwned>(&self) -> Result<SortedMap<SliceId, V>> {
        let prefix = run_key(self.directory(), Kind::View);
        let mut views = SortedMap::new();
        for (key, value) in self.state().scan(&prefix)? {
            let slice = key[prefix.len()..]
                .try_into()
                .map_err(|_| StoreError::damaged(self.path(), "a view without a slice"))?;
            views.insert(SliceId(u16::from_be_bytes(slice)), parse(&key, &value)?);
        }
        Ok(views)
    }

    /// Makes what is still to be done durable, in place of what was written before.
    ///
    /// # Errors
    /// The record store's: what was written before may still be there.
    pub fn set_wishes<W: Serialize>(&self, wishes: &W) -> Result<()> {
        let mut batch = Batch::default();
        batch.put(run_key(self.directory(), Kind::Wishes), wishes)?;
        self.state().apply(&batch)
    }

    /// What is still to be done; none before the first wish, and after the records were rebuilt.
    ///
    /// # Errors
    /// The record store's.
    pub fn wishes<W: DeserializeOwned>(&self) -> Result<Option<W>> {
        self.state().get(&run_key(self.directory(), Kind::Wishes))
    }

    /// Appends records to the ledger. They are durable after the next checkpoint or
    /// [`Self::sync_ledger`], or earlier.
    ///
    /// # Errors
    /// The file system's; none of the records is then in the ledger.
    pub fn append(&self, records: &[Record]) -> Result<()> {
        self.ledger().append(records)
    }

    /// Makes the ledger durable.
    ///
    /// # Errors
    /// The file system's; the next call tries again with a fresh file.
    pub fn sync_ledger(&self) -> Result<LedgerMark> {
        self.ledger().sync()
    }

    /// The event file, to be written by one holder.
    #[must_use]
    pub fn events(&self) -> Events {
        Events::new(self.state().shared_files(), self.path())
    }

    /// The chain lines and what superseded them, read from the ledger.
    ///
    /// # Errors
    /// The file system's, or lines that were written are gone from the file.
    pub fn history(&self) -> Result<History> {
        // The lock keeps a repair from exchanging the file meanwhile.
        let ledger = self.ledger();
        let (history, mark) = History::read_with_mark(self.state().files(), ledger.path())?;
        if mark.bytes < ledger.mark().bytes {
            let why = format!(
                "lines that were written are gone: {} of {} bytes fit; leave the file alone while \
                 the run goes on",
                mark.bytes,
                ledger.mark().bytes
            );
            return Err(StoreError::damaged(ledger.path(), why));
        }
        Ok(history)
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.0
            .ledger
            .lock()
            .expect("a panic with the ledger held ends the process")
    }

    pub(crate) fn state(&self) -> &Shared {
        &self.0.state
    }

    pub(crate) fn directory(&self) -> &str {
        &self.0.directory
    }

    /// The branch that left a checkpoint behind.
    pub(crate) fn left(&self, commit: &CommitRecord) -> Option<Began> {
        let ledger = self.ledger();
        ledger.branches().left(commit.timeline, commit.step)
    }

    /// The commit records, oldest first.
    pub(crate) fn commits(&self) -> Result<Vec<CommitRecord>> {
        self.state().commits(self.directory())
    }

    pub(crate) fn note_verified(&self, checkpoint: &str) {
        self.verified().insert(checkpoint.into());
    }

    pub(crate) fn verified(&self) -> MutexGuard<'_, SortedSet<String>> {
        self.0
            .verified
            .lock()
            .expect("nothing panics while the set is held")
    }
}
