//! One replica of a slice in this process: an actor around the Shard machine, a thread for its
//! arithmetic, the data links of workers, and the link to the slice's other replica.
//!
//! The same code serves a slice in the coordinator's process and in a shard process; what differs
//! is where its words and copies go, which is the one thing behind [`Outside`].

mod actor;
mod kernel;
mod link;
mod mailbox;
mod mirror;
mod replica;
mod state;

use std::io;
use std::sync::Arc;

use actix::{Actor, Addr, Arbiter};
use resilin_core::handshake::Expected;
use resilin_core::machine::Rules;
use resilin_core::machine::shard::{Assigned, Origin};
use resilin_core::message::{ShardReport, SliceSays};
use resilin_core::{SliceId, Step, View};
use resilin_learn::kernel::{SliceKernel, SlicePlan};

use crate::clock::Clock;
use kernel::Arithmetic;

pub(crate) use actor::ShardActor;
pub(crate) use kernel::Cut;
pub(crate) use mailbox::{Arrived, Begin, CoordinatorUp, End, Order, Slice, Viewed};
pub(crate) use mirror::Dial;
pub(crate) use replica::{Followed, Mirrored};
pub(crate) use state::{Arriving, Belongs, kernel_of};

/// What a slice tells others than those on its links. No call waits.
pub(crate) trait Outside: Send + Sync {
    /// Tells the primary of another slice; may be lost, since the machine asks again.
    fn tell(&self, to: SliceId, says: SliceSays);
    /// Tells the coordinator; may be lost, since the machine repeats.
    fn report(&self, report: ShardReport);
    /// Tells the coordinator that the backup of the view has all that was published.
    fn in_sync(&self, slice: SliceId, view: View);
    /// The replica has this version, its newest.
    fn has(&self, slice: SliceId, step: Step);
    /// Writes a copy of a version; called on the arithmetic thread.
    fn keep(&self, cut: Cut);
}

/// What the slices of one layout in one process have in common.
pub(crate) struct Setting {
    /// Constants of the run, with the layout.
    pub(crate) rules: Rules,
    /// What is demanded of whoever dials.
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

/// What a replica begins with.
pub(crate) struct Seat {
    /// Where it is in history.
    pub(crate) origin: Origin,
    /// What it is to its slice.
    pub(crate) duty: Assigned,
    /// What the slice is.
    pub(crate) plan: SlicePlan,
    /// Its tensors; `None` for a backup, which is copied.
    pub(crate) kernel: Option<SliceKernel>,
}

/// Starts actor and thread of a replica, which do nothing before [`Begin`].
///
/// # Errors
/// The system's, if it has no thread for it.
pub(crate) fn start(setting: &Arc<Setting>, seat: Seat) -> io::Result<Addr<ShardActor>> {
    let Seat {
        origin,
        duty,
        plan,
        kernel,
    } = seat;
    let weights = kernel.as_ref().map(|kernel| {
        let weights = kernel.weights(kernel.version());
        Arc::clone(weights.expect("the newest version is live"))
    });
    let slice = origin.slice;
    let (arithmetic, hands) = Arithmetic::new(slice, plan.clone(), kernel, Arc::clone(setting));
    let for_shard = Arc::clone(setting);
    let shard = ShardActor::start_in_arbiter(&Arbiter::new().handle(), move |_| {
        ShardActor::new(for_shard, origin, duty, plan, weights, hands)
    });
    arithmetic.start(shard.clone())?;
    Ok(shard)
}
