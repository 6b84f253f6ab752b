//! Workers as processes: this program is started again as each of them, and comes here as well.

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use resilin_actors::Exit;
use resilin_actors::coordinator::RunStatus;
use resilin_actors::supervisor::{self, Children, Happening, Options};
use resilin_checkpoint::{Depth, History, LEDGER, RealFiles, checkpoints};
use resilin_core::job::{Document, Job};
use resilin_core::machine::job::{Metrics, Status};
use resilin_core::{Incarnation, Step, Timeline};
use resilin_learn::kernel::WEIGHTS;
use resilin_learn::model::Score;
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;
use serde_json::json;

use super::trained::Trained;
use super::{Moment, Observer, TrainError};
use crate::cli;
use crate::client::Client;
use crate::job_file::utf8;

/// The last argument of whatever a supervisor starts.
const CHILD: &str = "--end-with-parent";

/// Runs the job with processes below `state`, or serves one and ends.
pub(super) fn train(
    registry: Registry,
    document: Document,
    state: &Path,
    observer: Observer<'_>,
) -> Result<Trained, TrainError> {
    if std::env::args().any(|argument| argument == CHILD) {
        std::process::exit(serve(registry));
    }
    let task = Arc::new(registry.task(document, None)?);
    let options = options(&task, state).map_err(failed)?;
    let mut watch = Watch {
        observer,
        seen: None,
        told: Step(0),
        scored: Step(0),
        stopping: false,
    };
    let ended = supervisor::run(options, |happening| watch.take(&happening));
    match ended.exit {
        Exit::Done => {}
        Exit::Stopped(_) if watch.stopping => {}
        exit => return Err(failed(exit)),
    }
    let directory = ended.directory.ok_or_else(|| {
        TrainError::Processes("the coordinator did not say where its run is".into())
    })?;
    let (step, weights) = newest(&directory)?;
    watch
        .last(&directory, step, task.total_steps)
        .map_err(failed)?;
    Ok(Trained::new(task, weights, step.0, watch.stopping))
}

fn failed(exit: Exit) -> TrainError {
    TrainError::Processes(exit.to_string())
}

/// The life of a child; its exit code.
fn serve(registry: Registry) -> i32 {
    match cli::run(Arc::new(registry)) {
        Ok(()) => 0,
        Err(exit) => {
            crate::print::log(&format!("error: {exit}"));
            exit.code().into()
        }
    }
}

/// The job as a file for the coordinator, and how everybody is started.
fn options(task: &Task, state: &Path) -> Result<Options, Exit> {
    let text = task.effective.toml();
    let file = state.join(format!("{}.toml", task.job.run.name));
    let write = || fs::create_dir_all(state).and_then(|()| fs::write(&file, text));
    write().map_err(|error| Exit::Fault(format!("cannot write {}: {error}", file.display())))?;
    let Job {
        cluster, failure, ..
    } = &task.job;
    let program = std::env::current_exe()
        .map_err(|error| Exit::Fault(format!("cannot find this program: {error}")))?;
    let (file, state) = (utf8(&file)?, utf8(state)?);
    Ok(Options {
        program,
        coordinator: vec!["coordinator".into(), file, "--state".into(), state],
        first_start: Vec::new(),
        worker: vec!["worker".into()],
        cpus_each: cluster.cpus_each(),
        shards: vec![vec!["shard".into()]; cluster.shard_processes.into()],
        token: None,
        restarts: failure.restarts,
        window: failure.restart_window,
        grace: failure.drain_grace,
        children: Children::default(),
    })
}

