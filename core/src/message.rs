//! What the processes say to each other. Any message may come late, twice or not at all: every
//! handler must be harmless when run twice, and whoever waits asks again.
//!
//! ```text
//! worker                     coordinator                    shards (every slice)
//!   | Hello ------------------> |                              |
//!   | <--------------- Welcome  |                              |
//!   | Ready ------------------> |                              |
//!   | <---- Assign (leases, views)                             |
//!   | Pull t ------------------------------------------------> |
//!   | <------------------------------------------- Weights t   |
//!   | Push (t, node, sum), Pull t+1 -------------------------> |
//!   | <------------------------------------------- Answer      |  root complete
//!   |                           |                              |  Vote t <-> Vote t
//!   |                           |                              |  decide, apply
//!   | <------------------------------------------- Weights t+1 |
//!   |                           | <------------ Committed t    |
//! ```

mod audit;
mod host;
mod member;

use serde::{Deserialize, Serialize};

use crate::id::{
    Generation, Incarnation, MapNumber, PartitionId, RunId, SliceId, Step, Timeline, View,
};
use crate::tree::{Node, PartitionSet};

pub use audit::{LEAVES, Opinion, Question};
pub use host::{
    Backup, Branch, Duty, Holding, HostSays, HostTold, HostWelcome, Peer, ReplicaSays, SliceView,
    StoreAsks, StoreSays,
};
pub use member::{Claim, CoordinatorSays, PARTS, TaskScore, WorkerSays};

/// A right to evaluate a partition: from a step on until changed, or up to a planned hand-over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// What is evaluated.
    pub partition: PartitionId,
    /// The first step.
    pub from: Step,
    /// The first step that is another's; `None` while the lease stands.
    pub until: Option<Step>,
}

impl Lease {
    /// Whether the lease covers the step.
    #[must_use]
    pub fn covers(&self, step: Step) -> bool {
        self.from <= step && self.until.is_none_or(|until| step < until)
    }
}

/// All that a worker needs to know of the job's membership; a later generation replaces it whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Assignment {
    /// The membership it belongs to.
    pub generation: Generation,
    /// The branch of history.
    pub timeline: Timeline,
    /// The slice layout.
    pub map: MapNumber,
    /// Every slice, in order.
    pub views: Vec<SliceView>,
    /// What this worker holds, by partition.
    pub leases: Vec<Lease>,
    /// Partitions that others hold and whose drawn leaves this worker evaluates too.
    pub audits: Vec<PartitionId>,
}

/// What a pull is for; the two streams do not supersede each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Use {
    /// The step is evaluated for its gradient.
    Train,
    /// Test rows are scored on the version.
    Evaluate,
}

/// Worker to shard. Contributions come as tensors beside this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WorkerAsks {
    /// Send the slice's weights of this version once they exist.
    Pull {
        /// The branch of history.
        timeline: Timeline,
        /// The slice layout.
        map: MapNumber,
        /// The view the worker knows.
        view: View,
        /// The version.
        step: Step,
        /// What for.
        purpose: Use,
        /// The version before, if the worker has it and keeps it until this one is here: what
        /// changed since is enough then.
        holds: Option<Step>,
    },
}

/// The first message on a worker's control link, after the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The worker's number in this life.
    pub incarnation: Incarnation,
    /// The run.
    pub run: RunId,
    /// The effective job as TOML: it builds the same task in every process.
    pub job: String,
}

/// What became of a contribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// It is the one that counts.
    Stored,
    /// Its partitions were covered already; dropped.
    Covered,
    /// Its step is closed, or not open yet; dropped.
    StaleStep,
    /// It belongs to another timeline, map or view; dropped.
    Superseded,
    /// Its node or its sample count is not one of this run; dropped.
    Malformed,
}

/// Shard to worker. Weights come as tensors beside this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShardSays {
    /// What the open step has; sent first on every link.
    Coverage {
        /// The branch of history.
        timeline: Timeline,
        /// The open step.
        step: Step,
        /// Partitions that need not be sent.
        covered: PartitionSet,
    },
    /// What became of a contribution.
    Answer {
        /// The branch of history.
        timeline: Timeline,
        /// The contribution's step.
        step: Step,
        /// The contribution's node.
        node: Node,
        /// Stored or why not.
        verdict: Verdict,
    },
    /// The pulled version is freed.
    Gone {
        /// The branch of history.
        timeline: Timeline,
        /// The version asked for.
        step: Step,
        /// The newest version.
        at: Step,
        /// What it was wanted for.
        purpose: Use,
    },
}

