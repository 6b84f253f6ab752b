//! What a shard hears and what it asks of its shell.

use crate::id::{Incarnation, LinkId, MapNumber, SliceId, Step, Tensor, Timeline, View};
use crate::message::{ShardOrder, ShardReport, ShardSays, SliceSays, Use, WorkerAsks};
use crate::tree::Node;
use crate::vote::Action;

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
    SendWeights(LinkId, Step, Use),
    /// Sum the nodes in tree order; answered by `Combined`.
    Combine {
        /// The step.
        step: Step,
        /// Disjoint nodes that cover every partition with samples, in tree order.
        nodes: Vec<(Node, Tensor)>,
        /// What the sum is divided by.
        weight: f64,
    },
    /// Make version `step + 1` in place of `step - 1`; answered by `Applied`.
    Apply {
        /// The step.
        step: Step,
        /// How; never `Halt`.
        action: Action,
        /// What the sum is divided by.
        weight: f64,
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
}
