//! `resilin bench memory`: sixteen workers push to two shard processes, of which one gets a tenth of
//! its time, and the resident memory of coordinator and shard processes is watched: senders have to
//! wait, and nothing may pile up.

use std::thread;
use std::time::{Duration, Instant};

use resilin_actors::Exit;
use resilin_actors::supervisor::Role;
use serde::Serialize;

use super::bystander::{Bystander, beside};
use super::lab::Lab;
use crate::print;

const WORKERS: u32 = 16;
/// Committed steps before anything is measured: every buffer was in use once.
const WARM_STEPS: u64 = 10;
/// How long the slow process stands still and runs, in turn: a tenth of the time.
const STANDS: Duration = Duration::from_millis(90);
const RUNS: Duration = Duration::from_millis(10);
/// Bytes that a link holds unanswered before the sender waits.
const IN_FLIGHT: u64 = 4 << 20;

/// 1.05 million parameters: a contribution of 2 MB to each of the two slices.
const JOB: &str = r#"
[run]
name = "bench-memory"
steps = 1000000
batch = 16
partitions = 16
evaluate_every = 0

[cluster]
workers = 16
shards = 2
shard_processes = 2
in_flight = 4194304

[checkpoint]
every_seconds = 0

[failure]
lease = 20.0

[model]
name = "mlp"
hidden = [1024, 232]

[optimizer]
name = "momentum"
learning_rate = 0.001
"#;

/// The measurement.
#[derive(Debug, clap::Args)]
pub(super) struct Memory {
    /// Seconds for which a shard process is slow
    #[arg(long, value_name = "S", default_value = "60")]
    seconds: u64,
}

/// Megabytes are MiB.
#[derive(Debug, Serialize)]
struct Summary {
    seconds: u64,
    /// Resident memory of coordinator and shard processes before.
    base_mib: f64,
    /// The most that was seen meanwhile.
    peak_mib: f64,
    /// Base, and twice what all links may hold unanswered.
    bound_mib: f64,
    /// Steps that were committed meanwhile.
    steps: u64,
    /// Workers that were lost meanwhile: nobody is given up for being made to wait.
    lost: u64,
}

impl Memory {
    pub(super) fn run(&self, json: bool) -> Result<(), Exit> {
        let mut lab = Lab::new(JOB)?;
        lab.shard_processes = 2;
        let (summary, _) = beside(&lab, WORKERS, |run| self.measure(run))?;
        summary.print(json)
    }

    fn measure(&self, run: &Bystander<'_>) -> Result<Summary, Exit> {
        let begun = run.settle(run.workers, WARM_STEPS)?.job;
        let base = resident(run)?;
        let slow = run.children.living(Role::Shard);
        let slow = slow
            .first()
            .ok_or_else(|| Exit::Fault("no shard process is left".into()))?;
        let (end, mut peak) = (Instant::now() + Duration::from_secs(self.seconds), base);
        while Instant::now() < end {
            if !run.children.freeze(*slow) {
                return Err(Exit::Fault(format!("shard process {slow} is gone")));
            }
            thread::sleep(STANDS);
            peak = peak.max(resident(run)?);
            run.children.thaw(*slow);
            thread::sleep(RUNS);
        }
        let after = run.until(|_| true)?.job;
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        Ok(Summary {
            seconds: self.seconds,
            base_mib: mib(base),
            peak_mib: mib(peak),
            bound_mib: mib(base + 2 * u64::from(WORKERS) * IN_FLIGHT),
            steps: after.step.0 - begun.step.0,
            lost: after.lost - begun.lost,
        })
    }
}

/// Bytes of memory that coordinator and shard processes have.
fn resident(run: &Bystander<'_>) -> Result<u64, Exit> {
    let mut pids = run.children.living(Role::Coordinator);
    pids.extend(run.children.living(Role::Shard));
    let of = |pid: u32| {
        let path = format!("/proc/{pid}/status");
        let text = std::fs::read_to_string(&path)
            .map_err(|error| Exit::Fault(format!("cannot read {path}: {error}")))?;
        let kib = text
            .lines()
            .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix("kB"))
            .and_then(|kib| kib.trim().parse::<u64>().ok());
        kib.map(|kib| kib << 10)
            .ok_or_else(|| Exit::Fault(format!("{path} does not say VmRSS")))
    };
    pids.into_iter().map(of).sum()
}

impl Summary {
    fn print(&self, json: bool) -> Result<(), Exit> {
        if json {
            return print::json(self);
        }
        let Self {
            seconds,
            base_mib,
            peak_mib,
            bound_mib,
            steps,
            lost,
        } = self;
        print::progress(&format!(
            "{WORKERS} workers, one of two shard processes at a tenth of its speed for {seconds} s"
        ));
        print::progress(&format!(
            "resident memory {base_mib:.0} MiB before, {peak_mib:.0} MiB at most (coordinator and \
             shard processes)"
        ));
        print::progress(&format!(
            "bound           {bound_mib:.0} MiB (twice what links may hold unanswered, on top)"
        ));
        print::progress(&format!(
            "meanwhile       {steps} steps committed, {lost} workers lost"
        ));
        Ok(())
    }
}
