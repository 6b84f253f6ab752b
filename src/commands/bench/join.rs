//! `resilin bench join`: a worker joins a run of a 100 MB model, and the time from the start of its
//! process to its first contribution: stored by the shard, and the step committed that it is part
//! of, which waits for all others as well.

use std::num::NonZeroU32;
use std::time::Instant;

use resilin_actors::Exit;
use resilin_actors::worker::Milestone;
use resilin_checkpoint::{History, LEDGER, RealFiles};
use resilin_core::{Incarnation, Step};
use serde::Serialize;
use serde_json::json;

use super::bystander::{Bystander, active, beside};
use super::lab::Lab;
use crate::figures::{Spread, median};
use crate::print;

/// Workers that are there.
const WORKERS: u32 = 2;
/// Committed steps between two joins.
const QUIET_STEPS: u64 = 3;
/// Steps that are watched once the joiner computes; what it was told to do is in them.
const WATCHED_STEPS: u64 = 3;

/// 24.9 million parameters. Of a batch as small as this one each partition is a gradient of 100 MB to
/// be summed, so there are no more partitions than workers need.
const JOB: &str = r#"
[run]
name = "bench-join"
steps = 1000000
batch = 12
partitions = 4
evaluate_every = 0

[cluster]
workers = 2

[checkpoint]
every_seconds = 0

[model]
name = "mlp"
hidden = [4608, 4608]

[optimizer]
name = "momentum"
learning_rate = 0.001
"#;

/// The measurement.
#[derive(Debug, clap::Args)]
pub(super) struct Join {
    /// Joins, one after the other
    #[arg(long, value_name = "N", default_value = "5")]
    joins: NonZeroU32,
}

/// One join, as it was seen.
struct Seen {
    started: Instant,
    active: Instant,
    incarnation: Incarnation,
    /// The process.
    pid: u32,
    /// When each version was first seen.
    commits: Vec<(Step, Instant)>,
}

