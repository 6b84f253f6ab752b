//! Shells of Resilin: actors, links, HTTP interface, supervisor.
//!
//! A shell turns messages into events, gives them to a pure machine of `resilin-core`, and carries
//! its effects out. It decides nothing.

pub mod bench;
mod clock;
mod control;
pub mod coordinator;
mod exit;
pub mod host;
pub mod link;
pub mod process;
mod shard;
mod spawn;
mod stint;
pub mod supervisor;
pub mod worker;

pub use exit::Exit;
