//! Durable state of Resilin: sled holds the truth, files hold the bulk (see README.md).
//!
//! Everything blocks and nothing is async: the caller owns a thread for it. What is announced is
//! durable: a checkpoint once [`Sealed::commit`] returned, a number once its issuer returned.

mod audit;
mod branches;
mod digest;
mod error;
mod events;
mod files;
mod history;
mod ledger;
mod line;
mod lock;
mod manifest;
mod offline;
mod records;
mod recover;
mod reserve;
mod restore;
mod retention;
mod run;
mod save;
mod shared;
mod sled_records;
mod slice_file;
mod state;
pub mod testing;

pub use audit::{Counts, Plan, Verdict, audit, open_ledger};
pub use error::{Result, StoreError};
pub use events::{EVENTS, EVENTS_LIMIT, EventReader, Events, Line, OLDER_EVENTS, read_event};
pub use files::{Files, RealFiles, Writing};
pub use history::{History, Superseded};
pub use ledger::{Cut, LEDGER};
pub use line::LedgerMark;
pub use lock::LOCK_WAIT;
pub use manifest::{
    FORMAT, Facts, FileRecord, MANIFEST, Manifest, SlotRecord, directory_name, parse_directory_name,
};
pub use offline::{Stored, checkpoints, run_directories};
pub use records::{Batch, Pair, Records, VALUE_LIMIT};
pub use recover::{OpenReport, SetAside};
pub use reserve::{RESERVE, RESERVE_BYTES};
pub use restore::{Depth, Health, Listing, Newest, Restored, Skipped, inspect};
pub use retention::Pruned;
pub use run::{CommitRecord, Finished, Run, RunRecord};
pub use save::{Committed, Save, Sealed, Set, SliceImage};
pub use sled_records::OPENING_THREAD;
pub use state::{Opened, Patience, RunIdentity, Start, StateDir};
