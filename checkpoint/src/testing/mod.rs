//! Doubles of the file system and the records that fail as real ones do, for tests and the
//! simulator.

mod disk;
mod tree;

pub use disk::{Disk, Fault, FaultyFiles, FaultyRecords};
