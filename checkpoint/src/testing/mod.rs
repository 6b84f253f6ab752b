//! Doubles of the file system and the records that fail as real ones do, for tests and the
//! simulator.

mod disk;
mod tree;

use std::path::Path;
use std::time::Duration;

use crate::error::{Result, StoreError};
use crate::records::Records;
use crate::sled_records::{OpenFailure, SledRecords};

pub use disk::{Disk, Fault, FaultyFiles, FaultyRecords};

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