/// Who contributed a node: advice for people, never proof (PROTOCOL 26).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contributor {
    /// The node.
    pub node: Node,
    /// Who sent it.
    pub incarnation: Incarnation,
    /// Rows in it.
    pub samples: u64,
}

/// What one slice did at one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The slice.
    pub slice: SliceId,
    /// The branch of history.
    pub timeline: Timeline,
    /// The step; it made version `step + 1`.
    pub step: Step,
    /// The nodes that were summed, in tree order.
    pub nodes: Vec<Contributor>,
    /// Rows of the step.
    pub samples: u64,
    /// Sum of losses, in tree order.
    pub loss_sum: f64,
    /// What sums were divided by.
    pub weight: f64,
    /// Whether weights stayed as they were.
    pub skipped: bool,
    /// Whether version `step + 1` is being cut.
    pub cut: bool,
    /// Whether a wanted cut was left out because a slice was busy.
    pub cut_missed: bool,
    /// BLAKE3 of each block of version `step + 1`, in block order.
    pub digests: Vec<[u8; 32]>,
    /// Rows of contributions that were dropped while the step was open.
    pub discarded: u64,
}

/// Shard to coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ShardReport {
    /// The open step and what it has.
    Progress {
        /// The slice.
        slice: SliceId,
        /// The branch of history.
        timeline: Timeline,
        /// The open step.
        step: Step,
        /// Partitions covered.
        covered: PartitionSet,
        /// A version kept for evaluation.
        pinned: Option<Step>,
        /// The version that is being cut, as long as the slice knows.
        cutting: Option<Step>,
        /// The slice accepts nothing more for its open step.
        resting: bool,
        /// The slice voted for its open step.
        voted: bool,
        /// Steps that its backup has yet to acknowledge; `None` without one.
        behind: Option<u64>,
        /// The first step whose record is kept: those before it were acknowledged.
        kept: Step,
    },
    /// A step was applied; kept and repeated until acknowledged.
    Committed(StepRecord),
    /// The slice halts before its open step.
    Halted {
        /// The slice.
        slice: SliceId,
        /// The branch of history.
        timeline: Timeline,
        /// The step that was not applied.
        step: Step,
        /// Blocks that were not finite.
        blocks: Vec<u32>,
    },
    /// Two members contributed a node with other bits; the first copy counts. Told once.
    Differs {
        /// The slice.
        slice: SliceId,
        /// The branch of history.
        timeline: Timeline,
        /// The step.
        step: Step,
        /// The node.
        node: Node,
        /// Whose copy was first, and whose differs from it.
        members: [Incarnation; 2],
    },
}

/// Coordinator to shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShardOrder {
    /// Ask for a cut in the next vote.
    RequestCut,
    /// Ask for a cut and rest there.
    RequestStop,
    /// Ask for a cut and rest at the first version from this one on.
    RestAt {
        /// The version.
        step: Step,
    },
    /// All slices rest at this version and nothing comes of it: go on from there.
    GoOn {
        /// The version.
        step: Step,
    },
    /// Accept nothing more for the open step unless it was voted for (PROTOCOL 24).
    Seal,
    /// All slices rest at this version: cut it.
    CutHere {
        /// The version.
        step: Step,
    },
    /// The cut of this version is durable or given up.
    CutOver {
        /// The version.
        step: Step,
    },
    /// A leaf of the step is confirmed not finite: vote without it.
    Withhold {
        /// The step.
        step: Step,
    },
    /// Every test row of this version is scored.
    Evaluated {
        /// The version.
        version: Step,
    },
    /// This version is to be scored, whatever was said of it: its score is lost.
    Pin {
        /// The version.
        version: Step,
    },
    /// Records of steps before this one are in the ledger.
    Recorded {
        /// The first step that is not.
        before: Step,
    },
}

/// Slice to slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SliceSays {
    /// A vote, as an answer too.
    Vote(crate::vote::Vote),
    /// The asker lacks the receiver's vote of a step.
    AskVote {
        /// Who asks.
        from: SliceId,
        /// The branch of history.
        timeline: Timeline,
        /// The step.
        step: Step,
    },
}
