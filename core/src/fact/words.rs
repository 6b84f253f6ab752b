//! Facts in words, and what logs pick out of them.

use std::fmt;

use super::{Fact, Weight};
use crate::id::Incarnation;

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
            // The loss that made it necessary is told by itself.
            | Self::ViewChanged { .. }
            // More versions were due than were scored in time; nothing failed.
            | Self::NotEvaluated { .. }
            | Self::Over { cause: None, .. } => Weight::Usual,
            Self::Lost { .. }
            | Self::Fenced { .. }
            | Self::Delayed { .. }
            | Self::Late { .. }
            | Self::Slow { .. }
            | Self::NonFinite { .. }
            | Self::Differs { .. }
            | Self::CopiesDiffer { .. }
            | Self::AuditDiffers { .. }
            | Self::AuditUnsettled { .. }
            | Self::Wrong { .. }
            | Self::ReplayDiffers { .. }
            | Self::Degraded { .. }
            | Self::Rollback { .. }
            | Self::HostLost { .. }
            | Self::NotResharded { .. }
            // Whoever starts a run that stops at once wants to know why.
            | Self::StillWanted { .. }
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
            | Self::CopiesDiffer { .. }
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
            | Self::StillWanted { .. }
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
            Self::Differs { .. }
            | Self::CopiesDiffer { .. }
            | Self::AuditDiffers { .. }
            | Self::AuditUnsettled { .. } => Some("results-differ"),
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
            | Self::StillWanted { .. }
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
            Self::Fenced { member, cause } => write!(
                f,
                "worker {member} fenced: {cause}; nothing is lost: its work is given to others, and \
                 it joins again"
            ),
            Self::Delayed {
                name,
                wait_ms,
                cause,
            } => write!(f, "{name} waits {wait_ms} ms before it may join: {cause}"),
            Self::Late {
                step,
                member,
                name,
                untold,
            } => {
                write!(
                    f,
                    "step {step} waits for worker {member} ({name}), which is late"
                )?;
                match untold {
                    0 => Ok(()),
                    _ => write!(f, ", as for {untold} steps since this was last said"),
                }
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
            Self::CopiesDiffer {
                step,
                partitions: [from, to],
                members: [first, second],
            } => write!(
                f,
                "the sum of partitions {from} to {to} at step {step} came out differently at workers \
                 {first} and {second}; the first counts, `resilin replay --step {step}` tells whether \
                 it is right"
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
            Self::StillWanted { wishes } => {
                write!(
                    f,
                    "an earlier coordinator was asked for {wishes}; it is done now"
                )
            }
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
