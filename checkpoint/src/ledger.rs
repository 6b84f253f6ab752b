//! A run's ledger: an append-only, hash-chained file (DESIGN 7, PROTOCOL 26).
//!
//! A crash can tear the last line; opening cuts it off. What was synced before a checkpoint is
//! named in the checkpoint's commit record. After a failed write or sync the file is abandoned and
//! the next call goes on in a fresh copy, made of what was synced and of what is still in memory.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use resilin_core::ledger::Record;

use crate::branches::Branches;
use crate::error::{Result, StoreError};
use crate::files::{self, Files, Writing, create_synced, free_name, rename_durably};
use crate::line::{self, LedgerMark, Rest};

/// Name of the ledger's file in a run's directory.
pub const LEDGER: &str = "ledger.log";

const FRESH: &str = "ledger.log.tmp";

/// Records kept in memory until they are synced; beyond, a sync is forced.
const PENDING_LIMIT: usize = 1 << 20;

/// An open ledger.
pub(crate) struct Ledger {
    files: Arc<dyn Files>,
    dir: PathBuf,
    path: PathBuf,
    /// The end, with everything that was appended.
    mark: LedgerMark,
    /// The place up to which the file is durable.
    synced: LedgerMark,
    /// The lines between the two.
    pending: Vec<u8>,
    branches: Branches,
    /// `None` after a failure: the file must not be written again.
    file: Option<Box<dyn Writing>>,
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("path", &self.path)
            .field("mark", &self.mark)
            .finish_non_exhaustive()
    }
}

/// What was cut off when a ledger was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Bytes that did not fit.
    pub bytes: u64,
    /// Records that are left.
    pub records: u64,
    /// Where the whole file was kept, if more was wrong than a last line torn by a crash.
    pub kept: Option<PathBuf>,
}

impl Ledger {
    /// Opens or creates the ledger in a run's directory.
    pub(crate) fn open(files: Arc<dyn Files>, dir: &Path) -> Result<(Self, Option<Cut>)> {
        let path = dir.join(LEDGER);
        let mut branches = Branches::default();
        let (mark, rest) = line::read(files.as_ref(), &path, |record| branches.add(&record))?;
        let length = files
            .length(&path)
            .map_err(StoreError::io("look at", &path))?;
        let kept = match rest {
            Rest::None | Rest::Torn => None,
            Rest::Damaged => Some(keep_damaged(files.as_ref(), dir, &path)?),
        };
        let mut ledger = Self {
            files,
            dir: dir.to_path_buf(),
            path,
            mark,
            synced: mark,
            pending: Vec::new(),
            branches,
            file: None,
        };
        // Lines that an earlier process did not sync are durable only after this.
        if length == Some(mark.bytes) {
            let file = ledger.files.append(&ledger.path);
            ledger.file = Some(file.map_err(StoreError::io("open", &ledger.path))?);
            ledger.sync()?;
        } else {
            ledger.replace()?;
        }
        let cut = length.map_or(0, |length| length - mark.bytes);
        Ok((
            ledger,
            (cut > 0).then_some(Cut {
                bytes: cut,
                records: mark.records,
                kept,
            }),
        ))
    }

    /// The end.
    pub(crate) fn mark(&self) -> LedgerMark {
        self.mark
    }

    pub(crate) fn branches(&self) -> &Branches {
        &self.branches
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn append(&mut self, records: &[Record]) -> Result<()> {
        let mut lines = Vec::new();
        let mark = records.iter().fold(self.mark, |mark, record| {
            line::encode(mark, record, &mut lines)
        });
        if self.pending.len() + lines.len() > PENDING_LIMIT {
            self.sync()?;
        }
        let file = self.writable()?;
        if let Err(error) = file.write_all(&lines) {
            self.file = None;
            return Err(StoreError::io("write", &self.path)(error));
        }
        self.pending.append(&mut lines);
        self.mark = mark;
        records.iter().for_each(|record| self.branches.add(record));
        Ok(())
    }

    pub(crate) fn sync(&mut self) -> Result<LedgerMark> {
        let file = self.writable()?;
        if let Err(error) = file.sync() {
            self.file = None;
            return Err(StoreError::io("sync", &self.path)(error));
        }
        self.synced = self.mark;
        self.pending.clear();
        Ok(self.mark)
    }

    fn writable(&mut self) -> Result<&mut Box<dyn Writing>> {
        if self.file.is_none() {
            self.replace()?;
        }
        Ok(self.file.as_mut().expect("replaced when it was missing"))
    }

    /// Puts a durable copy in the file's place: its synced lines, then those in memory.
    fn replace(&mut self) -> Result<()> {
        let files = self.files.as_ref();
        let fresh = self.dir.join(FRESH);
        if files::list(files, &self.dir)?
            .iter()
            .any(|name| name == FRESH)
        {
            files
                .remove_file(&fresh)
                .map_err(StoreError::io("remove", &fresh))?;
        }
        let mut copy = files
            .create(&fresh)
            .map_err(StoreError::io("create", &fresh))?;
        copy_head(files, &self.path, self.synced.bytes, copy.as_mut())?;
        copy.write_all(&self.pending)
            .and_then(|()| copy.sync())
            .map_err(StoreError::io("write", &fresh))?;
        rename_durably(files, &self.dir, FRESH, LEDGER)?;
        let file = files
            .append(&self.path)
            .map_err(StoreError::io("open", &self.path))?;
        self.file = Some(file);
        self.synced = self.mark;
        self.pending.clear();
        Ok(())
    }
}

/// Copies the first `length` bytes of a file.
fn copy_head(files: &dyn Files, path: &Path, length: u64, to: &mut dyn Writing) -> Result<()> {
    if length == 0 {
        return Ok(());
    }
    let mut from = files
        .open(path)
        .map_err(StoreError::io("read", path))?
        .take(length);
    let mut buffer = vec![0; 1 << 20];
    let mut copied = 0;
    loop {
        let count = from
            .read(&mut buffer)
            .map_err(StoreError::io("read", path))?;
        if count == 0 {
            break;
        }
        to.write_all(&buffer[..count])
            .map_err(StoreError::io("copy", path))?;
        copied += count as u64;
    }
    if copied < length {
        return Err(StoreError::damaged(path, "synced lines are gone"));
    }
    Ok(())
}

fn keep_damaged(files: &dyn Files, dir: &Path, path: &Path) -> Result<PathBuf> {
    let name = free_name(&files::list(files, dir)?, "ledger-damaged", ".log");
    let kept = dir.join(name);
    create_synced(files, &kept, b"")?;
    let mut copy = files.append(&kept).map_err(StoreError::io("open", &kept))?;
    let length = files
        .length(path)
        .map_err(StoreError::io("look at", path))?
        .unwrap_or(0);
    copy_head(files, path, length, copy.as_mut())?;
    copy.sync().map_err(StoreError::io("sync", &kept))?;
    Ok(kept)
}
