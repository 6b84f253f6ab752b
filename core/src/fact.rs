//! Facts of a run: what changed, once, when it changed. The log, the status and the event file of a
//! run are all made of these, so that they never tell different stories.
//!
//! Only data: machines tell facts, shells say when it was and write them down.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::{Generation, Incarnation, PartitionId, SliceId, Step, Timeline, View};
use crate::machine::job::Metrics;

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
    Late {
        /// The step.
        step: Step,
        /// Who is waited for.
        member: Incarnation,
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
    /// A version that was to be scored is not: one before it was still being scored, or the run
    /// ended.
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

impl Fact {
    /// How much it asks to be looked at.
    #[must_use]
    pub fn weight(&self) -> Weight {
        match self {
            Self::Began { .. }
            | Self::Joined { .. }
            | Self::Drained { .. }
            | Self::Moved { .. }
            | Self::Committed { .. }
            | Self::Evaluated(_)
            | Self::Durable { .. }
            | Self::HostJoined { .. }
            | Self::HostLeft { .. }
            | Self::Resharded { .. }
            | Self::Over { cause: None, .. } => Weight::Usual,
            Self::Lost { .. }
            | Self::Fenced { .. }
            | Self::Delayed { .. }
            | Self::Late { .. }
            | Self::Slow { .. }
            | Self::NonFinite { .. }
            | Self::Differs { .. }
            | Self::AuditDiffers { .. }
            | Self::AuditUnsettled { .. }
            | Self::Wrong { .. }
            | Self::ReplayDiffers { .. }
            | Self::NotEvaluated { .. }
            | Self::Degraded { .. }
            | Self::Rollback { .. }
            | Self::ViewChanged { .. }
            | Self::HostLost { .. }
            | Self::NotResharded { .. }
            | Self::Unwritten { .. }
            | Self::Over { cause: Some(_), .. } => Weight::Trouble,
        }
    }
}

impl Fact {
    /// The member it is about.
    #[must_use]
    pub fn member(&self) -> Option<Incarnation> {
        match self {
            Self::Joined { member, .. }
            | Self::Lost { member, .. }
            | Self::Drained { member }
            | Self::Fenced { member, .. }
            | Self::Late { member, .. }
            | Self::Slow { member, .. }
            | Self::Differs { member, .. }
            | Self::Wrong { member, .. }
            | Self::HostJoined { host: member, .. }
            | Self::HostLost { host: member, .. }
            | Self::HostLeft { host: member } => Some(*member),
            Self::Began { .. }
            | Self::Delayed { .. }
            | Self::Moved { .. }
            | Self::Committed { .. }
            | Self::NonFinite { .. }
            | Self::AuditDiffers { .. }
            | Self::AuditUnsettled { .. }
            | Self::ReplayDiffers { .. }
            | Self::Evaluated(_)
            | Self::NotEvaluated { .. }
            | Self::Durable { .. }
            | Self::Degraded { .. }
            | Self::Rollback { .. }
            | Self::ViewChanged { .. }
            | Self::Resharded { .. }
            | Self::NotResharded { .. }
            | Self::Unwritten { .. }
            | Self::Over { .. } => None,
        }
    }

    /// The first cause, where there is one.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        match self {
            Self::Lost { cause, .. }
            | Self::Fenced { cause, .. }
            | Self::Delayed { cause, .. }
            | Self::Degraded { cause }
            | Self::Rollback { cause, .. }
            | Self::HostLost { cause, .. }
            | Self::NotResharded { cause }
            | Self::ViewChanged { cause, .. } => Some(cause),
            Self::Over { cause, .. } => cause.as_deref(),
            Self::Late { .. } => Some("late"),
            Self::Slow { .. } => Some("slow"),
            Self::Differs { .. } | Self::AuditDiffers { .. } | Self::AuditUnsettled { .. } => {
                Some("results-differ")
            }
            Self::Wrong { .. } => Some("wrong-bits"),
            Self::Began { .. }
            | Self::Joined { .. }
            | Self::Drained { .. }
            | Self::Moved { .. }
            | Self::Committed { .. }
            | Self::NonFinite { .. }
            | Self::ReplayDiffers { .. }
            | Self::Evaluated(_)
            | Self::NotEvaluated { .. }
            | Self::Durable { .. }
            | Self::HostJoined { .. }
            | Self::HostLeft { .. }
            | Self::Resharded { .. }
            | Self::Unwritten { .. } => None,
        }
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began { base } => write!(f, "coordinator began at step {base}"),
            Self::Joined { member, name } => write!(f, "worker {member} joined ({name})"),
            Self::Lost { member, cause } => write!(f, "worker {member} lost: {cause}"),
            Self::Drained { member } => write!(f, "worker {member} left"),
            Self::Fenced { member, cause } => write!(f, "worker {member} fenced: {cause}"),
            Self::Delayed {
                name,
                wait_ms,
                cause,
            } => write!(f, "{name} waits {wait_ms} ms before it may join: {cause}"),
            Self::Late { step, member } => {
                write!(f, "step {step} waits for worker {member}, which is late")
            }
            Self::Slow { member, times } => write!(
                f,
                "worker {member} is {times:.1} times slower than the others; it gets less to do"
            ),
            Self::Moved { leases } => write!(f, "{leases} partitions moved"),
            Self::Committed { version, loss } => {
                write!(f, "step {version} committed")?;
                loss.map_or(Ok(()), |loss| write!(f, ", loss {loss:.4}"))
            }
            Self::NonFinite { step, partition } => write!(
                f,
                "gradient of partition {partition} at step {step} is not finite"
            ),
            Self::Differs {
                step,
                partition,
                member,
            } => write!(
                f,
                "two evaluations of partition {partition} at step {step} differ; that of worker \
                 {member} does not count"
            ),
            Self::AuditDiffers {
                step,
                partition,
                members,
            } => write!(
                f,
                "audit: partition {partition} at step {step} came out differently at workers {}; \
                 asking once more",
                listed(members)
            ),
            Self::AuditUnsettled {
                step,
                partition,
                members,
            } => write!(
                f,
                "audit: which of workers {} is wrong about partition {partition} at step {step} is \
                 not known; `resilin replay --step {step} --partition {partition}` tells",
                listed(members)
            ),
            Self::Wrong {
                step,
                partition,
                member,
                touched,
            } => {
                write!(
                    f,
                    "audit: worker {member} is wrong about partition {partition} at step {step}"
                )?;
                touched.map_or(Ok(()), |touched| {
                    write!(f, "; it contributed to {touched}, which stay")
                })
            }
            Self::ReplayDiffers { step } => write!(
                f,
                "replaying step {step} made other weights than before; bits are not promised"
            ),
            Self::Evaluated(metrics) => {
                write!(f, "test rows scored on step {}", metrics.version)?;
                let accuracy = metrics.accuracy();
                accuracy.map_or(Ok(()), |share| write!(f, ", accuracy {share:.4}"))
            }
            Self::NotEvaluated { version } => {
                write!(f, "test rows are not scored on step {version}")
            }
            Self::Durable { version } => write!(f, "checkpoint of step {version} durable"),
            Self::Degraded { cause } => {
                write!(f, "persistence degraded, training goes on: {cause}")
            }
            Self::Rollback { base, cause } => write!(f, "back to step {base}: {cause}"),
            Self::ViewChanged { slice, view, cause } => {
                write!(f, "slice {slice} has view {view}: {cause}")
            }
            Self::HostJoined { host, name } => write!(f, "shard process {host} joined ({name})"),
            Self::HostLost { host, cause } => write!(f, "shard process {host} lost: {cause}"),
            Self::HostLeft { host } => write!(f, "shard process {host} left"),
            Self::Resharded { base, shards } => {
                write!(
                    f,
                    "the parameters are dealt to {shards} shards from step {base} on"
                )
            }
            Self::NotResharded { cause } => write!(f, "the number of shards stays: {cause}"),
            Self::Unwritten { facts } => write!(f, "{facts} events could not be written"),
            Self::Over { outcome, cause } => {
                write!(f, "run {outcome}")?;
                cause
                    .as_ref()
                    .map_or(Ok(()), |cause| write!(f, ": {cause}"))
            }
        }
    }
}

/// Names for one line.
fn listed(members: &[Incarnation]) -> String {
    let names: Vec<String> = members.iter().map(Incarnation::to_string).collect();
    names.join(" and ")
}