/// The weights of the newest checkpoint of a run.
fn newest(directory: &Path) -> Result<(Step, Vec<f32>), TrainError> {
    let lacks = |why: String| TrainError::Processes(format!("{}: {why}", directory.display()));
    let all = checkpoints(&RealFiles, directory, Depth::Lengths);
    let all = all.map_err(|error| lacks(error.to_string()))?;
    let last = all
        .last()
        .ok_or_else(|| lacks("the run has no checkpoint".into()))?;
    let manifest = last.manifest.as_ref().map_err(|why| lacks(why.clone()))?;
    let tensors = last.load(&RealFiles);
    let tensors = tensors.map_err(|error| lacks(error.to_string()))?;
    let weights = tensors.into_iter().find(|(name, _)| name == WEIGHTS);
    let (_, weights) = weights.ok_or_else(|| lacks("its checkpoint has no weights".into()))?;
    Ok((manifest.step, weights))
}

/// Tells the observer what the supervisor tells.
struct Watch<'a> {
    observer: Observer<'a>,
    /// Branch and members of the last look.
    seen: Option<(Timeline, BTreeSet<Incarnation>)>,
    told: Step,
    scored: Step,
    stopping: bool,
}

impl Watch<'_> {
    fn take(&mut self, happening: &Happening) {
        match happening {
            Happening::Status(status) => self.status(status),
            Happening::Line { role, pid, text } => {
                crate::print::log(&format!("{role} {pid}: {text}"));
            }
            Happening::Started { .. }
            | Happening::Ready(_)
            | Happening::Failed { .. }
            | Happening::Killed { .. }
            | Happening::Stopping => {}
        }
    }

    fn status(&mut self, status: &RunStatus) {
        let job = &status.job;
        let changed = self.changed(job);
        let stepped = self.stepped(job.step, job.total_steps, job.loss);
        let scored = self.scored(job.metrics.iter().copied());
        let breaks = [changed, stepped, scored].iter().any(ControlFlow::is_break);
        if breaks && !self.stopping {
            // A coordinator that was killed meanwhile is asked again after the next look.
            let client = Client::new(&status.location.api, None);
            let asked = client.and_then(|client| client.post("stop", &json!({})));
            self.stopping = asked.is_ok();
        }
    }

    /// Tells of another branch, and of other members.
    fn changed(&mut self, job: &Status) -> ControlFlow<()> {
        let workers = job.workers.iter().map(|worker| worker.incarnation);
        let now = (job.timeline, workers.collect::<BTreeSet<_>>());
        let before = self.seen.replace(now.clone());
        let mut flow = ControlFlow::Continue(());
        if before.as_ref().is_some_and(|before| before.0 != now.0) {
            // Every version after it is told anew.
            self.told = job.durable_step.unwrap_or_default();
            let step = self.told.0;
            flow = (self.observer)(&Moment::Restored { step });
        }
        if before.is_none_or(|before| before.1 != now.1) {
            let workers = now.1.len();
            let said = (self.observer)(&Moment::Members { workers });
            flow = if flow.is_break() { flow } else { said };
        }
        flow
    }

    /// Tells what came after the last look.
    fn last(&mut self, directory: &Path, step: Step, total_steps: u64) -> Result<(), Exit> {
        let history = History::read(&RealFiles, &directory.join(LEDGER))?;
        // The run is over: there is nothing to stop.
        let _ = self.stepped(step, total_steps, None);
        let _ = self.scored(history.evaluations().copied());
        Ok(())
    }

    fn stepped(&mut self, step: Step, total_steps: u64, loss: Option<f64>) -> ControlFlow<()> {
        if step <= self.told {
            return ControlFlow::Continue(());
        }
        self.told = step;
        (self.observer)(&Moment::Step {
            step: step.0,
            total_steps,
            loss,
        })
    }

    /// Every score is told once, in the order of the versions.
    fn scored(&mut self, metrics: impl Iterator<Item = Metrics>) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        for metrics in metrics {
            let Metrics {
                version,
                epoch,
                rows,
                correct,
                loss_sum,
                parts,
            } = metrics;
            if version <= self.scored {
                continue;
            }
            self.scored = version;
            let score = Score {
                rows,
                correct,
                loss_sum,
                parts,
            };
            let said = (self.observer)(&Moment::Scored {
                step: version.0,
                epoch,
                score,
            });
            flow = if flow.is_break() { flow } else { said };
        }
        flow
    }
}
