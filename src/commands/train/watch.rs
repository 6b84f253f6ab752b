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
    ends: Vec<(Role, String)>,
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
                for text in told_with(&mut self.ends, role, pid) {
                    self.notice(text);
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
        let text = format!("{role} {pid} ended ({how}){cause}");
        self.ends.push((role, text));
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

/// What is told of ends when a process starts: it takes the place of the first that had its role.
/// Others of that role may have their own successors yet.
fn told_with(ends: &mut Vec<(Role, String)>, role: Role, pid: u32) -> Vec<String> {
    let replaced = ends.iter().position(|(ended, _)| *ended == role);
    let replaced = replaced.map(|place| ends.remove(place).1);
    let others = ends.extract_if(.., |(ended, _)| *ended != role);
    let mut told: Vec<String> = others.map(|(_, text)| text).collect();
    told.extend(replaced.map(|text| format!("{text}; {role} {pid} takes its place")));
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_process_of_its_role_takes_the_place_of_one_that_ended() {
        let end = |role: Role, pid| (role, format!("{role} {pid} ended"));
        let mut ends = vec![
            end(Role::Worker, 1),
            end(Role::Shard, 2),
            end(Role::Worker, 3),
        ];
        assert_eq!(
            told_with(&mut ends, Role::Worker, 4),
            ["shard 2 ended", "worker 1 ended; worker 4 takes its place"]
        );
        let second = ["worker 3 ended; worker 5 takes its place"];
        assert_eq!(told_with(&mut ends, Role::Worker, 5), second);
        assert!(ends.is_empty() && told_with(&mut ends, Role::Shard, 6).is_empty());
    }
}
