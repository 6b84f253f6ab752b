//! Pure decisions of Resilin: what happens next, never how it is carried out.
//!
//! Nothing here reads a clock, opens a file or a socket, starts a thread or draws randomness of
//! its own; the manifest of the crate has nothing to do so with. The machines take
//! `(now, event)` and append effects; shells and the simulator carry the effects out.

pub mod fact;
pub mod frame;
pub mod handshake;
pub mod id;
pub mod job;
pub mod layout;
pub mod ledger;
pub mod machine;
pub mod message;
mod nan;
pub mod not_finite;
pub mod plan;
pub mod random;
pub mod sampling;
pub mod sorted;
pub mod time;
pub mod tree;
pub mod vote;

pub use id::{
    Generation, Incarnation, LinkId, MapNumber, PartitionId, RunId, SliceId, Step, Tensor,
    Timeline, View,
};
pub use time::{Span, Time};
