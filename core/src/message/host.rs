//! What a shard process says to the coordinator, and two replicas of a slice to each other.
//!
//! A **host** is a process that serves slices: `resilin shard`. It holds any number of replicas,
//! each the primary or the backup of one slice. Who serves what is a durable view (PROTOCOL 3);
//! what history a replica belongs to is a [`Branch`].
//!
//! ```text
//! host                       coordinator                 store (in the coordinator)
//!   | Hello, role Shard ------> |                              |
//!   | <------------ HostWelcome |                              |
//!   | Ready (address) --------> |                              |
//!   | <--------- Serve (views)  |                              |
//!   | Restore (data link) ----------------------------------> |
//!   | <--------------------------------------------- tensors  |
//!   | Holding, reports -------> |                              |
//!
//! primary                                                 backup
//!   | Copy t, tensors --------------------------------------> |  once, while training goes on
//!   | Pledge (vote of t) -----------------------------------> |
//!   | root of t ---------------------------------------------> |
//!   | <------------------------------------------- Pledged t  |  only now the vote is sent
//!   | Record (all votes of t) ------------------------------> |
//!   | <------------------------------------------ Recorded t  |  only now t + 1 is published
//! ```

use serde::{Deserialize, Serialize};

use super::{Contributor, ShardOrder, ShardReport};
use crate::id::{Generation, Incarnation, MapNumber, RunId, SliceId, Step, Timeline, View};
use crate::vote::Vote;

/// A piece of history: what all slices of a job have in common. Every rollback and every change of
/// the slice layout begins a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// Its number; receivers drop what belongs to lower ones (PROTOCOL 2).
    pub timeline: Timeline,
    /// Number of the slice layout (PROTOCOL 4).
    pub map: MapNumber,
    /// Slices of the layout.
    pub shards: u16,
    /// The version that all slices started from.
    pub base: Step,
}

/// Who serves a slice, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceView {
    /// The slice.
    pub slice: SliceId,
    /// The number of the view, in every frame to it.
    pub view: View,
    /// Where its primary listens, as `host:port`.
    pub address: String,
    /// The host that is its primary; `None` for a slice in the coordinator's process.
    pub primary: Option<Incarnation>,
    /// The host that follows it, if there is one.
    pub backup: Option<Backup>,
}

/// Another process that serves a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// Its life.
    pub incarnation: Incarnation,
    /// Where it listens, as `host:port`.
    pub address: String,
}

/// The backup of a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// Who it is.
    pub peer: Peer,
    /// Whether it has all that the primary published, and so may be promoted (PROTOCOL 3).
    pub in_sync: bool,
}

/// What a replica is to its slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Duty {
    /// Takes contributions, votes and publishes.
    Primary,
    /// Follows the primary.
    Backup,
}

/// One replica that a host has in memory; what a restarted coordinator learns the job from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holding {
    /// The slice.
    pub slice: SliceId,
    /// What it is to the slice.
    pub duty: Duty,
    /// The branch it belongs to.
    pub branch: Branch,
    /// The newest view it knows.
    pub view: View,
    /// The newest version it has.
    pub step: Step,
}

/// Host to coordinator, on the control link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum HostSays {
    /// It listens and can serve; sent after each Welcome, with all that it still holds.
    Ready {
        /// Where workers and other hosts dial, as `host:port`.
        address: String,
        /// What it has, from before the coordinator was lost.
        holdings: Vec<Holding>,
    },
    /// Extends the member's lease.
    Heartbeat {
        /// The newest `Serve` that arrived.
        generation: Option<Generation>,
        /// What it has.
        holdings: Vec<Holding>,
    },
    /// A primary reports.
    Report(ShardReport),
    /// The backup of the primary that says so has all that was published (PROTOCOL 23).
    InSync {
        /// The slice.
        slice: SliceId,
        /// The view under which it was copied.
        view: View,
    },
    /// A replica could not be made.
    Failed {
        /// The slice.
        slice: SliceId,
        /// The branch.
        timeline: Timeline,
        /// What was wrong.
        cause: String,
    },
    /// This host wants to leave in peace.
    Drain,
    /// This host leaves now.
    Leave,
}

