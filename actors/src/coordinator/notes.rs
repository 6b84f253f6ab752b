//! The story of a run in the log: one line for each fact that changed.

use resilin_core::machine::job::{Note, Status};

/// Writes one line; `status` tells generation and step of the moment.
pub(super) fn tell(note: &Note, status: &Status) {
    let (generation, step) = (status.generation, status.step.0);
    match note {
        Note::Joined(member, name) => {
            tracing::info!(%member, name, %generation, step, "worker joined");
        }
        Note::Lost(member, cause) => {
            tracing::warn!(cause, %member, %generation, step, "worker lost");
        }
        Note::Drained(member) => tracing::info!(%member, %generation, step, "worker left"),
        Note::Moved(partitions) => tracing::info!(partitions, %generation, step, "leases moved"),
        Note::NonFinite(at, partition) => {
            tracing::warn!(
                step = at.0,
                partition = partition.0,
                "gradient is not finite"
            );
        }
        Note::Differs(at, partition, member) => tracing::warn!(
            cause = "results-differ",
            %member,
            %generation,
            step = at.0,
            partition = partition.0,
            "two evaluations of one microbatch differ; the first does not count"
        ),
        Note::ReplayDiffers(at) => tracing::warn!(
            step = at.0,
            "replaying a step made other weights than before the restart; bits are not promised"
        ),
        Note::Evaluated(metrics) => tracing::info!(
            step = metrics.version.0,
            epoch = metrics.epoch,
            accuracy = metrics.accuracy(),
            loss = metrics.loss_sum / metrics.rows as f64,
            rows = metrics.rows,
            "test rows scored"
        ),
        Note::NotEvaluated(version) => {
            tracing::warn!(step = version.0, "test rows are not scored");
        }
        Note::Durable(version) => tracing::info!(step = version.0, "checkpoint durable"),
        Note::Degraded(cause) => {
            tracing::warn!(cause, step, "persistence degraded; training goes on");
        }
    }
}
