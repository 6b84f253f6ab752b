//! What may happen in the explored cluster: messages on their way, and actions on them.

use resilin_core::machine::shard::Push;
use resilin_core::message::{
    CoordinatorSays, ShardOrder, ShardReport, ShardSays, SliceSays, Use, WorkerAsks, WorkerSays,
};
use resilin_core::{Incarnation, LinkId, Step, Timeline};

use crate::symbols::{Gradient, Weights};

/// A process, or a slice within one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    Center,
    Slice(u16),
    Worker(u8),
}

/// What is under way.
#[derive(Clone, Debug)]
pub(crate) enum Message {
    /// A worker's process is there.
    Hello,
    Welcome(Incarnation),
    Said(WorkerSays),
    Told(CoordinatorSays),
    /// A worker opens a link to a slice, closes it, or is gone.
    Dialled(LinkId),
    Hungup(LinkId),
    Up,
    Gone,
    Asked(WorkerAsks),
    Pushed(Push, Gradient),
    Heard(ShardSays),
    Sent(Timeline, Step, Use, Weights),
    Vote(SliceSays),
    Order(ShardOrder),
    Report(ShardReport),
    /// A slice has cut this version, and it is written.
    Cut(Step),
}

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Action {
    /// The oldest message of a link arrives.
    Deliver(Place, Place),
    /// A worker dies; what it sent arrives.
    Kill(u8),
    /// A worker dies, and what it sent is lost.
    KillAndLose(u8),
    /// A time-out passes.
    Timeout(Place),
}
