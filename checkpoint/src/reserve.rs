//! The reserve: a file whose only use is to be deleted when the disk is full, so that control
//! records still find room (PROTOCOL 28).

use std::path::{Path, PathBuf};

use crate::error::{Result, StoreError};
use crate::files::Files;

/// Name of the reserve in a state directory.
pub const RESERVE: &str = "reserve";

/// Bytes of the reserve: a few of sled's 512 KiB segments.
pub const RESERVE_BYTES: u64 = 2 << 20;

/// Below this much free space a control record takes the reserve.
const RECORD_ROOM: u64 = 1 << 20;

/// Below this much no record is written at all: sled can hang for ever on a full disk.
const RECORD_LEAST: u64 = RECORD_ROOM / 2;

/// The reserve of a state directory.
#[derive(Debug)]
pub(crate) struct Reserve {
    root: PathBuf,
    path: PathBuf,
}

impl Reserve {
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            path: root.join(RESERVE),
        }
    }

    /// Whether the reserve is there to be used.
    pub(crate) fn is_whole(&self, files: &dyn Files) -> bool {
        matches!(files.length(&self.path), Ok(Some(RESERVE_BYTES)))
    }

    /// Makes room for a control record, with the reserve if need be.
    pub(crate) fn make_room(&self, files: &dyn Files) -> Result<()> {
        if self.free(files)? >= RECORD_ROOM {
            return Ok(());
        }
        if matches!(files.length(&self.path), Ok(Some(_))) {
            files
                .remove_file(&self.path)
                .map_err(StoreError::io("remove", &self.path))?;
            tracing::warn!(path = %self.path.display(), "disk full, reserve used");
        }
        require(&self.root, self.free(files)?, RECORD_LEAST)
    }

    /// Fails unless `bytes` can be written without touching what the reserve keeps free.
    pub(crate) fn require_space(&self, files: &dyn Files, bytes: u64) -> Result<()> {
        let spent = if self.is_whole(files) {
            0
        } else {
            RESERVE_BYTES
        };
        require(&self.root, self.free(files)?, bytes + spent)
    }

    /// Makes the reserve again if there is space for it and for records beside it. That it cannot
    /// be made is no error: it will be tried again.
    pub(crate) fn restore(&self, files: &dyn Files) {
        let roomy = |free| free >= RESERVE_BYTES + 2 * RECORD_ROOM;
        if self.is_whole(files) || !self.free(files).is_ok_and(roomy) {
            return;
        }
        if let Err(error) = self.write(files) {
            tracing::warn!(path = %self.path.display(), %error, "cannot make the reserve");
            // A part of it would only take space; what cannot be removed stays.
            drop(files.remove_file(&self.path));
        }
    }

    fn write(&self, files: &dyn Files) -> std::io::Result<()> {
        if files.length(&self.path)?.is_some() {
            files.remove_file(&self.path)?;
        }
        let mut file = files.create(&self.path)?;
        let zeros = vec![0; 1 << 16];
        for _ in 0..RESERVE_BYTES / (1 << 16) {
            file.write_all(&zeros)?;
        }
        file.sync()
    }

    fn free(&self, files: &dyn Files) -> Result<u64> {
        files
            .free_space(&self.root)
            .map_err(StoreError::io("measure the free space of", &self.root))
    }
}

fn require(root: &Path, free: u64, need: u64) -> Result<()> {
    if free >= need {
        return Ok(());
    }
    Err(StoreError::Full {
        path: root.to_path_buf(),
        need,
        free,
    })
}
