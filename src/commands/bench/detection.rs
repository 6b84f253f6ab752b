//! `resilin bench detection`: one of four workers is killed or stopped, and the time is taken until
//! the coordinator counts it as lost, again and again. What the run needs to go on is `recovery`'s.

use std::time::Instant;

use resilin_actors::Exit;
use resilin_actors::coordinator::RunStatus;
use serde::Serialize;

use super::bystander::{Bystander, beside};
use super::lab::Lab;
use super::recovery::{Blow, JOB, LEASE_MS, relieve, strike};
use crate::figures::Spread;
use crate::print;

const WORKERS: u32 = 4;
/// Committed steps between two faults.
const QUIET_STEPS: u64 = 10;
/// Longest detection of a reset, in milliseconds.
const RESET_MS: f64 = 100.0;

/// The measurement.
#[derive(Debug, clap::Args)]
pub(super) struct Detection {
    /// SIGKILLs: the links of the worker are reset
    #[arg(long, value_name = "N", default_value = "100")]
    kills: u32,
    /// SIGSTOPs: only the lease ends
    #[arg(long, value_name = "N", default_value = "20")]
    freeze: u32,
}

#[derive(Debug, Serialize)]
struct Summary {
    fault: Blow,
    /// From the signal until it counts as lost.
    detection: Spread,
    /// What the median may be, in milliseconds.
    bound_p50_ms: f64,
    /// What the longest may be, in milliseconds.
    bound_max_ms: f64,
}

impl Detection {
    pub(super) fn run(&self, json: bool) -> Result<(), Exit> {
        for (blow, count) in [(Blow::Kill, self.kills), (Blow::Freeze, self.freeze)] {
            let lab = Lab::new(JOB)?;
            let (times, _) = beside(&lab, WORKERS, |run| {
                (0..count)
                    .map(|_| detect(run, blow))
                    .collect::<Result<Vec<f64>, Exit>>()
            })?;
            let Some(detection) = Spread::of(&times) else {
                continue;
            };
            let (bound_p50_ms, bound_max_ms) = match blow {
                Blow::Kill => (RESET_MS, RESET_MS),
                Blow::Freeze | Blow::Cut => (1.2 * LEASE_MS, 2.0 * LEASE_MS),
            };
            let summary = Summary {
                fault: blow,
                detection,
                bound_p50_ms,
                bound_max_ms,
            };
            summary.print(count, json)?;
        }
        Ok(())
    }
}

/// Strikes once; milliseconds until the worker counts as lost.
fn detect(run: &Bystander<'_>, blow: Blow) -> Result<f64, Exit> {
    run.settle(run.workers, QUIET_STEPS)?;
    let pid = run.oldest()?;
    let own = format!(":{pid}");
    let counts = |status: &RunStatus| {
        let mut members = status.job.workers.iter();
        members.any(|member| member.name.ends_with(&own) && member.state == "active")
    };
    strike(run, blow, pid)?;
    let struck = Instant::now();
    run.until(|status| !counts(status))?;
    let took = struck.elapsed().as_secs_f64() * 1e3;
    relieve(run, blow, pid);
    Ok(took)
}

impl Summary {
    fn print(&self, count: u32, json: bool) -> Result<(), Exit> {
        if json {
            return print::json(self);
        }
        let what = match self.fault {
            Blow::Kill => "SIGKILL",
            Blow::Freeze => "SIGSTOP",
            Blow::Cut => "silence",
        };
        print::progress(&format!(
            "from {what} of one of {WORKERS} workers until it counts as lost, {count} times"
        ));
        print::progress(&format!("detection       {}", self.detection));
        print::progress(&format!(
            "bound           p50 {:.0} ms, max {:.0} ms",
            self.bound_p50_ms, self.bound_max_ms
        ));
        Ok(())
    }
}
