//! What a worker hears and what it asks of its shell.

use crate::id::{Generation, Incarnation, MapNumber, PartitionId, SliceId, Step, Tensor, Timeline};
use crate::layout::SliceMap;
use crate::message::{
    CoordinatorSays, ShardSays, SliceView, TaskScore, Use, WorkerAsks, WorkerSays,
};
use crate::tree::Node;

/// One evaluated subtree.
#[derive(Clone, Debug, PartialEq)]
pub struct Computed {
    /// The subtree.
    pub node: Node,
    /// Its summed gradient over the whole model.
    pub tensor: Tensor,
    /// Rows in it.
    pub samples: u64,
    /// What the sum is divided by, with the others'.
    pub weight: f64,
    /// Sum of losses, in tree order.
    pub loss_sum: f64,
    /// Leaves that are not finite, with the digest of their canonical bits.
    pub non_finite: Vec<(PartitionId, [u8; 32])>,
    /// Leaves that are audited, with the digest of theirs, as they went into the sum.
    pub audited: Vec<(PartitionId, [u8; 32])>,
}

/// What happens to a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The control link is open and the coordinator gave this identity.
    Welcomed(Incarnation),
    /// The control link is gone; the shell redials.
    Orphaned,
    /// The coordinator speaks.
    Told(CoordinatorSays),
    /// The link to a slice is open.
    SliceUp(SliceId),
    /// It is gone.
    SliceDown(SliceId),
    /// A slice speaks.
    Heard(SliceId, ShardSays),
    /// A slice's weights arrived whole.
    Weights {
        /// The slice.
        slice: SliceId,
        /// The branch of history.
        timeline: Timeline,
        /// The version.
        step: Step,
        /// What they were pulled for.
        purpose: Use,
    },
    /// What the sum of a node of `Compute` comes with is known, and its values come. `Computed` of the
    /// same tensor follows once they are all there.
    Coming {
        /// The branch of history.
        timeline: Timeline,
        /// The step.
        step: Step,
        /// One of the nodes asked for; nothing is known of leaves that are not finite or audited.
        computed: Computed,
    },
    /// The answer to `Compute`, node by node; `last` ends it.
    Computed {
        /// The branch of history.
        timeline: Timeline,
        /// The step.
        step: Step,
        /// One of the nodes asked for.
        computed: Computed,
        /// Whether the work asked for is complete.
        last: bool,
    },
    /// The answer to `Audit`, leaf by leaf.
    Audited {
        /// The branch of history.
        timeline: Timeline,
        /// The step.
        step: Step,
        /// The leaf.
        partition: PartitionId,
        /// Digest of its gradient's canonical bits.
        digest: [u8; 32],
    },
    /// The answer to `Score`, task by task.
    Scored {
        /// The branch of history.
        timeline: Timeline,
        /// The version.
        version: Step,
        /// The task.
        task: u32,
        /// Its score.
        score: TaskScore,
    },
    /// This process shall leave in peace (SIGTERM).
    Terminate,
    /// The deadline passed; carries the measured speed in samples a second.
    Tick {
        /// 0 when unknown.
        samples_per_s: f64,
    },
}

/// How a worker process ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The run is over, or everything was handed over.
    Done,
    /// The coordinator does not accept this worker.
    Refused(String),
}

/// What a model is told of another membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regrouped {
    /// The membership.
    pub generation: Generation,
    /// The first step that this process evaluates on a branch of history that it was not on before.
    pub begins: Option<Step>,
    /// What it evaluates, ascending.
    pub partitions: Vec<PartitionId>,
}

/// What the shell does for a worker.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Tell the coordinator.
    Say(WorkerSays),
    /// Close the control link and all others, and join anew; whoever reads the log is told.
    Rejoin {
        /// Why this life no longer counts.
        cause: String,
    },
    /// It was taken in again after that: whoever reads the log is told.
    Rejoined(Incarnation),
    /// The slices are these from now on; weights and sums of other ones are not used any more.
    Layout(SliceMap),
    /// Open a link to a slice; the shell redials until told to close it.
    Dial(SliceView),
    /// Close the link to a slice.
    Hangup(SliceId),
    /// Ask a slice.
    Ask(SliceId, WorkerAsks),
    /// Send a slice's part of a contribution.
    Push {
        /// The slice, under the view of the assignment.
        view: SliceView,
        /// The branch of history.
        timeline: Timeline,
        /// The slice layout.
        map: MapNumber,
        /// The step.
        step: Step,
        /// What is sent; its tensor stays here. Values that still come are
        /// sent as they do, and not to the end if leaves turn out not to be finite.
        computed: Computed,
    },
    /// Evaluate the nodes on the weights of the step; answered by `Computed` for each.
    Compute {
        /// The branch of history.
        timeline: Timeline,
        /// The step.
        step: Step,
        /// Disjoint nodes.
        nodes: Vec<Node>,
    },
    /// Tell the model of another membership, before what is evaluated under it.
    Regroup(Regrouped),
    /// Keep the weights of a step that is audited, until `Release`.
    Retain(Step),
    /// Weights that were retained, of steps before this one, are not needed any more.
    Release(Step),
    /// Evaluate leaves, each apart, on retained weights, after what was asked for before; answered
    /// by `Audited` for each.
    Audit {
        /// The branch of history.
        timeline: Timeline,
        /// The step.
        step: Step,
        /// The leaves.
        leaves: Vec<PartitionId>,
    },
    /// Score the tasks on the version; answered by `Scored` for each.
    Score {
        /// The branch of history.
        timeline: Timeline,
        /// The version.
        version: Step,
        /// Fixed ranges of test rows.
        tasks: Vec<u32>,
    },
    /// Weights received for this use below this version are not needed any more.
    Forget(Use, Step),
    /// Give the tensor's memory back.
    Free(Tensor),
    /// End the process.
    Exit(Exit),
}
