//! Measurements that the product makes of itself; `bench/README.md` says how to read them.
//!
//! - [`exchange`]: contributions over a link, against a bare copy through a socket;
//! - [`slow_reader`]: what a reader that takes nothing does to the sender and to heartbeats;
//! - [`flood`]: what senders that push more than is taken do to heartbeats and memory;
//! - [`mod@slice`]: the arithmetic of a real slice, as a part of the first.

mod bare;
pub mod exchange;
pub mod flood;
mod held;
mod setup;
pub mod slice;
pub mod slow_reader;

pub use setup::BenchError;

/// Resident memory of this process, where `/proc` tells it.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes << 10)
}
