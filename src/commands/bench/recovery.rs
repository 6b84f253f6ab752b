//! `resilin bench recovery`: four workers train, one is killed, stopped or cut off, and the time
//! until the next step is committed is taken, again and again. Only processes that this one started
//! are signalled, by their ids.

use std::time::Instant;

use resilin_actors::Exit;
use resilin_chaos::process::plan::Way;
use resilin_chaos::process::proxy::{Proxy, Spoil};
use serde::Serialize;
use serde_json::json;

use super::bystander::{Bystander, active, beside};
use super::lab::Lab;
use crate::figures::{Spread, median};
use crate::print;

const WORKERS: u32 = 4;
/// Committed steps between two faults.
const QUIET_STEPS: u64 = 30;
/// Steps of the survivors that are timed.
const TIMED_STEPS: usize = 200;
/// Faults of one kind, if nothing else is said.
const FAULTS: u32 = 20;
/// What a run may need beside its lease and one step, in milliseconds.
const REACTION_MS: f64 = 200.0;
/// The default lease in milliseconds.
pub(super) const LEASE_MS: f64 = 1000.0;

pub(super) const JOB: &str = r#"
[run]
name = "bench-recovery"
steps = 1000000
batch = 96
partitions = 12
evaluate_every = 0

[checkpoint]
every_seconds = 0

[model]
name = "mlp"
hidden = [200, 100]

[optimizer]
name = "momentum"
learning_rate = 0.01
"#;

/// The measurement.
#[derive(Debug, clap::Args)]
pub(super) struct Recovery {
    /// SIGKILLs [default: 20, without the other two]
    #[arg(long, value_name = "N")]
    kills: Option<u32>,
    /// SIGSTOPs: nobody is told, only the lease ends
    #[arg(long, value_name = "N", default_value = "0")]
    freeze: u32,
    /// Workers whose links carry nothing any more, through a proxy
    #[arg(long, value_name = "N", default_value = "0")]
    cut: u32,
}

/// What is done to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Blow {
    Kill,
    Freeze,
    Cut,
}

#[derive(Debug, Serialize)]
struct Summary {
    fault: Blow,
    /// From the fault to the next committed step, in milliseconds.
    recovery_ms: Vec<f64>,
    #[serde(flatten)]
    spread: Option<Spread>,
    /// The median quiet step of three workers, in milliseconds.
    quiet_step_ms: f64,
    /// 200 ms and one quiet step, and the lease where only it tells.
    bound_ms: f64,
}

impl Recovery {
    pub(super) fn run(&self, json: bool) -> Result<(), Exit> {
        let others = self.freeze + self.cut > 0;
        let kills = self.kills.unwrap_or(if others { 0 } else { FAULTS });
        let blows = [
            (Blow::Kill, kills),
            (Blow::Freeze, self.freeze),
            (Blow::Cut, self.cut),
        ];
        for (blow, count) in blows.into_iter().filter(|(_, count)| *count > 0) {
            let mut lab = Lab::new(JOB)?;
            if blow == Blow::Cut {
                lab.connect_through(Proxy::start())?;
            }
            let (summary, _) = beside(&lab, WORKERS, |run| measure(run, blow, count))?;
            summary.print(json)?;
        }
        Ok(())
    }
}

impl Summary {
    fn print(&self, json: bool) -> Result<(), Exit> {
        if json {
            return print::json(self);
        }
        let times: Vec<String> = self
            .recovery_ms
            .iter()
            .map(|ms| format!("{ms:.1}"))
            .collect();
        let what = match self.fault {
            Blow::Kill => "SIGKILL",
            Blow::Freeze => "SIGSTOP",
            Blow::Cut => "the silence of all links",
        };
        print::progress(&format!(
            "from {what} of one of {WORKERS} workers to the next committed step, in ms:"
        ));
        print::progress(&format!("  {}", times.join(" ")));
        if let Some(spread) = self.spread {
            print::progress(&format!("recovery        {spread}"));
        }
        print::progress(&format!(
            "quiet step      {:.1} ms (median, three workers)",
            self.quiet_step_ms
        ));
        let lease = match self.fault {
            Blow::Kill => "",
            Blow::Freeze | Blow::Cut => "the lease of 1 s, ",
        };
        print::progress(&format!(
            "bound           {:.1} ms ({lease}200 ms and one quiet step)",
            self.bound_ms
        ));
        Ok(())
    }
}

fn measure(run: &Bystander<'_>, blow: Blow, count: u32) -> Result<Summary, Exit> {
    let mut recovery_ms = Vec::new();
    for _ in 0..count {
        run.settle(run.workers, QUIET_STEPS)?;
        let pid = run.oldest()?;
        strike(run, blow, pid)?;
        let struck = Instant::now();
        let next = run.next_step()?;
        recovery_ms.push(next.duration_since(struck).as_secs_f64() * 1e3);
        relieve(run, blow, pid);
    }
    let quiet_step_ms = quiet_step(run)?;
    let lease_ms = match blow {
        Blow::Kill => 0.0,
        Blow::Freeze | Blow::Cut => LEASE_MS,
    };
    Ok(Summary {
        fault: blow,
        spread: Spread::of(&recovery_ms),
        recovery_ms,
        quiet_step_ms,
        bound_ms: lease_ms + REACTION_MS + quiet_step_ms,
    })
}

pub(super) fn strike(run: &Bystander<'_>, blow: Blow, pid: u32) -> Result<(), Exit> {
    let struck = match blow {
        Blow::Kill => run.children.kill(pid),
        Blow::Freeze => run.children.freeze(pid),
        Blow::Cut => {
            let silence = Spoil::Silence(Way::Both);
            run.proxy.is_some_and(|proxy| proxy.spoil(pid, silence))
        }
    };
    match struck {
        true => Ok(()),
        false => Err(Exit::Fault(format!("worker {pid} is gone already"))),
    }
}

/// Ends the trouble, and the process with it: one that was lost again and again waits longer each
/// time before it works, and the next fault is to meet a worker that the run needs.
pub(super) fn relieve(run: &Bystander<'_>, blow: Blow, pid: u32) {
    match (blow, run.proxy) {
        (Blow::Kill, _) => return,
        (Blow::Cut, Some(proxy)) => drop(proxy.spoil(pid, Spoil::Heal)),
        (Blow::Freeze, _) | (Blow::Cut, None) => {}
    }
    // It may have ended by itself, fenced.
    let _ = run.children.kill(pid);
}

/// The median time from commit to commit with one worker less, in milliseconds.
fn quiet_step(run: &Bystander<'_>) -> Result<f64, Exit> {
    let survivors = run.workers - 1;
    run.client.post("scale", &json!({ "workers": survivors }))?;
    let mut last = run.until(|status| active(status) == survivors)?.job.step;
    let (mut times, mut seen) = (Vec::new(), None);
    while times.len() < TIMED_STEPS {
        let status = run.until(|status| status.job.step > last)?;
        let now = Instant::now();
        // A gap of more than one step was looked at too late on one side.
        if let Some(seen) = seen.filter(|_| status.job.step.0 == last.0 + 1) {
            times.push(now.duration_since(seen).as_secs_f64() * 1e3);
        }
        (last, seen) = (status.job.step, Some(now));
    }
    Ok(median(&times))
}
