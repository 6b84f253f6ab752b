//! One replica of a slice in this process: an actor around the Shard machine, a thread for its
//! arithmetic, and the data links of workers.
//!
//! The same code serves a slice in the coordinator's process and in a shard process; what differs
//! is where its words and copies go, which is the one thing behind [`Outside`].

mod actor;
mod kernel;
mod link;
mod mailbox;

use resilin_core::SliceId;
use resilin_core::handshake::Expected;
use resilin_core::machine::Rules;
use resilin_core::message::{ShardReport, SliceSays};

use crate::clock::Clock;

pub(crate) use actor::ShardActor;
pub(crate) use kernel::{Arithmetic, Cut};
pub(crate) use mailbox::{Arrived, Begin, Order, Slice};

/// What a slice tells others than the workers on its links. No call waits.
pub(crate) trait Outside: Send + Sync {
    /// Tells the primary of another slice; may be lost, since the machine asks again.
    fn tell(&self, to: SliceId, says: SliceSays);
    /// Tells the coordinator; may be lost, since the machine repeats.
    fn report(&self, report: ShardReport);
    /// Writes a copy of a version; called on the arithmetic thread.
    fn keep(&self, cut: Cut);
}

/// What the slices of one layout in one process have in common.
pub(crate) struct Setting {
    /// Constants of the run, with the layout.
    pub(crate) rules: Rules,
    /// What is demanded of a worker that dials.
    pub(crate) expected: Expected,
    /// Bytes in flight on a link.
    pub(crate) in_flight: usize,
    /// Messages that an actor holds before senders wait.
    pub(crate) mailbox: usize,
    /// The process's clock.
    pub(crate) clock: Clock,
    /// Everybody else.
    pub(crate) outside: Box<dyn Outside>,
}
