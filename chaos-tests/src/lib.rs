//! Whole clusters in one thread: the real machines and the real arithmetic under a virtual clock,
//! a network that loses, repeats and delays, and processes that die. Everything comes from one
//! seed; every named invariant is checked while it runs (see README.md).

#[cfg(feature = "simulator")]
pub mod invariants;
#[cfg(feature = "simulator")]
pub mod jobs;
#[cfg(feature = "simulator")]
pub mod oracle;
pub mod process;
#[cfg(feature = "simulator")]
pub mod replay;
#[cfg(feature = "simulator")]
pub mod schedule;
#[cfg(feature = "simulator")]
pub mod shrink;
#[cfg(feature = "simulator")]
pub mod sim;
#[cfg(feature = "simulator")]
pub mod slots;
