//! Doubles of the file system and the records that fail as real ones do, for tests and the
//! simulator.

mod disk;
mod handles;
mod tree;

use std::path::Path;
use std::time::Duration;

use resilin_core::ledger::Record;

use crate::error::{Result, StoreError};
use crate::files::Files;
use crate::line;
use crate::records::Records;
use crate::sled_records::{OpenFailure, SledRecords};

pub use disk::{Disk, Fault};
pub use handles::{FaultyFiles, FaultyRecords};

/// The records of a real sled in `path`, to be wrapped by a double; each call may take `deadline`.
///
/// # Errors
/// sled does not open.
pub fn sled_records(path: &Path, deadline: Duration) -> Result<Box<dyn Records>> {
    match SledRecords::open(path, deadline) {
        Ok(records) => Ok(Box::new(records)),
        Err(OpenFailure::Damaged(why)) => Err(StoreError::damaged(path, why)),
        Err(OpenFailure::Locked(error) | OpenFailure::Other(error)) => Err(error),
    }
}

/// All records of the ledger at `path`, up to the first line that does not fit.
///
/// # Errors
/// The file system's.
pub fn ledger(files: &dyn Files, path: &Path) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    line::read(files, path, |record| records.push(record))?;
    Ok(records)
}
