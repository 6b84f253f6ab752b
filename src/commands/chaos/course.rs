//! One of the two runs: started as `train` would, and what it left.

use std::path::PathBuf;

use resilin_actors::Exit;
use resilin_actors::coordinator::Report;
use resilin_actors::supervisor::{Children, Options};
use resilin_chaos::process::plan::Plan;
use resilin_chaos::process::proxy::Proxy;
use resilin_checkpoint::{History, LEDGER, RealFiles};
use resilin_core::job::Failure;
use resilin_learn::kernel::Digest;

use super::show::Show;
use crate::commands::train::{self, option};
use crate::job_file::{JobArgs, utf8};
use crate::trial::{Record, Stretch, Trial};

/// How a run is started.
pub(super) struct Course<'a> {
    pub(super) job: JobArgs,
    pub(super) state: PathBuf,
    pub(super) workers: u32,
    pub(super) failure: Failure,
    pub(super) shard_processes: u16,
    pub(super) cpus_each: Option<u16>,
    pub(super) proxy: Option<&'a Proxy>,
}

/// A run that came to its end.
pub(super) struct Run {
    /// The chain line of every version.
    pub(super) chain: Vec<Digest>,
    pub(super) report: Report,
    pub(super) record: Record,
    /// Steps that were committed and lost, and so made twice.
    pub(super) redone: u64,
    /// Samples of the stretch that is measured.
    samples: u64,
}

impl Course<'_> {
    /// Runs the job from its beginning.
    pub(super) fn run(&self, plan: Option<&Plan>, show: &Show) -> Result<Run, Exit> {
        let trial = Trial {
            options: self.options()?,
            workers: self.workers,
            plan,
            proxy: self.proxy,
        };
        let tried = trial.run(&|shown| show.take(&shown));
        match tried.ended.exit {
            Exit::Done => {}
            Exit::Stopped(step) => {
                return Err(Exit::Fault(format!(
                    "interrupted at step {step}: nothing is judged; the same command line starts over"
                )));
            }
            exit => return Err(said(&exit, plan)),
        }
        let left = || Exit::Fault("the run left no report; try again with --state DIR".into());
        let directory = tried.ended.directory.as_deref().ok_or_else(left)?;
        let report = tried.ended.report.ok_or_else(left)?;
        let report: Report = serde_json::from_value(report)
            .map_err(|error| Exit::Fault(format!("the report cannot be read: {error}")))?;
        let history = History::read(&RealFiles, &directory.join(LEDGER))?;
        let stretch = tried.record.stretch();
        Ok(Run {
            chain: train::chain(Some(directory), &report)?,
            redone: history.superseded().len() as u64,
            samples: stretch.map_or(0, |stretch| samples(&history, stretch)),
            record: tried.record,
            report,
        })
    }

    /// What each shard process is started with: where there is a proxy, others reach it through a
    /// gate.
    fn shards(&self) -> Result<Vec<Vec<String>>, Exit> {
        let each = |_| {
            let mut shard = vec!["shard".to_owned()];
            let gate = self.proxy.map(Proxy::gate).transpose();
            let gate = gate.map_err(|error| Exit::Fault(format!("no port is free: {error}")))?;
            if let Some(gate) = gate {
                option(&mut shard, "--listen", Some(gate.target.to_string()));
                option(&mut shard, "--advertise", Some(gate.address.to_string()));
            }
            Ok(shard)
        };
        (0..self.shard_processes).map(each).collect()
    }

    fn options(&self) -> Result<Options, Exit> {
        let program = std::env::current_exe()
            .map_err(|error| Exit::Fault(format!("cannot find this program: {error}")))?;
        let mut coordinator = vec!["coordinator".to_owned()];
        coordinator.extend(self.job.arguments()?);
        let anywhere = || Some("127.0.0.1:0".to_owned());
        option(&mut coordinator, "--state", Some(utf8(&self.state)?));
        option(
            &mut coordinator,
            "--workers",
            Some(self.workers.to_string()),
        );
        // Nobody else has business with these runs, whatever the job says.
        option(&mut coordinator, "--listen", anywhere());
        option(&mut coordinator, "--api", anywhere());
        let through = self.proxy.map(|proxy| proxy.address().to_string());
        option(&mut coordinator, "--advertise", through);
        let mut worker = vec!["worker".to_owned()];
        let data = self.job.data.as_deref().map(utf8).transpose()?;
        option(&mut worker, "--data", data);
        Ok(Options {
            program,
            coordinator,
            first_start: vec!["--fresh".into()],
            worker,
            cpus_each: self.cpus_each,
            shards: self.shards()?,
            token: None,
            restarts: self.failure.restarts,
            window: self.failure.restart_window,
            grace: self.failure.drain_grace,
            children: Children::default(),
        })
    }
}

/// Which of the two runs failed, and why.
fn said(exit: &Exit, plan: Option<&Plan>) -> Exit {
    match plan {
        None => Exit::Fault(format!("the quiet run failed: {exit}")),
        Some(_) => Exit::Fault(format!("the run under faults failed: {exit}")),
    }
}

/// Samples that the steps of a stretch applied.
fn samples(history: &History, stretch: Stretch) -> u64 {
    let steps = stretch.from..stretch.to;
    let made = history
        .steps()
        .filter(|record| steps.contains(&record.step));
    made.map(|record| record.samples).sum()
}

impl Run {
    /// Samples a second of the stretch that is measured.
    pub(super) fn samples_per_s(&self) -> Option<f64> {
        Some(self.samples as f64 / self.seconds()?)
    }

    /// Seconds of it.
    pub(super) fn seconds(&self) -> Option<f64> {
        Some(self.record.stretch()?.long.as_secs_f64())
    }
}
