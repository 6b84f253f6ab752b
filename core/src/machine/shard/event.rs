//! What a shard hears and what it asks of its shell.

use crate::id::{Incarnation, LinkId, MapNumber, SliceId, Step, Tensor, Timeline, View};
use crate::message::{ReplicaSays, ShardOrder, ShardReport, ShardSays, SliceSays, Use, WorkerAsks};
use crate::tree::Node;
use crate::vote::{Action, Vote};

/// A contribution as it arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Push {
    /// The branch of history.
    pub timeline: Timeline,
    /// The slice layout.
    pub map: MapNumber,
    /// The view the worker knows.
    pub view: View,
    /// The step it was evaluated on.
    pub step: Step,
    /// The subtree it sums.
    pub node: Node,
    /// Who sent it.
    pub incarnation: Incarnation,
    /// Its values.
    pub tensor: Tensor,
    /// Rows in it.
    pub samples: u64,
    /// What its sum is divided by, with the others'.
    pub weight: f64,
    /// Sum of its losses.
    pub loss_sum: f64,
}

/// Whether a backup has all that its primary published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// It is being copied: the primary goes on without it.
    Copying,
    /// It has: nothing is published before it acknowledged (PROTOCOL 12).
    InSync,
}

/// The backup that a primary has under a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Follower {
    /// Its life; another one has nothing of what was sent before.
    pub incarnation: Incarnation,
    /// What the view records of it.
    pub sync: Sync,
}

/// What a view says a replica is to its slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assigned {
    /// Takes contributions, votes and publishes.
    Primary {
        /// Who follows it.
        backup: Option<Follower>,
    },
    /// Follows the primary.
    Backup,
}

/// What happens to a shard.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A worker's link is open.
    LinkUp(LinkId),
    /// It is gone.
    LinkDown(LinkId),
    /// A worker asks.
    Asked(LinkId, WorkerAsks),
    /// A worker contributes.
    Pushed(LinkId, Push),
    /// Another slice speaks.
    Slice(SliceSays),
    /// The root of the step is summed.
    Combined {
        /// The step.
        step: Step,
        /// Per block: sum of squares of what would be applied.
        squares: Vec<f64>,
        /// Blocks that are not finite.
        non_finite: Vec<u32>,
    },
    /// The two tensors of `Compare` are compared.
    Compared {
        /// Whether they have the same bits; all NaNs are one.
        same: bool,
    },
    /// Version `step + 1` exists.
    Applied {
        /// The step.
        step: Step,
        /// BLAKE3 of each block.
        digests: Vec<[u8; 32]>,
        /// Whether every new weight is finite.
        finite: bool,
    },
    /// The coordinator orders.
    Order(ShardOrder),
    /// A higher view is durable. A primary is never made a backup, and a backup never that of
    /// another primary: such a replica is begun anew.
    View {
        /// Its number.
        view: View,
        /// What this replica is under it.
        duty: Assigned,
    },
    /// The link to the other replica of the slice is open.
    PeerUp,
    /// It is gone, with all that was on its way.
    PeerDown,
    /// The other replica of the slice speaks.
    Replica(ReplicaSays),
    /// The primary's combined root of a step arrived whole at the backup.
    Root {
        /// The view it was sent under.
        view: View,
        /// The step.
        step: Step,
        /// The prepared gradient of the slice.
        tensor: Tensor,
    },
    /// The kernel is what `TakeCopy` asked for.
    Copied {
        /// The version.
        step: Step,
    },
    /// The way to the coordinator is new: what was said on the one before may be lost.
    CoordinatorUp,
    /// The deadline passed.
    Tick,
}

/// What the shell does for a shard.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Give the tensor's memory back.
    Free(Tensor),
    /// Tell a worker.
    Say(LinkId, ShardSays),
    /// Stream a version's weights to a worker; a newer one for the same use supersedes it.
    SendWeights {
        /// Where to.
        link: LinkId,
        /// The version.
        step: Step,
        /// What for.
        purpose: Use,
        /// The version before, if it is kept here and there: what changed since is enough.
        based_on: Option<Step>,
    },
    /// Sum the nodes in tree order; answered by `Combined`.
    Combine {
        /// The step.
        step: Step,
        /// Disjoint nodes that cover every partition with samples, in tree order.
        nodes: Vec<(Node, Tensor)>,
        /// What the sum is divided by.
        weight: f64,
    },
    /// Compare two tensors bit by bit, which are freed meanwhile; answered by `Compared`.
    Compare([Tensor; 2]),
    /// Make version `step + 1` in place of `step - 1`; answered by `Applied`.
    Apply {
        /// The step.
        step: Step,
        /// How; never `Halt`.
        action: Action,
        /// Mean loss of the step's rows: every slice has the same bits where bits are promised.
        loss: f64,
    },
    /// Keep a copy of this version, the newest, for evaluation.
    Pin(Step),
    /// Drop that copy.
    Unpin(Step),
    /// Copy this version, the newest, with all optimizer state, and write it to the store.
    Cut(Step),
    /// Tell another slice.
    Tell(SliceId, SliceSays),
    /// Tell the coordinator.
    Report(ShardReport),
    /// Tell the other replica of the slice; lost while it is not linked. Stays in order with
    /// `SendRoot` and `SendCopy`.
    Mirror(ReplicaSays),
    /// Send the combined root of the step to the backup. It is kept, to be sent again, until
    /// `DropRoots`; when it is asked for first, the step is the kernel's combined one.
    SendRoot(Step),
    /// Roots of earlier steps are not sent any more, those that were asked for and not sent
    /// included. Replaces what the one before said: the open step's may be asked for anew.
    DropRoots {
        /// The first step that is kept.
        before: Step,
    },
    /// Copy this version, the newest, with all optimizer state, and stream it to the backup as
    /// `ReplicaSays::Copy` and tensors while training goes on, with the weights of the version
    /// before if there are votes; an earlier copy that is still under way is given up.
    SendCopy {
        /// The view.
        view: View,
        /// The version.
        step: Step,
        /// Votes of the step before; empty if there is no version before.
        votes: Vec<Vote>,
    },
    /// Make the kernel from the copy of this version, whose tensors follow its
    /// `ReplicaSays::Copy`; answered by `Copied`. Tensors of other copies are discarded.
    TakeCopy(Step),
    /// The kernel takes this tensor as the combined root of its open step.
    Load {
        /// The step.
        step: Step,
        /// The prepared gradient; freed later.
        tensor: Tensor,
    },
    /// Tell the coordinator that the backup of this view has all that was published.
    InSync(View),
}
