//! The end of a run: its report, in the run's directory and in its record.

use std::collections::BTreeMap;
use std::path::Path;

use actix::{Context, Handler};
use resilin_checkpoint::{History, Result};
use resilin_core::machine::job::{Metrics, Outcome, Status};
use resilin_core::{Span, Step};
use resilin_learn::kernel::{Digest, WEIGHTS, hex, weights_sha256};
use resilin_learn::model::mean_losses;

use super::{Close, StoreActor};
use crate::clock::unix_seconds;
use crate::coordinator::announce::Announcement;
use crate::coordinator::job;
use crate::coordinator::report::Report;

/// Name of the report in the run's directory.
const REPORT_FILE: &str = "report.json";

impl Handler<Close> for StoreActor {
    type Result = ();

    fn handle(&mut self, close: Close, _: &mut Context<Self>) {
        if let Err(error) = self.write_ledger() {
            tracing::warn!(%error, "the end of the ledger is not written");
        }
        match self.report(&close) {
            Ok(report) => self.keep(&close.outcome, report),
            Err(error) => tracing::warn!(%error, "the report cannot be made"),
        }
        self.common.peers().job.do_send(job::Closed);
    }
}

/// What the newest durable version is.
#[derive(Default)]
struct Durable {
    weights_sha256: Option<String>,
    path: Option<std::path::PathBuf>,
    chain: Option<Digest>,
}

impl StoreActor {
    fn report(&self, close: &Close) -> Result<Report> {
        let Close {
            outcome,
            status,
            saved,
            wall,
        } = close;
        let task = &self.common.task;
        let history = self.common.run.history().unwrap_or_else(|error| {
            tracing::warn!(%error, "the report counts what is known without the ledger");
            History::default()
        });
        let steps: Vec<_> = history.steps().collect();
        // A skipped step has no loss.
        let last = steps.iter().rev().find(|step| step.weight > 0.0);
        let scored = status.metrics.last();
        let Durable {
            weights_sha256,
            path,
            chain: durable_chain,
        } = self.durable()?;
        let chain = newest_line(&history).or(durable_chain);
        Ok(Report {
            job: task.job.run.name.clone(),
            run_id: self.common.rules.run.to_string(),
            seed: task.job.run.seed,
            outcome: outcome.word().into(),
            cause: outcome.cause().map(str::to_owned),
            steps: status.step.0,
            total_steps: status.total_steps,
            epochs: epochs_begun(status, task.sampling.steps_per_epoch()),
            samples: steps.iter().map(|step| step.samples).sum(),
            weights_sha256,
            chain: chain.as_ref().map(hex),
            train_loss: last.map(|step| step.loss_sum / step.weight),
            test_accuracy: scored.and_then(Metrics::accuracy),
            test_loss: scored.map(|metrics| metrics.loss_sum / metrics.rows as f64),
            test_losses: scored.map_or_else(BTreeMap::new, |metrics| {
                mean_losses(&task.model.losses(), &metrics.parts, metrics.rows)
            }),
            wall_s: wall.as_secs_f64(),
            samples_per_s: rate(status.samples, *wall),
            workers_joined: status.joined,
            workers_lost: status.lost,
            workers_drained: status.drained,
            partitions_reassigned: status.reassigned,
            discarded: status.discarded,
            skipped: status.skipped,
            generation: status.generation.number,
            checkpoints: *saved,
            bits: task.job.run.bits,
            resumed_from_step: self.resumed.map(|step| step.0),
            checkpoint: path,
        })
    }

    fn durable(&self) -> Result<Durable> {
        let Some(restored) = self.common.run.newest()?.restored else {
            return Ok(Durable::default());
        };
        let tensors = restored.load(0..restored.manifest.layout.blocks())?;
        let weights = tensors.iter().find(|(name, _)| name == WEIGHTS);
        Ok(Durable {
            weights_sha256: weights.map(|(_, values)| hex(&weights_sha256(values))),
            path: Some(restored.path().to_path_buf()),
            chain: Some(restored.manifest.chain),
        })
    }

    /// A finished run's report is durable before anyone is told (PROTOCOL 29).
    fn keep(&self, outcome: &Outcome, report: Report) {
        let value = serde_json::to_value(&report).expect("a report has string keys only");
        match outcome {
            Outcome::Finished => {
                if let Err(error) = self.common.run.finish(unix_seconds(), value.clone()) {
                    tracing::warn!(%error, "the end of the run is not recorded; run it again");
                }
            }
            // Shard processes end with the run; all that they had is durable.
            Outcome::Stopped(_) => {
                if let Err(error) = self.common.run.forget_views() {
                    tracing::warn!(%error, "the next start waits for shard processes that are gone");
                }
            }
            Outcome::Halted { .. }
            | Outcome::SaveFailed { .. }
            | Outcome::WaitedTooLong
            | Outcome::Outranked { .. } => {}
        }
        if let Err(error) = write(&self.common.run.path().join(REPORT_FILE), &value) {
            tracing::warn!(%error, "the report is not written");
        }
        Announcement::Over {
            directory: self.common.run.path().to_path_buf(),
            report: Box::new(report),
        }
        .print();
    }
}

/// The ledger's last chain line; none if lines of it are missing.
fn newest_line(history: &History) -> Option<Digest> {
    match history.chain() {
        Ok(lines) => lines.last().map(|(_, line)| *line),
        Err(error) => {
            tracing::warn!(%error, "the report's chain line is the newest checkpoint's");
            None
        }
    }
}

fn write(path: &Path, report: &serde_json::Value) -> std::io::Result<()> {
    let text = serde_json::to_string_pretty(report).expect("a value has string keys only");
    std::fs::write(path, text + "\n")
}

fn epochs_begun(status: &Status, steps_per_epoch: u64) -> u64 {
    let Step(step) = status.step;
    step.div_ceil(steps_per_epoch)
}

fn rate(samples: u64, wall: Span) -> f64 {
    let seconds = wall.as_secs_f64();
    if seconds > 0.0 {
        samples as f64 / seconds
    } else {
        0.0
    }
}
