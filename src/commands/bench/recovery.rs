//! `resilin bench recovery`: four workers train, one is killed with SIGKILL, and the time until the
//! next step is committed is taken, again and again. Only processes that this one started are
//! killed, by their ids.

use std::num::NonZeroU32;
use std::thread;
use std::time::{Duration, Instant};

use resilin_actors::Exit;
use resilin_actors::coordinator::{Location, RunStatus};
use resilin_actors::supervisor::{Children, Role};
use serde::Serialize;
use serde_json::json;

use super::lab::Lab;
use crate::client::Client;
use crate::figures::median;
use crate::print;

const WORKERS: u32 = 4;
/// Committed steps between two kills.
const QUIET_STEPS: u64 = 30;
/// Steps of the survivors that are timed.
const TIMED_STEPS: usize = 200;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

const JOB: &str = r#"
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
    /// Kills
    #[arg(long, value_name = "N", default_value = "20")]
    kills: NonZeroU32,
}

#[derive(Debug, Serialize)]
struct Summary {
    /// From the signal to the next committed step, in milliseconds.
    recovery_ms: Vec<f64>,
    median_ms: f64,
    /// The median quiet step of three workers, in milliseconds.
    quiet_step_ms: f64,
    /// 200 ms and one quiet step.
    bound_ms: f64,
}

impl Recovery {
    pub(super) fn run(&self, json: bool) -> Result<(), Exit> {
        let lab = Lab::new(JOB)?;
        let operator = Operator {
            state: lab.path("state"),
            children: lab.children(),
            kills: self.kills.get(),
        };
        let operator = thread::spawn(move || operator.work());
        let ended = lab.train(WORKERS, |_| {})?;
        let worked = operator.join();
        let measured = worked.map_err(|_| Exit::Fault("the operator's thread ended".into()))?;
        // A run that failed is the cause of whatever the operator missed.
        let summary = match (measured, ended.exit) {
            (Ok(summary), _) => summary,
            (Err(_), exit @ (Exit::Fault(_) | Exit::Refused(_) | Exit::Usage(_))) => {
                return Err(exit);
            }
            (Err(error), _) => return Err(error),
        };
        summary.print(json)
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
        print::progress(&format!(
            "from SIGKILL of one of {WORKERS} workers to the next committed step, in ms:"
        ));
        print::progress(&format!("  {}", times.join(" ")));
        print::progress(&format!("median          {:.1} ms", self.median_ms));
        print::progress(&format!(
            "quiet step      {:.1} ms (median, three workers)",
            self.quiet_step_ms
        ));
        print::progress(&format!(
            "bound           {:.1} ms (200 ms and one quiet step)",
            self.bound_ms
        ));
        Ok(())
    }
}

/// Watches the run closely, kills, and ends it.
struct Operator {
    state: std::path::PathBuf,
    children: Children,
    kills: u32,
}

impl Operator {
    fn work(&self) -> Result<Summary, Exit> {
        let client = self.client()?;
        let measured = self.measure(&client);
        // The run has no end of its own.
        client.post("stop", &json!({}))?;
        measured
    }

    fn client(&self) -> Result<Client, Exit> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Ok(Some(location)) = Location::read(&self.state) {
                return Client::new(&location.api, None);
            }
            thread::yield_now();
        }
        Err(Exit::Fault("no coordinator came up".into()))
    }

    /// Kills the oldest worker.
    fn kill(&self) -> Result<(), Exit> {
        let oldest = self.children.living(Role::Worker).first().copied();
        match oldest {
            Some(pid) if self.children.kill(pid) => Ok(()),
            Some(_) | None => Err(Exit::Fault("no worker is left to kill".into())),
        }
    }

    fn measure(&self, client: &Client) -> Result<Summary, Exit> {
        let mut recovery_ms = Vec::new();
        for _ in 0..self.kills {
            let settled = until(client, |status| active(status) == WORKERS as usize)?;
            let quiet = settled.job.step.0 + QUIET_STEPS;
            let before = until(client, |status| status.job.step.0 >= quiet)?;
            self.kill()?;
            let killed = Instant::now();
            until(client, |status| status.job.step > before.job.step)?;
            recovery_ms.push(killed.elapsed().as_secs_f64() * 1e3);
        }
        let quiet_step_ms = quiet_step(client)?;
        let median_ms = median(&recovery_ms);
        Ok(Summary {
            recovery_ms,
            median_ms,
            quiet_step_ms,
            bound_ms: 200.0 + quiet_step_ms,
        })
    }
}

/// The median time from commit to commit with one worker less, in milliseconds.
fn quiet_step(client: &Client) -> Result<f64, Exit> {
    client.post("scale", &json!({ "workers": WORKERS - 1 }))?;
    let survivors = WORKERS as usize - 1;
    let mut last = until(client, |status| active(status) == survivors)?
        .job
        .step;
    let (mut times, mut seen) = (Vec::new(), None);
    while times.len() < TIMED_STEPS {
        let status = until(client, |status| status.job.step > last)?;
        let now = Instant::now();
        // A gap of more than one step was looked at too late on one side.
        if let Some(seen) = seen.filter(|_| status.job.step.0 == last.0 + 1) {
            times.push(now.duration_since(seen).as_secs_f64() * 1e3);
        }
        (last, seen) = (status.job.step, Some(now));
    }
    Ok(median(&times))
}

fn active(status: &RunStatus) -> usize {
    let workers = status.job.workers.iter();
    workers.filter(|worker| worker.state == "active").count()
}

/// Looks again and again until the run is as wanted.
fn until(client: &Client, wanted: impl Fn(&RunStatus) -> bool) -> Result<RunStatus, Exit> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let status = client.status()?;
        if wanted(&status) {
            return Ok(status);
        }
        if Instant::now() >= deadline {
            return Err(Exit::Fault(format!(
                "the run stands at step {} of {}: {}",
                status.job.step,
                status.job.total_steps,
                status
                    .job
                    .waiting
                    .unwrap_or_else(|| "it waits for nobody".into())
            )));
        }
    }
}
