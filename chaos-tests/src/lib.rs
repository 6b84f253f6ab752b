//! Whole clusters in one thread: the real machines and the real arithmetic under a virtual clock,
//! a network that loses, repeats and delays, and processes that die. Everything comes from one
//! seed; every named invariant is checked while it runs (see README.md).

pub mod invariants;
pub mod jobs;
pub mod oracle;
pub mod process;
pub mod replay;
pub mod schedule;
pub mod shrink;
pub mod sim;
pub mod slots;
