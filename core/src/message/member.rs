//! What a worker and the coordinator say to each other on the control link.

use serde::{Deserialize, Serialize};

use super::{Assignment, Lease, Opinion, Question};
use crate::id::{Generation, Incarnation, PartitionId, Step, Timeline};
use crate::tree::PartitionSet;

/// Worker to coordinator, on the control link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum WorkerSays {
    /// The job is built and the rows are there; sent once after Welcome.
    Ready {
        /// Digests of the data manifests (train, test) as this worker sees them.
        data: String,
    },
    /// What it held before and goes on with; said before `Ready`.
    Claim(Claim),
    /// Extends the member's lease.
    Heartbeat {
        /// The newest assignment that arrived.
        generation: Option<Generation>,
        /// The step being worked on.
        step: Option<Step>,
        /// Samples evaluated a second of compute; 0 when unknown.
        samples_per_s: f64,
        /// Whether no link to a slice is missing that is wanted: leases are held only while all
        /// slices are linked (PROTOCOL 15).
        linked: bool,
    },
    /// A leaf is not finite and was not pushed (PROTOCOL 16).
    NonFinite {
        /// The branch of history.
        timeline: Timeline,
        /// The step.
        step: Step,
        /// The leaf.
        partition: PartitionId,
        /// Digest of the canonical bits.
        digest: [u8; 32],
        /// How often this worker has evaluated the leaf; the report may be repeated.
        evaluations: u32,
    },
    /// Leaves that are audited were evaluated, within a sum or for comparison: those of a step at
    /// once, at most [`LEAVES`](super::LEAVES).
    Audited(Vec<Opinion>),
    /// One evaluation task is done.
    Evaluated {
        /// The branch of history.
        timeline: Timeline,
        /// The version evaluated.
        version: Step,
        /// The task: a fixed range of test rows.
        task: u32,
        /// Its score.
        score: TaskScore,
    },
    /// This worker wants to leave in peace.
    Drain,
    /// This worker leaves now and hands back what it holds.
    Leave,
}

/// What a worker held when it lost its coordinator, for the one that takes up its branch
/// (PROTOCOL 5).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Its life then.
    pub before: Incarnation,
    /// The assignment that it goes on with.
    pub generation: Generation,
    /// The branch of history.
    pub timeline: Timeline,
    /// Its leases.
    pub leases: Vec<Lease>,
}

/// The most named losses that a score tells apart.
pub const PARTS: usize = 4;

/// Integer counts and f64 sums over one fixed range of test rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskScore {
    /// Rows scored.
    pub rows: u64,
    /// Rows whose class was predicted; `None` for models without classes.
    pub correct: Option<u64>,
    /// Sum of per-sample losses.
    pub loss_sum: f64,
    /// The same of each loss that the model names; 0 beyond them.
    #[serde(default)]
    pub parts: [f64; PARTS],
}

/// Coordinator to worker, on the control link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CoordinatorSays {
    /// What the worker holds from now on.
    Assign(Assignment),
    /// Test rows to be scored on a version.
    Evaluate {
        /// The branch of history.
        timeline: Timeline,
        /// The version.
        version: Step,
        /// The tasks.
        tasks: Vec<u32>,
    },
    /// Evaluate a leaf of the open step again: another worker, or this one, found it not finite.
    Reevaluate {
        /// The branch of history.
        timeline: Timeline,
        /// The step.
        step: Step,
        /// The leaf.
        partition: PartitionId,
    },
    /// Evaluate these partitions of the open step as well: their holder is late (PROTOCOL 17).
    Backup {
        /// The branch of history.
        timeline: Timeline,
        /// The step.
        step: Step,
        /// What is late.
        partitions: PartitionSet,
    },
    /// Evaluate leaves once more, for comparison; at most [`LEAVES`](super::LEAVES).
    Audit(Vec<Question>),
    /// An operator wants this worker to drain.
    Drain,
    /// Everything is handed over: exit 0.
    Release,
    /// This incarnation no longer counts: close all links and join anew.
    Fence {
        /// The first cause.
        cause: String,
    },
    /// This worker is not accepted at all: exit 3.
    Refuse {
        /// What differs, and the remedy.
        cause: String,
    },
    /// The run is over (or rests at a checkpoint): exit 0.
    Finished,
}
