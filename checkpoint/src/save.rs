//! Writing a checkpoint: slices in any order, then the manifest, then the commit record.
//!
//! Until the directory gets its name the set is temporary; until the commit record is durable it is
//! not announced and a clean start removes it. Each stage is a type, so the order cannot be
//! mistaken: [`Save`] takes slices, [`Sealed`] has its manifest, [`Committed`] may be announced.

use std::ops::Range;
use std::path::PathBuf;

use resilin_core::layout::{Layout, SliceMap};
use resilin_core::sorted::SortedMap;
use resilin_core::{MapNumber, SliceId, Step, Timeline};
use resilin_learn::kernel::extent;

use crate::digest::sha256;
use crate::error::{Result, StoreError};
use crate::files::{self, create_synced, free_name, rename_durably, sync_dir};
use crate::line::LedgerMark;
use crate::manifest::{Facts, FileRecord, MANIFEST, Manifest, directory_name};
use crate::records::{Batch, Kind, commit_key, run_key};
use crate::run::{CommitRecord, Finished, Run};
use crate::shared::TEMPORARY;
use crate::slice_file;

/// Bytes that must stay free beyond a checkpoint's own: headers, manifest, ledger and records.
const MARGIN: u64 = 1 << 20;

/// What a checkpoint shall hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The weights are those of this step.
    pub step: Step,
    /// The branch.
    pub timeline: Timeline,
    /// Number of the slice layout.
    pub map: MapNumber,
    /// Which blocks each slice has.
    pub slices: SliceMap,
    /// The flat vector.
    pub layout: Layout,
    /// Flat tensors a slice: the weights, each optimizer moment, and what the schedule remembers. For
    /// the check of free space.
    pub tensors: usize,
}

/// One slice's part of a checkpoint.
#[derive(Clone, Debug)]
pub struct SliceImage<'a> {
    /// The slice.
    pub slice: SliceId,
    /// Its blocks: those of the set's slice map.
    pub blocks: Range<usize>,
    /// Each flat tensor, such as `weights` or `adam.m`, with the values of the blocks.
    pub tensors: &'a [(&'a str, &'a [f32])],
}

/// A checkpoint that is being written.
#[derive(Debug)]
pub struct Save {
    run: Run,
    set: Set,
    temporary: Temporary,
    files: SortedMap<SliceId, FileRecord>,
}

/// The directory of a save that has no name yet; removed when dropped, so that a save that failed
/// does not keep the space that the next one needs. What cannot be removed is left to a clean start.
#[derive(Debug)]
struct Temporary {
    run: Run,
    name: String,
}

impl Temporary {
    fn path(&self) -> PathBuf {
        self.run.path().join(&self.name)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After `seal` there is nothing of the name any more.
        drop(self.run.state().files().remove_dir(&self.path()));
    }
}

impl Save {
    pub(crate) fn begin(run: &Run, set: Set) -> Result<Self> {
        assert!(set.tensors > 0, "a checkpoint holds at least the weights");
        let name = directory_name(set.step, set.timeline);
        if run.verified().contains(&name) {
            return Err(StoreError::Refused(format!(
                "checkpoint {name} is already durable"
            )));
        }
        let need = (set.layout.len() * set.tensors * size_of::<f32>()) as u64;
        run.state().require_space(need + MARGIN)?;
        let files = run.state().files();
        // What is left of a failed save keeps its name: it may be half synced (PROTOCOL 28).
        let temporary = Temporary {
            run: run.clone(),
            name: free_name(&files::list(files, run.path())?, &name, TEMPORARY),
        };
        let dir = temporary.path();
        files
            .create_dir(&dir)
            .map_err(StoreError::io("create", &dir))?;
        Ok(Self {
            run: run.clone(),
            set,
            temporary,
            files: SortedMap::new(),
        })
    }

    /// Writes and syncs the file of one slice. Slices come in any order, each once.
    ///
    /// # Errors
    /// The file system's; the save must then be dropped.
    pub fn write_slice(&mut self, image: &SliceImage<'_>) -> Result<FileRecord> {
        let length = |name| extent(name, &self.set.layout, image.blocks.clone()).len();
        assert_eq!(
            image.blocks,
            self.set.slices.range(image.slice),
            "an image has its slice's blocks"
        );
        assert!(
            image
                .tensors
                .iter()
                .all(|(name, flat)| flat.len() == length(name)),
            "every tensor of an image has the values of its blocks"
        );
        assert!(
            !self.files.contains_key(&image.slice),
            "a slice is written once"
        );
        let record = slice_file::write(
            self.run.state().files(),
            &self.temporary.path(),
            self.run.record(),
            &self.set,
            image,
        )?;
        self.files.insert(image.slice, record.clone());
        Ok(record)
    }

