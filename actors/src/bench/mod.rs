//! Measurements that the product makes of itself; `bench/README.md` says how to read them.
//!
//! - [`exchange`]: contributions over a link, against a bare copy through a socket;
//! - [`slow_reader`]: what a reader that takes nothing does to the sender and to heartbeats;
//! - [`mod@slice`]: the arithmetic of a real slice, as a part of the first.

mod bare;
pub mod exchange;
mod held;
mod setup;
pub mod slice;
pub mod slow_reader;

pub use setup::BenchError;