#[derive(Debug, Serialize)]
struct Summary {
    joins: u32,
    /// From the start of the process until it holds partitions.
    to_active: Option<Spread>,
    /// From it until the shard has stored its first sum.
    to_contribution: Option<Spread>,
    /// From it to the commit of the first step that it contributed to.
    to_commit: Option<Spread>,
    /// Where the time until then goes: the median of each milestone, in milliseconds of the process's
    /// own.
    reached_ms: Vec<(&'static str, f64)>,
    /// Joins whose first contribution was not seen.
    unseen: usize,
    /// The median time from commit to commit meanwhile.
    step_ms: Option<f64>,
    steps_redone: usize,
}

impl Join {
    pub(super) fn run(&self, json: bool) -> Result<(), Exit> {
        let mut lab = Lab::new(JOB)?;
        lab.worker_log = Some("info");
        let joins = self.joins.get();
        let ((seen, reached), ended) = beside(&lab, WORKERS, |run| {
            let moments = (0..joins).map(|join| (f64::from(join) + 0.5) / f64::from(joins));
            let seen = moments.map(|moment| join(run, moment));
            let seen = seen.collect::<Result<Vec<_>, _>>()?;
            Ok((seen, run.heard().reached.clone()))
        })?;
        let directory = ended.directory;
        let directory = directory.ok_or_else(|| Exit::Fault("the run left no directory".into()))?;
        let history = History::read(&RealFiles, &directory.join(LEDGER))?;
        let ms = |from: Instant, to: Instant| to.duration_since(from).as_secs_f64() * 1e3;
        let to_active: Vec<f64> = seen.iter().map(|s| ms(s.started, s.active)).collect();
        let of = |seen: &Seen, which: Milestone| {
            let mut own = reached.iter().filter(|(pid, ..)| *pid == seen.pid);
            let found = own.find(|(_, milestone, ..)| *milestone == which);
            found.map(|(_, _, ms, at)| (*ms, *at))
        };
        let stored = seen.iter().filter_map(|seen| {
            let (_, at) = of(seen, Milestone::Stored)?;
            Some(ms(seen.started, at))
        });
        let stored: Vec<f64> = stored.collect();
        let reached_ms = Milestone::ALL.into_iter().filter_map(|milestone| {
            let times = seen.iter().filter_map(|seen| of(seen, milestone));
            let times: Vec<f64> = times.map(|(ms, _)| ms).collect();
            (!times.is_empty()).then(|| (milestone.word(), median(&times)))
        });
        let committed = seen.iter().filter_map(|seen| {
            let of_it = |step: &Step| {
                let record = history.steps().find(|record| record.step == *step);
                record.is_some_and(|record| {
                    let mut nodes = record.nodes.iter();
                    nodes.any(|part| part.contributor == seen.incarnation)
                })
            };
            // Version t + 1 is made of the contributions to step t.
            let mut commits = seen.commits.iter();
            let first = commits.find(|(version, _)| of_it(&Step(version.0.saturating_sub(1))));
            first.map(|(_, at)| ms(seen.started, *at))
        });
        let committed: Vec<f64> = committed.collect();
        let steps = seen.iter().flat_map(|seen| seen.commits.windows(2));
        let steps: Vec<f64> = steps.map(|two| ms(two[0].1, two[1].1)).collect();
        let summary = Summary {
            joins,
            to_active: Spread::of(&to_active),
            to_contribution: Spread::of(&stored),
            to_commit: Spread::of(&committed),
            reached_ms: reached_ms.collect(),
            unseen: seen.len() - stored.len().min(committed.len()),
            step_ms: Spread::of(&steps).map(|spread| spread.p50_ms),
            steps_redone: history.superseded().len(),
        };
        summary.print(json)
    }
}

/// One worker joins, contributes, and leaves. It is asked for when this part of a step is over: who
/// joins does not know when steps begin.
fn join(run: &Bystander<'_>, moment: f64) -> Result<Seen, Exit> {
    run.settle(run.workers, QUIET_STEPS)?;
    let before = run.next_step()?;
    let begun = run.next_step()?;
    let asked = begun + (begun - before).mul_f64(moment);
    run.until(|_| Instant::now() >= asked)?;
    let before = run.heard().started.len();
    run.client
        .post("scale", &json!({ "workers": run.workers + 1 }))?;
    let mut seen: Option<Seen> = None;
    let mut commits: Vec<(Step, Instant)> = Vec::new();
    loop {
        let status = run.until(|_| true)?;
        let (now, step) = (Instant::now(), status.job.step);
        if commits.last().is_none_or(|(last, _)| *last < step) {
            commits.push((step, now));
        }
        if seen.is_none()
            && let Some((pid, started)) = run.heard().started.get(before).copied()
        {
            let own = format!(":{pid}");
            let mut members = status.job.workers.iter();
            let joined = members.find(|m| m.name.ends_with(&own) && m.partitions > 0);
            seen = joined.map(|member| Seen {
                started,
                active: now,
                incarnation: member.incarnation,
                pid,
                commits: Vec::new(),
            });
        }
        let watched = |seen: &Seen| {
            let since = commits.iter().filter(|(_, at)| *at > seen.active);
            since.count() as u64 > WATCHED_STEPS
        };
        if let Some(mut done) = seen.take_if(|seen| watched(seen)) {
            done.commits = commits;
            run.client
                .post("scale", &json!({ "workers": run.workers }))?;
            run.until(|status| active(status) == run.workers)?;
            return Ok(done);
        }
    }
}

impl Summary {
    fn print(&self, json: bool) -> Result<(), Exit> {
        if json {
            return print::json(self);
        }
        let spread = |spread: Option<Spread>| spread.map_or_else(|| "-".into(), |s| s.to_string());
        print::progress(&format!(
            "{} joins of a worker to {WORKERS}, 24.9 million parameters (100 MB)",
            self.joins
        ));
        print::progress(&format!(
            "start to leases        {}",
            spread(self.to_active)
        ));
        print::progress(&format!(
            "start to contribution  {} (stored by the shard)",
            spread(self.to_contribution)
        ));
        print::progress(&format!(
            "start to commit        {} (of the step that it is part of)",
            spread(self.to_commit)
        ));
        let reached = self.reached_ms.iter();
        let reached: Vec<String> = reached
            .map(|(word, ms)| format!("{word} {ms:.0}"))
            .collect();
        print::progress(&format!(
            "of its own, in ms      {} (medians)",
            reached.join(", ")
        ));
        if self.unseen > 0 {
            print::progress(&format!("not seen               {}", self.unseen));
        }
        if let Some(step_ms) = self.step_ms {
            print::progress(&format!("step meanwhile         {step_ms:.0} ms (median)"));
        }
        print::progress(&format!("steps redone           {}", self.steps_redone));
        Ok(())
    }
}
