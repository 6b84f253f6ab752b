//! The plan of faults: drawn from the command line's wishes, or read from a file.

use std::path::PathBuf;

use clap::ValueEnum;
use resilin_actors::Exit;
use resilin_chaos::process::draw::{self, Wishes};
use resilin_chaos::process::plan::{Kind, Plan, Role};
use resilin_chaos::process::text;
use resilin_core::Span;
use resilin_core::job::Job;

use crate::commands::duration::span;
use crate::input;
use crate::results::check_file;

/// Which faults, and when.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ScheduleArgs {
    /// Seed of the schedule
    #[arg(long, value_name = "S", default_value = "1")]
    seed: u64,
    /// How long faults come, as 500ms, 60s or 5m, from the moment when all workers compute
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = span)]
    duration: Span,
    /// Mean time from fault to fault
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = span)]
    every: Span,
    /// Processes that are killed with SIGKILL
    #[arg(long, value_name = "ROLE,...", value_delimiter = ',')]
    kill: Vec<Target>,
    /// Processes that are stopped with SIGSTOP, for 0.5 to 2.5 leases
    #[arg(long, value_name = "ROLE,...", value_delimiter = ',')]
    freeze: Vec<Target>,
    /// Connections of workers that are reset, or carry nothing one way or both
    #[arg(long, value_name = "link", value_delimiter = ',')]
    cut: Vec<Link>,
    /// Connections of workers that are throttled or delayed
    #[arg(long, value_name = "link", value_delimiter = ',')]
    slow: Vec<Link>,
    /// Replay the schedule in this file instead of drawing one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "duration", "every", "kill", "freeze", "cut", "slow"])]
    plan: Option<PathBuf>,
    /// Write the schedule to this file
    #[arg(long, value_name = "FILE")]
    save_plan: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Target {
    Worker,
    Shard,
    Coordinator,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Link {
    Link,
}

impl ScheduleArgs {
    /// The plan that is asked for.
    pub(super) fn plan(&self, job: &Job) -> Result<Plan, Exit> {
        if let Some(path) = &self.plan {
            let refuse = |why: String| Exit::Usage(format!("fault plan {}: {why}", path.display()));
            let read = input::text(path, text::MAX_BYTES).map_err(refuse)?;
            return text::parse(&read).map_err(|error| refuse(error.to_string()));
        }
        let plan = draw::draw(&Wishes {
            seed: self.seed,
            duration: self.duration,
            every: self.every,
            kinds: self.kinds(),
            lease: job.failure.lease,
        });
        match plan.faults.is_empty() {
            false => Ok(plan),
            true => Err(Exit::Usage(format!(
                "no fault comes within --duration {} with --every {}; make one longer or the \
                 other shorter",
                self.duration, self.every
            ))),
        }
    }

    /// Refuses a file for the plan that cannot be written.
    pub(super) fn check(&self) -> Result<(), Exit> {
        self.save_plan.as_deref().map_or(Ok(()), check_file)
    }

    /// Writes the plan, if that is wanted.
    pub(super) fn save(&self, plan: &Plan) -> Result<(), Exit> {
        let Some(path) = &self.save_plan else {
            return Ok(());
        };
        std::fs::write(path, text::print(plan))
            .map_err(|error| Exit::Fault(format!("cannot write {}: {error}", path.display())))
    }

    /// Without a wish: workers die and stand still, and links break.
    fn kinds(&self) -> Vec<Kind> {
        let killed = self.kill.iter().map(|target| Kind::Kill(role(*target)));
        let frozen = self.freeze.iter().map(|target| Kind::Freeze(role(*target)));
        let cut = self
            .cut
            .iter()
            .flat_map(|Link::Link| [Kind::Cut, Kind::Silence]);
        let slow = (self.slow.iter()).flat_map(|Link::Link| [Kind::Throttle, Kind::Delay]);
        let kinds: Vec<Kind> = killed.chain(frozen).chain(cut).chain(slow).collect();
        if !kinds.is_empty() {
            return kinds;
        }
        let worker = Role::Worker;
        vec![
            Kind::Kill(worker),
            Kind::Freeze(worker),
            Kind::Cut,
            Kind::Silence,
        ]
    }
}

fn role(target: Target) -> Role {
    match target {
        Target::Worker => Role::Worker,
        Target::Shard => Role::Shard,
        Target::Coordinator => Role::Coordinator,
    }
}