/// Coordinator to host, on the control link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum HostTold {
    /// Who serves what from now on; replaces what was told before. A host begins what is new to it,
    /// drops what is another's, and tells its machines of changed views.
    Serve {
        /// Orders what was told; a lower one is dropped.
        generation: Generation,
        /// The branch.
        branch: Branch,
        /// Every slice, in order.
        views: Vec<SliceView>,
    },
    /// To the replica of a slice, whatever its duty.
    Order {
        /// The slice.
        slice: SliceId,
        /// The branch that is meant.
        timeline: Timeline,
        /// The order.
        order: ShardOrder,
    },
    /// This incarnation no longer counts: drop everything and join anew.
    Fence {
        /// The first cause.
        cause: String,
    },
    /// Everything is handed over: exit 0.
    Release,
    /// The run is over (or rests at a checkpoint): exit 0.
    Finished,
}

/// The first message on a host's control link, after the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostWelcome {
    /// The host's number in this life.
    pub incarnation: Incarnation,
    /// The run.
    pub run: RunId,
    /// The effective job as TOML.
    pub job: String,
    /// What the job was built from: rows and shape of the data, so that a host needs no rows.
    pub rows: String,
}

/// Primary to backup and back, on a link between two hosts. Lost ones are sent again by timer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ReplicaSays {
    /// Primary: a copy of this version follows as tensors; roots from this step on follow too.
    Copy {
        /// The view it is made under.
        view: View,
        /// The version.
        step: Step,
        /// Tensors that follow: the weights, those of the version before if there are votes, then
        /// the moments.
        tensors: u32,
        /// Votes of the step before, which others may still ask for, as they may for its weights
        /// (PROTOCOL 11); empty if the version is the first one of the branch.
        votes: Vec<Vote>,
    },
    /// Primary: this is what I shall vote; not sent to others before it is acknowledged, so that a
    /// promoted backup never votes otherwise (flags are not a function of the step).
    Pledge {
        /// The view.
        view: View,
        /// The vote.
        vote: Vote,
        /// The nodes that were summed, in tree order.
        nodes: Vec<Contributor>,
        /// What sums are divided by.
        weight: f64,
        /// Sum of losses, in tree order.
        loss_sum: f64,
        /// Rows of contributions that were dropped while the step was open.
        discarded: u64,
    },
    /// Primary: all votes of the step are these; with the root they make the next version
    /// (PROTOCOL 12).
    Record {
        /// The view.
        view: View,
        /// The step.
        step: Step,
        /// The votes of all slices, by slice.
        votes: Vec<Vote>,
    },
    /// Backup: the pledge of the step is kept (with `bits = "off"`, its root too).
    Pledged {
        /// The view.
        view: View,
        /// The step.
        step: Step,
    },
    /// Backup: root, decision and votes of the step, and all before, are kept.
    Recorded {
        /// The view.
        view: View,
        /// The step.
        step: Step,
    },
    /// Backup: it has this version and lacks what comes next: send it again, or a copy if it is
    /// gone.
    Lacks {
        /// The view.
        view: View,
        /// The newest version it has; `None` if it has nothing.
        step: Option<Step>,
    },
}

/// Host to store, on a data link of the slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreAsks {
    /// Send the slice's tensors as they were at the base of this branch.
    Restore {
        /// The branch.
        branch: Branch,
    },
    /// A cut follows as tensors: the weights, then the moments.
    Cut {
        /// The branch.
        branch: Branch,
        /// The version.
        step: Step,
        /// BLAKE3 of each block, in block order.
        digests: Vec<[u8; 32]>,
        /// Tensors that follow.
        tensors: u32,
    },
}

/// Store to host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreSays {
    /// The slice follows as tensors: the weights, then the moments.
    Restored {
        /// The branch.
        branch: Branch,
        /// Tensors that follow.
        tensors: u32,
    },
    /// The cut is durable or given up: it need not be sent again to a restarted coordinator.
    Over,
    /// It cannot be sent.
    Refused {
        /// Why.
        cause: String,
    },
}
