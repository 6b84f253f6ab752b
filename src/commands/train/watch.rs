//! Follows a run through what its supervisor tells, and shows what a person wants to know.

use std::collections::BTreeMap;
use std::path::Path;

use resilin_actors::coordinator::{Report, RunStatus};
use resilin_actors::supervisor::{Happening, Role};
use resilin_checkpoint::{History, LEDGER, RealFiles};
use resilin_core::Step;
use resilin_core::machine::job::Metrics;
use resilin_learn::model::mean_losses;

use crate::face::{Event, Face, Progress};

/// How the line begins in which a process says why it failed.
const ERROR: &str = "error: ";
/// How the lines begin in which a coordinator says that it stopped; this process says it, too.
const STOPPED: [&str; 2] = ["stopped at step ", "stopped before the first step"];

/// Turns happenings into events.
pub(super) struct Watch {
    pub(super) face: Face,
    begun: bool,
    epochs: u64,
    /// Names of the losses that scores have parts of.
    losses: Vec<String>,
    /// The newest version whose score was shown.
    scored: Step,
    /// The last error of each child, told with its end.
    causes: BTreeMap<u32, String>,
    /// Ends of children, told once it is clear that the run goes on: the last one is the error of
    /// this process.
    ends: Vec<String>,
}

impl Watch {
    pub(super) fn new(face: Face) -> Self {
        Self {
            face,
            begun: false,
            epochs: 0,
            losses: Vec::new(),
            scored: Step(0),
            causes: BTreeMap::new(),
            ends: Vec::new(),
        }
    }

    pub(super) fn take(&mut self, happening: Happening) {
        match happening {
            Happening::Started { role, pid } => {
                for text in std::mem::take(&mut self.ends) {
                    self.notice(format!("{text}; {role} {pid} takes its place"));
                }
            }
            Happening::Ready(_) => {}
            Happening::Line { role, pid, text } => match text.strip_prefix(ERROR) {
                Some(cause) => drop(self.causes.insert(pid, cause.into())),
                None if STOPPED.iter().any(|stopped| text.starts_with(stopped)) => {}
                None => self.face.log(&format!("{role} {pid}: {text}")),
            },
            Happening::Failed { role, pid, how } => self.failed(role, pid, &how),
            // Nobody kills on purpose here.
            Happening::Killed { role, pid } => self.failed(role, pid, "killed on purpose"),
            Happening::Status(status) => self.status(&status),
            Happening::Stopping => self
                .notice("stopping at the next step with a checkpoint; again: ends at once".into()),
        }
    }

    /// Shows one line.
    pub(super) fn notice(&mut self, text: String) {
        self.face.show(&Event::Notice { text });
    }

    /// Shows the scores that were made after the last look at the run.
    pub(super) fn last_epochs(&mut self, directory: Option<&Path>, report: &Report) {
        let Some(directory) = directory else { return };
        // What cannot be read is missing here and nowhere else.
        let Ok(history) = History::read(&RealFiles, &directory.join(LEDGER)) else {
            return;
        };
        self.epochs = self.epochs.max(report.epochs);
        history
            .evaluations()
            .for_each(|metrics| self.score(metrics));
    }

    fn failed(&mut self, role: Role, pid: u32, how: &str) {
        let cause = self.causes.remove(&pid);
        let cause = cause.map_or_else(String::new, |cause| format!(": {cause}"));
        self.ends.push(format!("{role} {pid} ended ({how}){cause}"));
    }

    fn status(&mut self, status: &RunStatus) {
        let job = &status.job;
        if !self.begun {
            self.begun = true;
            self.epochs = job.epochs;
            self.losses.clone_from(&status.losses);
            let from = job.durable_step.unwrap_or(Step(0));
            self.scored = from;
            self.face.show(&Event::Begin {
                job: status.name.clone(),
                run_id: status.location.run.clone(),
                total_steps: job.total_steps,
                from_step: from.0,
            });
        }
        for metrics in &job.metrics {
            self.score(metrics);
        }
        self.face.show(&Event::Step(Progress::of(job)));
    }

    fn score(&mut self, metrics: &Metrics) {
        if metrics.version <= self.scored {
            return;
        }
        self.scored = metrics.version;
        self.face.show(&Event::Epoch {
            epoch: metrics.epoch,
            epochs: self.epochs,
            step: metrics.version.0,
            test_accuracy: metrics.accuracy(),
            test_loss: metrics.loss_sum / metrics.rows as f64,
            test_losses: mean_losses(&self.losses, &metrics.parts, metrics.rows),
        });
    }
}
