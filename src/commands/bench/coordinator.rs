//! `resilin bench coordinator`: one run whose coordinator is killed again and again. What is lost of
//! it, who leaves because of it, and how long it takes until it goes on.

use std::num::NonZeroU32;
use std::time::Instant;

use resilin_actors::Exit;
use resilin_actors::supervisor::Role;
use resilin_checkpoint::{History, LEDGER, RealFiles};
use serde::Serialize;

use super::bystander::{Bystander, beside};
use super::lab::Lab;
use crate::figures::Spread;
use crate::print;

const WORKERS: u32 = 2;
/// Committed steps between two kills.
const QUIET_STEPS: u64 = 60;

const JOB: &str = r#"
[run]
name = "bench-coordinator"
steps = 1000000
batch = 96
partitions = 12
evaluate_every = 0

[checkpoint]
every_seconds = 0
every_steps = 20

[model]
name = "mlp"
hidden = [200, 100]

[optimizer]
name = "momentum"
learning_rate = 0.01
"#;

/// The measurement.
#[derive(Debug, clap::Args)]
pub(super) struct Coordinator {
    /// SIGKILLs of the coordinator
    #[arg(long, value_name = "N", default_value = "20")]
    kills: NonZeroU32,
    /// Processes that serve the weights; 0 keeps them in the coordinator's
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u16).range(0..=64))]
    shard_processes: u16,
}

#[derive(Debug, Serialize)]
struct Summary {
    kills: u32,
    shard_processes: u16,
    /// From the signal until the next coordinator listens.
    down: Option<Spread>,
    /// From there to the next committed step.
    resume: Option<Spread>,
    /// Versions that were committed, lost, and made again, in all.
    steps_redone: usize,
    /// Workers that ended because of it.
    workers_exited: usize,
    /// Whether every version that was made again has its old weights.
    same: bool,
}

impl Coordinator {
    pub(super) fn run(&self, json: bool) -> Result<(), Exit> {
        let shards = format!("[cluster]\nshard_processes = {}\n", self.shard_processes);
        let mut lab = Lab::new(&format!("{JOB}\n{shards}"))?;
        lab.shard_processes = self.shard_processes;
        let kills = self.kills.get();
        let (times, ended) = beside(&lab, WORKERS, |run| {
            let times: Result<Vec<_>, Exit> = (0..kills).map(|_| kill(run)).collect();
            Ok((times?, run.heard().exited))
        })?;
        let (times, workers_exited) = times;
        let directory = ended.directory.ok_or_else(|| {
            Exit::Fault("the run left no directory, so its ledger cannot be read".into())
        })?;
        let history = History::read(&RealFiles, &directory.join(LEDGER))?;
        let (down, resume): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
        let summary = Summary {
            kills,
            shard_processes: self.shard_processes,
            down: Spread::of(&down),
            resume: Spread::of(&resume),
            steps_redone: history.superseded().len(),
            workers_exited,
            same: history.differing().next().is_none(),
        };
        summary.print(json)
    }
}

/// Kills it once; milliseconds until it listens, and from there to the next step.
fn kill(run: &Bystander<'_>) -> Result<(f64, f64), Exit> {
    run.settle(run.workers, QUIET_STEPS)?;
    let before = run.until(|_| true)?.job;
    let lives = run.heard().listening.len();
    let living = run.children.living(Role::Coordinator);
    let pid = living.first().copied().unwrap_or_default();
    if !run.children.kill(pid) {
        return Err(Exit::Fault("no coordinator is left to kill".into()));
    }
    let killed = Instant::now();
    // With the weights in other processes the branch stays and the step goes on.
    let back = run.until(|status| status.location.pid != pid)?.job;
    run.until(|status| {
        let job = &status.job;
        job.step > back.step && (job.timeline > before.timeline || job.step > before.step)
    })?;
    let next = Instant::now();
    let listening = run.heard().listening.get(lives).copied().unwrap_or(next);
    let ms = |from: Instant, to: Instant| to.saturating_duration_since(from).as_secs_f64() * 1e3;
    Ok((ms(killed, listening), ms(listening, next)))
}

impl Summary {
    fn print(&self, json: bool) -> Result<(), Exit> {
        if json {
            return print::json(self);
        }
        print::progress(&format!(
            "{} kills of the coordinator in one run of {WORKERS} workers and {} shard processes, \
             a checkpoint every 20 steps",
            self.kills, self.shard_processes
        ));
        let spread = |spread: Option<Spread>| spread.map_or_else(String::new, |s| s.to_string());
        print::progress(&format!("killed to listening      {}", spread(self.down)));
        print::progress(&format!("listening to next step   {}", spread(self.resume)));
        print::progress(&format!("steps redone             {}", self.steps_redone));
        print::progress(&format!("workers exited           {}", self.workers_exited));
        let same = if self.same { "yes" } else { "NO" };
        print::progress(&format!("the same weights again   {same}"));
        Ok(())
    }
}
