//! What can happen next, and the queue of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use resilin_core::ledger;
use resilin_core::machine::worker::Computed;
use resilin_core::machine::{job, saver, shard};
use resilin_core::message::{
    Branch, CoordinatorSays, ShardOrder, ShardReport, ShardSays, SliceSays, SliceView, Use,
    WorkerAsks, WorkerSays,
};
use resilin_core::time::{Span, Time};
use resilin_core::tree::Node;
use resilin_core::{Incarnation, LinkId, PartitionId, SliceId, Step, Timeline};

use super::processes::{Deed, Parcel, State};
use super::store::Part;
use crate::schedule::Fault;

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Party {
    Coordinator,
    Worker(u32),
    /// A shard process.
    Shard(u32),
}

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Of whoever dialled.
    Dialler,
    /// Of whoever listened.
    Listener,
}

impl End {
    /// The opposite one.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Dialler => Self::Listener,
            Self::Listener => Self::Dialler,
        }
    }
}

/// What a link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Role {
    Control,
    /// A worker's, to whoever serves the slice.
    Data(SliceId),
    /// To the slice's primary in another shard process.
    Votes(SliceId),
    /// From the slice's primary to its backup.
    Mirror(SliceId),
    /// From a shard process to the store.
    Store(SliceId),
}

/// What travels on links.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    /// Somebody knocks, with the life that it was given before.
    Hello(Option<Incarnation>),
    /// A shard or the store answers.
    Accepted,
    /// The coordinator answers.
    Welcome(Incarnation),
    /// The other end closed the link in peace.
    Closed,
    Said(WorkerSays),
    Told(CoordinatorSays),
    Asked(WorkerAsks),
    Heard(ShardSays),
    /// A contribution; its tensor handle is the receiver's to give.
    Pushed(shard::Push, Arc<Vec<f32>>),
    Weights {
        timeline: Timeline,
        step: Step,
        purpose: Use,
        values: Arc<Vec<f32>>,
        /// What they are sent as the changes of.
        based_on: Option<Arc<Vec<f32>>>,
    },
    /// To or from a shard process.
    Parcel(Parcel),
}

/// What a worker's process does by itself.
#[derive(Debug)]
pub(super) enum Chore {
    Wake,
    Redial(Role),
    Evaluate {
        timeline: Timeline,
        step: Step,
        node: Node,
        weights: Arc<Vec<f32>>,
        last: bool,
        /// When the last value is there, if the values come meanwhile.
        ends: Option<Time>,
    },
    /// The last value of a sum is there.
    Finish {
        timeline: Timeline,
        step: Step,
        computed: Computed,
        last: bool,
    },
    Audit {
        timeline: Timeline,
        step: Step,
        leaf: PartitionId,
        weights: Arc<Vec<f32>>,
    },
    Score {
        timeline: Timeline,
        version: Step,
        task: u32,
        weights: Arc<Vec<f32>>,
    },
}

/// An ordered way within the coordinator's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mailbox {
    /// From a slice to job and saver.
    Reports(SliceId),
    /// From job and saver to a slice.
    Orders(SliceId),
}

/// What happens inside the coordinator's process.
#[derive(Debug)]
pub(super) enum Local {
    Wake,
    Shard(SliceId, shard::Event),
    Slice(SliceId, SliceSays),
    Order(SliceId, ShardOrder),
    /// An operator commands.
    Command(job::Command),
    Report(ShardReport),
    /// For the store; the second says when the call ends.
    Store(Request, Time),
    /// The saver learns of something.
    Saver(saver::Event),
    /// A branch or views are durable, or cannot be written.
    Kept(job::Event),
    /// What the store read for a shard process, or why it could not.
    Answer(LinkId, Branch, Result<State, String>),
    /// The cut whose part came on the link is over.
    Over(LinkId),
    /// How the run ended is durable.
    Closed,
}

/// What the store is asked for.
#[derive(Debug)]
pub(super) enum Request {
    /// A slice's part of a cut.
    Write(Box<Part>),
    /// The same of a shard process, on its branch, which waits on the link for the cut to be over.
    Take(LinkId, Branch, Box<Part>),
    /// A slice as it was at the base of a branch, for whoever asked on the link.
    Read(LinkId, SliceId, Branch),
    KeepBranch(Branch),
    KeepViews(Vec<SliceView>),
    KeepWishes(job::Wishes),
    Commit(Step),
    Abandon(Step),
    /// A line of the ledger.
    Append(Box<ledger::Record>),
    /// The run is over.
    Close(job::Outcome),
}

#[derive(Debug)]
pub(super) enum Happening {
    Arrive {
        link: LinkId,
        to: End,
        packet: Packet,
    },
    LinkLost {
        link: LinkId,
        end: End,
    },
    Chore(u32, Chore),
    /// What a shard process does by itself.
    Deed(u32, Deed),
    /// In this life of the coordinator.
    Local(u32, Local),
    /// Of the schedule.
    Fault(Fault),
    /// The coordinator's process is started again.
    Restart,
    /// The coordinator's host loses power for so long.
    PowerCut(Span),
    /// A worker's process is started.
    Start,
    /// A shard process is started.
    StartShard,
    /// Faults are over.
    Quiet,
}

/// Happenings by time, and by arrival within one moment.
#[derive(Debug, Default)]
pub(super) struct Queue {
    all: BTreeMap<(Time, u64), Happening>,
    next: u64,
}

impl Queue {
    pub(super) fn push(&mut self, at: Time, happening: Happening) {
        self.all.insert((at, self.next), happening);
        self.next += 1;
    }

    pub(super) fn pop(&mut self) -> Option<(Time, Happening)> {
        let ((at, _), happening) = self.all.pop_first()?;
        Some((at, happening))
    }
}
