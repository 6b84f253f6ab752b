//! The store as its callers use it: on a disk in memory that fails on demand, and on real files.

mod audit; // the proof that a run did what it promises
mod crash; // power cuts at every operation, failing operations
mod damage; // damaged checkpoints and records, real sled
mod events; // the event file
mod fixture; // a small run and its tensors
mod history; // the ledger
mod killed; // SIGKILL at every operation, with real sled
mod limits; // locks, full and read-only disks, retention
mod size; // what many saves leave
mod stopping; // files and records that stand still at an operation
