//! The state machines. Each has `step(now, event, &mut effects)` and `deadline()`; it decides, and
//! the shell or the simulator does.

pub mod audit;
pub mod fleet;
pub mod host;
pub mod job;
mod rules;
pub mod saver;
pub mod shard;
pub mod turns;
pub mod worker;

pub use rules::Rules;
