//! `resilin reference`: the serial oracle. One process, no actors, no network; the same bits.

use std::collections::BTreeMap;
use std::time::Instant;

use resilin_actors::Exit;
use resilin_actors::coordinator::Report;
use resilin_learn::kernel::{Digest, EvaluateError, hex, weights_sha256};
use resilin_learn::look::{check_rows, notes};
use resilin_learn::model::Score;
use resilin_learn::reference::{self, Progress, ReferenceError, Trained};
use resilin_learn::registry::Registry;
use resilin_learn::rehearsal::rehearse_all;
use resilin_learn::task::Task;

use crate::face::{Event, Face, FaceArgs, Progress as Shown};
use crate::job_file::JobArgs;
use crate::results::ResultArgs;

/// Train in this one process: the same bits as any run of the job, and nothing else
#[derive(Debug, clap::Args)]
pub(crate) struct Reference {
    #[command(flatten)]
    job: JobArgs,
    #[command(flatten)]
    results: ResultArgs,
    #[command(flatten)]
    face: FaceArgs,
}

impl Reference {
    pub(crate) fn run(&self, registry: &Registry) -> Result<(), Exit> {
        self.results.check()?;
        let task = self.job.task(self.job.document()?, registry)?;
        check_rows(&task).map_err(|error| Exit::Usage(error.to_string()))?;
        rehearse_all(&task).map_err(Exit::of_first_rows)?;
        let mut watch = Watch::new(&task, Face::new(self.face));
        for text in notes(&task) {
            watch.face.show(&Event::Notice { text });
        }
        let trained = reference::run(&task, |progress| watch.take(progress));
        let trained = trained.map_err(|error| {
            watch.face.clear();
            exit(error)
        })?;
        let report = watch.report(&task, &trained);
        self.results.write_report(&report)?;
        self.results.write_chain(|| Ok(watch.chain.clone()))?;
        watch.face.end(&report)
    }
}

/// Follows a serial run.
struct Watch {
    face: Face,
    begun: Instant,
    chain: Vec<Digest>,
    samples: u64,
    skipped: u64,
    loss: Option<f64>,
    steps_per_epoch: u64,
    total_steps: u64,
    /// Names of the model's losses.
    losses: Vec<String>,
}

impl Watch {
    fn new(task: &Task, mut face: Face) -> Self {
        face.show(&Event::Begin {
            job: task.job.run.name.clone(),
            run_id: task.effective.run_id().to_string(),
            total_steps: task.total_steps,
            from_step: 0,
        });
        Self {
            face,
            begun: Instant::now(),
            chain: Vec::new(),
            samples: 0,
            skipped: 0,
            loss: None,
            steps_per_epoch: task.sampling.steps_per_epoch(),
            total_steps: task.total_steps,
            losses: task.model.losses(),
        }
    }

    fn epochs(&self) -> u64 {
        self.total_steps.div_ceil(self.steps_per_epoch)
    }

    fn take(&mut self, progress: Progress) {
        match progress {
            Progress::Start { chain } => self.chain.push(chain),
            Progress::Step(step) => {
                self.chain.push(step.chain);
                self.samples += step.samples;
                match step.fate {
                    reference::Fate::Applied => self.loss = Some(step.loss),
                    reference::Fate::Skipped => self.skipped += 1,
                }
                let done = step.version.0;
                self.face.show(&Event::Step(Shown {
                    step: done,
                    epoch: (done - 1) / self.steps_per_epoch + 1,
                    epochs: self.epochs(),
                    loss: self.loss,
                    samples_per_s: self.samples as f64 / self.begun.elapsed().as_secs_f64(),
                    workers: None,
                    waiting: None,
                }));
            }
            Progress::Epoch { test: None, .. } => {}
            Progress::Epoch {
                epoch,
                test: Some(score),
            } => {
                let epoch = epoch + 1;
                self.face.show(&Event::Epoch {
                    epoch,
                    epochs: self.epochs(),
                    step: epoch * self.steps_per_epoch,
                    test_accuracy: accuracy(&score),
                    test_loss: score.loss_sum / score.rows as f64,
                    test_losses: score.mean_losses(&self.losses),
                });
            }
        }
    }

    fn report(&self, task: &Task, trained: &Trained) -> Report {
        let wall_s = self.begun.elapsed().as_secs_f64();
        Report {
            job: task.job.run.name.clone(),
            run_id: task.effective.run_id().to_string(),
            seed: task.job.run.seed,
            outcome: "finished".into(),
            cause: None,
            steps: task.total_steps,
            total_steps: task.total_steps,
            epochs: self.epochs(),
            samples: trained.samples,
            weights_sha256: Some(hex(&weights_sha256(&trained.weights))),
            chain: Some(hex(&trained.chain)),
            train_loss: self.loss,
            test_accuracy: trained.test.as_ref().and_then(accuracy),
            test_loss: trained.test.map(|test| test.loss_sum / test.rows as f64),
            test_losses: trained
                .test
                .map_or_else(BTreeMap::new, |test| test.mean_losses(&self.losses)),
            wall_s,
            samples_per_s: trained.samples as f64 / wall_s,
            workers_joined: 0,
            workers_lost: 0,
            workers_drained: 0,
            partitions_reassigned: 0,
            discarded: 0,
            skipped: self.skipped,
            generation: 0,
            checkpoints: 0,
            bits: task.job.run.bits,
            resumed_from_step: None,
            checkpoint: None,
        }
    }
}

fn accuracy(score: &Score) -> Option<f64> {
    score
        .correct
        .map(|correct| correct as f64 / score.rows as f64)
}

/// The end of a serial run as the program's.
pub(crate) fn exit(error: ReferenceError) -> Exit {
    match error {
        ReferenceError::Evaluate(EvaluateError::Data(_) | EvaluateError::Model(_))
        | ReferenceError::NonFinite { .. } => Exit::Fault(error.to_string()),
    }
}
