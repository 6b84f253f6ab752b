//! Facts of a run: what changed, once, when it changed. The log, the status and the event file of a
//! run are all made of these, so that they never tell different stories.
//!
//! Only data: machines tell facts, shells say when it was and write them down.

mod words;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{Generation, Incarnation, PartitionId, SliceId, Step, Timeline, View};
use crate::machine::job::{Metrics, Wishes};

/// A fact with its place in the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Dated {
    /// When it was told, in milliseconds since 1970 by the coordinator's clock.
    pub at_ms: u64,
    /// The branch of history; its reign is the coordinator's life.
    pub timeline: Timeline,
    /// Version of the membership.
    pub generation: Generation,
    /// The version that every slice had.
    pub step: Step,
    /// What changed.
    pub fact: Fact,
}

/// Something that changed, told once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Fact {
    /// A life of the coordinator began, with a branch on the weights of step `base`.
    Began {
        /// The step that it goes on from.
        base: Step,
    },
    /// A member is ready to work.
    Joined {
        /// Its number.
        member: Incarnation,
        /// What people call it.
        name: String,
    },
    /// A member is gone.
    Lost {
        /// Its number.
        member: Incarnation,
        /// What was noticed first.
        cause: String,
    },
    /// A member left in peace.
    Drained {
        /// Its number.
        member: Incarnation,
    },
    /// A member no longer counts and is told to join anew.
    Fenced {
        /// Its number.
        member: Incarnation,
        /// What was noticed first.
        cause: String,
    },
    /// A process that keeps failing waits before it is let in again.
    Delayed {
        /// What people call it.
        name: String,
        /// How long, in milliseconds.
        wait_ms: u64,
        /// Why.
        cause: String,
    },
    /// A step is late: others evaluate as well what a member has not delivered, if there are any.
    /// Of a member that stays late not every step is told, but how many there were.
    Late {
        /// The step.
        step: Step,
        /// Who is waited for.
        member: Incarnation,
        /// What people call it.
        #[serde(default)]
        name: String,
        /// Steps that it was late for as well and that were not told, since the last one that was.
        #[serde(default)]
        untold: u64,
    },
    /// A member is much slower than the others; it gets less to do.
    Slow {
        /// Its number.
        member: Incarnation,
        /// How many times slower than their median.
        times: f64,
    },
    /// Partitions have other holders.
    Moved {
        /// How many.
        leases: u64,
    },
    /// Steps up to this version are committed: told once a second at most, and always of the first
    /// one after a loss.
    Committed {
        /// The newest version.
        version: Step,
        /// Mean loss of its step.
        loss: Option<f64>,
    },
    /// A leaf is not finite, which a second evaluation confirmed.
    NonFinite {
        /// The step.
        step: Step,
        /// The leaf.
        partition: PartitionId,
    },
    /// Two evaluations of a leaf that is not finite differ: the first one does not count.
    Differs {
        /// The step.
        step: Step,
        /// The leaf.
        partition: PartitionId,
        /// Whose evaluation was first.
        member: Incarnation,
    },
    /// Two members contributed a node and have other bits; the first copy counts.
    CopiesDiffer {
        /// The step.
        step: Step,
        /// The first and the last of its partitions.
        partitions: [PartitionId; 2],
        /// Whose copy was first, and whose differs from it.
        members: [Incarnation; 2],
    },
    /// Two members evaluated a leaf and have other bits; it is being settled.
    AuditDiffers {
        /// The step.
        step: Step,
        /// The leaf.
        partition: PartitionId,
        /// Who has evaluated it.
        members: Vec<Incarnation>,
    },
    /// Nobody is left who could say which of them is right: `resilin replay` can.
    AuditUnsettled {
        /// The step.
        step: Step,
        /// The leaf.
        partition: PartitionId,
        /// Who has evaluated it.
        members: Vec<Incarnation>,
    },
    /// A member's bits are wrong: most evaluations of the leaf have others. It is fenced; the steps
    /// that it contributed to stay as they are.
    Wrong {
        /// The step.
        step: Step,
        /// The leaf.
        partition: PartitionId,
        /// Its number.
        member: Incarnation,
        /// Committed steps that it contributed to.
        touched: Option<Touched>,
    },
    /// A replayed step made other weights than before; the run does not promise bits.
    ReplayDiffers {
        /// The step.
        step: Step,
    },
    /// Test rows were scored.
    Evaluated(Metrics),
    /// A version that was to be scored is not: nobody has its weights any more, or the run ended.
    NotEvaluated {
        /// The version.
        version: Step,
    },
    /// A version is durable.
    Durable {
        /// The version.
        version: Step,
    },
    /// Checkpoints fail; training goes on.
    Degraded {
        /// What the store said.
        cause: String,
    },
    /// Everybody goes back to an earlier version: a branch begins there.
    Rollback {
        /// The version.
        base: Step,
        /// What was lost.
        cause: String,
    },
    /// A slice is served by others than before.
    ViewChanged {
        /// The slice.
        slice: SliceId,
        /// The number of the new view.
        view: View,
        /// Why.
        cause: String,
    },
    /// A host is ready to serve.
    HostJoined {
        /// Its number.
        host: Incarnation,
        /// What people call it.
        name: String,
    },
    /// A host is gone.
    HostLost {
        /// Its number.
        host: Incarnation,
        /// What was noticed first.
        cause: String,
    },
    /// A host left in peace.
    HostLeft {
        /// Its number.
        host: Incarnation,
    },
    /// The parameters are dealt to another number of slices from a version on.
    Resharded {
        /// The version.
        base: Step,
        /// Slices.
        shards: u16,
    },
    /// They are not dealt anew, though it was asked for.
    NotResharded {
        /// Why.
        cause: String,
    },
    /// An earlier coordinator was asked for something and is gone before it was done.
    StillWanted {
        /// What.
        wishes: Wishes,
    },
    /// Facts that could not be written down, and are gone.
    Unwritten {
        /// How many.
        facts: u64,
    },
    /// The run ended, or rests.
    Over {
        /// As in the report.
        outcome: String,
        /// The first cause, where it did not end well.
        cause: Option<String>,
    },
}

/// Committed steps that a member contributed to; the ledger has each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touched {
    /// The first.
    pub first: Step,
    /// The last.
    pub last: Step,
    /// How many between the two, these included.
    pub steps: u64,
}

impl fmt::Display for Touched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last, steps } = self;
        write!(f, "{steps} committed steps from {first} to {last}")
    }
}

/// How much a fact asks to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weight {
    /// The story of a run that goes well.
    Usual,
    /// Something failed or was lost.
    Trouble,
}
