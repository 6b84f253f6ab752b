//! The plan of faults: drawn from the command line's wishes, or read from a file.

use std::path::PathBuf;

use clap::ValueEnum;
use resilin_actors::Exit;
use resilin_chaos::process::draw::{self, Wishes};
use resilin_chaos::process::plan::{Kind, LONGEST, Plan, Role};
use resilin_chaos::process::text;
use resilin_core::Span;
use resilin_core::job::Job;

use crate::input;

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

/// Whole milliseconds.
pub(super) fn ms(span: Span) -> u64 {
    span.0 / 1_000_000
}

/// A span of at least a millisecond, as `500ms`, `60s` or `5m`.
fn span(text: &str) -> Result<Span, String> {
    let expected = || "expected a time such as 500ms, 60s or 5m".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let per_unit = match &text[digits.len()..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(expected()),
    };
    let number: f64 = digits.parse().map_err(|_| expected())?;
    let seconds = number * per_unit;
    match (0.001..=LONGEST.as_secs_f64()).contains(&seconds) {
        true => Ok(Span::from_millis((seconds * 1e3).round() as u64)),
        false => Err(format!("expected 1ms to {}", LONGEST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        let millis = |text| span(text).map(ms);
        let times = ["500ms", "60s", "1.5s", "2m"].map(millis);
        assert_eq!(times, [Ok(500), Ok(60_000), Ok(1500), Ok(120_000)]);
        for text in ["", "5", "s", "-1s", "0s", "nans", "5h", "1 s", "9999999m"] {
            let error = millis(text).expect_err(text);
            assert!(error.starts_with("expected"), "{text}: {error}");
        }
    }
}