    /// Syncs the ledger, writes the manifest and gives the directory its name.
    ///
    /// # Errors
    /// A slice that is missing, or the file system's; the checkpoint does not exist then.
    pub fn seal(self, facts: Facts) -> Result<Sealed> {
        if let Some(missing) = self.set.slices.ids().find(|s| !self.files.contains_key(s)) {
            return Err(StoreError::Refused(format!(
                "checkpoint of step {} lacks slice {missing}",
                self.set.step
            )));
        }
        // Records up to a step are durable before its manifest (PROTOCOL 26).
        let ledger = self.run.sync_ledger()?;
        let Self {
            run,
            set,
            temporary,
            files,
        } = self;
        let records = files.into_values().collect();
        let reign = run.state().reign()?;
        let mut manifest = Manifest::unsigned(run.record(), reign, &set, records, facts);
        manifest.ledger = Some(ledger);
        let bytes = manifest.encode();
        let files = run.state().files();
        let dir = temporary.path();
        create_synced(files, &dir.join(MANIFEST), &bytes)?;
        sync_dir(files, &dir)?;
        let name = directory_name(set.step, set.timeline);
        remove_uncommitted(&run, &name)?;
        if let Err(error) = rename_durably(files, run.path(), &temporary.name, &name) {
            drop(remove_uncommitted(&run, &name));
            return Err(error);
        }
        let commit = CommitRecord {
            step: set.step,
            timeline: set.timeline,
            directory: name,
            bytes: manifest.bytes(),
            manifest_sha256: sha256(&bytes),
            finished: manifest.finished,
            ledger,
        };
        Ok(Sealed { run, commit })
    }

    /// Gives the checkpoint up and removes what was written of it, as dropping it does.
    pub fn abandon(self) {
        drop(self);
    }
}

/// Removes a set whose save ended between its name and its commit record. It must not be found by a
/// later start: a rollback below its step may come first.
fn remove_uncommitted(run: &Run, name: &str) -> Result<()> {
    let files = run.state().files();
    let taken = files::list(files, run.path())?;
    if !taken.iter().any(|entry| entry == name) {
        return Ok(());
    }
    let aside = free_name(&taken, name, TEMPORARY);
    rename_durably(files, run.path(), name, &aside)?;
    let path = run.path().join(aside);
    files
        .remove_dir(&path)
        .map_err(StoreError::io("remove", &path))
}

/// A checkpoint with a durable manifest, not yet committed.
#[derive(Debug)]
#[must_use = "only a committed checkpoint may be announced"]
pub struct Sealed {
    run: Run,
    commit: CommitRecord,
}

impl Sealed {
    /// Makes the commit record durable. A run whose last checkpoint is committed so is ended by
    /// [`Run::finish`], once its report is there.
    ///
    /// # Errors
    /// The record store's: nothing may be announced; the same step may be saved again.
    pub fn commit(self) -> Result<Committed> {
        self.apply(Batch::default())
    }

    /// Ends the run: the commit record and the run record with its report become durable in one
    /// batch (PROTOCOL 29). `now` is in seconds since 1970.
    ///
    /// # Errors
    /// As [`Self::commit`]; the run is then not finished.
    pub fn finish(self, now: u64, report: serde_json::Value) -> Result<Committed> {
        assert!(self.commit.finished, "the manifest says so first");
        let mut record = self.run.record().clone();
        let key = run_key(self.run.directory(), Kind::Info);
        let mut batch = Batch::default();
        let mut end = |report| {
            record.finished = Some(Finished { at: now, report });
            batch.put(key.clone(), &record)
        };
        if let Err(error) = end(Some(report)) {
            // A run that cannot end would be worse than a report that has to be made again.
            tracing::warn!(%error, "report is not kept");
            end(None)?;
        }
        self.apply(batch)
    }

    fn apply(self, mut batch: Batch) -> Result<Committed> {
        let Self { run, commit } = self;
        let key = commit_key(run.directory(), commit.timeline, commit.step);
        batch.put(key, &commit)?;
        match run.state().apply(&batch) {
            Ok(()) => {}
            // It may have happened; until the next start nothing else can.
            Err(error @ StoreError::Unknown { .. }) => return Err(error),
            Err(error) => {
                drop(remove_uncommitted(&run, &commit.directory));
                return Err(error);
            }
        }
        run.note_verified(&commit.directory);
        Ok(Committed {
            step: commit.step,
            timeline: commit.timeline,
            path: run.path().join(commit.directory),
            bytes: commit.bytes,
            ledger: commit.ledger,
        })
    }
}

/// A durable checkpoint: the only thing that may be announced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The weights are those of this step.
    pub step: Step,
    /// The branch.
    pub timeline: Timeline,
    /// The directory.
    pub path: PathBuf,
    /// Bytes of its tensor files.
    pub bytes: u64,
    /// How far the ledger was durable before the manifest.
    pub ledger: LedgerMark,
}
