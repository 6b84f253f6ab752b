//! `resilin bench storm`: one run under real kills of workers for as long as is asked for, then the
//! serial reference up to the same step, and every version of both compared. By default 1,000 kills
//! at one a second: 17 minutes and as long again for the reference.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resilin_actors::Exit;
use resilin_actors::supervisor::{Ended, Role};
use resilin_chaos::process::draw::{Wishes, draw};
use resilin_chaos::process::plan::{Kind, Planned, Role as Target};
use resilin_checkpoint::{History, LEDGER, RealFiles};
use resilin_core::job::Document;
use resilin_core::{Span, Step};
use resilin_learn::reference::Reference;
use resilin_learn::registry::Registry;
use serde::Serialize;

use super::bystander::{Bystander, beside};
use super::lab::Lab;
use super::recovery::JOB;
use crate::commands::duration::span;
use crate::figures::Spread;
use crate::print;

/// Rows of one step of the job.
const BATCH: u64 = 96;
/// Steps before anything is measured.
const SETTLE: u64 = 60;
/// From one line of progress to the next.
const PROGRESS: Duration = Duration::from_secs(10);

/// The measurement.
#[derive(Debug, clap::Args)]
pub(super) struct Storm {
    /// SIGKILLs of workers
    #[arg(long, value_name = "N", default_value = "1000")]
    kills: NonZeroU32,
    /// Mean time from kill to kill
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = span)]
    gap: Span,
    /// Workers that are kept running
    #[arg(long, value_name = "N", default_value = "4", value_parser = clap::value_parser!(u32).range(1..=64))]
    workers: u32,
    /// Quiet time before the kills, which they are held against
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = span)]
    quiet: Span,
    /// Seed of the moments and of the victims
    #[arg(long, value_name = "S", default_value = "1")]
    seed: u64,
}

/// What was seen of the run.
struct Seen {
    kills: u32,
    storm_s: f64,
    recovery_ms: Vec<f64>,
    samples_per_s: f64,
    quiet_samples_per_s: f64,
    exited: usize,
}

#[derive(Debug, Serialize)]
struct Summary {
    kills: u32,
    mean_gap_s: f64,
    steps: usize,
    /// Whether every version has the weights of the serial reference.
    equal: bool,
    steps_redone: usize,
    /// Workers that ended by themselves.
    workers_exited: usize,
    /// From a kill to the next committed step.
    recovery: Option<Spread>,
    /// Committed samples a second over those of the quiet time.
    goodput: f64,
    samples_per_s: f64,
    quiet_samples_per_s: f64,
}

impl Storm {
    pub(super) fn run(&self, registry: &Registry, json: bool) -> Result<(), Exit> {
        let lab = Lab::new(JOB)?;
        let (seen, ended) = beside(&lab, self.workers, |run| self.measure(run, json))?;
        let (chain, steps_redone) = ledger(&ended)?;
        if !json {
            print::progress(&format!(
                "the serial reference of the same {} steps",
                chain.len() - 1
            ));
        }
        let summary = Summary {
            kills: seen.kills,
            mean_gap_s: seen.storm_s / f64::from(seen.kills),
            steps: chain.len() - 1,
            equal: is_reference(&lab, registry, &chain)?,
            steps_redone,
            workers_exited: seen.exited,
            recovery: Spread::of(&seen.recovery_ms),
            goodput: seen.samples_per_s / seen.quiet_samples_per_s,
            samples_per_s: seen.samples_per_s,
            quiet_samples_per_s: seen.quiet_samples_per_s,
        };
        summary.print(json)?;
        match summary.equal {
            true => Ok(()),
            false => Err(Exit::Fault(
                "the weights differ from the reference's".into(),
            )),
        }
    }

    /// The moments and victims of all kills.
    fn kills(&self) -> Vec<Planned> {
        let mut plan = draw(&Wishes {
            seed: self.seed,
            // Twice what the mean asks for: there are never too few.
            duration: self.gap.times(2 * u64::from(self.kills.get()) + 10),
            every: self.gap,
            kinds: vec![Kind::Kill(Target::Worker)],
            lease: Span::from_millis(1000),
        });
        plan.faults.truncate(self.kills.get() as usize);
        plan.faults
    }

    fn measure(&self, run: &Bystander<'_>, json: bool) -> Result<Seen, Exit> {
        run.settle(run.workers, SETTLE)?;
        let quiet = Duration::from_nanos(self.quiet.0);
        let quiet_samples_per_s = rate(run, |begun| Ok(begun.elapsed() < quiet))?;
        let (kills, begun) = (self.kills(), Instant::now());
        let (mut killed, mut recovery_ms, mut told) = (0, Vec::new(), begun);
        let mut open: Option<(Instant, Option<Step>)> = None;
        let samples_per_s = rate_of(run, |step| {
            match open {
                Some((struck, Some(mark))) if step > mark => {
                    recovery_ms.push(struck.elapsed().as_secs_f64() * 1e3);
                    open = None;
                }
                // The first look after the kill; what it does not know is later.
                Some((struck, None)) => open = Some((struck, Some(step))),
                Some(_) | None => {}
            }
            let Some(next) = kills.get(killed) else {
                return Ok(open.is_some());
            };
            if begun.elapsed() >= Duration::from_nanos(next.at.0) {
                let living = run.children.living(Role::Worker);
                let victim = living.get(next.choice as usize % living.len().max(1));
                // Who is killed before the last kill was got over makes one recovery with it.
                if victim.is_some_and(|pid| run.children.kill(*pid)) {
                    killed += 1;
                    open = Some(
                        open.map_or_else(|| (Instant::now(), None), |(struck, _)| (struck, None)),
                    );
                }
            }
            if !json && told.elapsed() >= PROGRESS {
                told = Instant::now();
                print::progress(&format!("{killed} of {} kills, step {step}", self.kills));
            }
            Ok(true)
        })?;
        Ok(Seen {
            kills: self.kills.get(),
            storm_s: begun.elapsed().as_secs_f64(),
            recovery_ms,
            samples_per_s,
            quiet_samples_per_s,
            exited: run.heard().exited,
        })
    }
}

/// Samples a second while something holds.
fn rate(run: &Bystander<'_>, goes_on: impl Fn(Instant) -> Result<bool, Exit>) -> Result<f64, Exit> {
    let begun = Instant::now();
    rate_of(run, |_| goes_on(begun))
}

/// The same, told each step that is looked at.
fn rate_of(
    run: &Bystander<'_>,
    mut goes_on: impl FnMut(Step) -> Result<bool, Exit>,
) -> Result<f64, Exit> {
    let (begun, first) = (Instant::now(), run.until(|_| true)?.job.step);
    loop {
        let step = run.until(|_| true)?.job.step;
        if !goes_on(step)? {
            let samples = (step.0 - first.0) * BATCH;
            return Ok(samples as f64 / begun.elapsed().as_secs_f64());
        }
    }
}

/// The chain of the run, and how many lines of it were made again.
fn ledger(ended: &Ended) -> Result<(Vec<[u8; 32]>, usize), Exit> {
    let directory = ended.directory.as_ref();
    let left = || Exit::Fault("the run left no directory".into());
    let history = History::read(&RealFiles, &directory.ok_or_else(left)?.join(LEDGER))?;
    let chain = history.chain()?.into_iter().map(|(_, line)| line);
    Ok((chain.collect(), history.superseded().len()))
}

/// Whether the serial reference has the same weights at every version of the chain.
fn is_reference(lab: &Lab, registry: &Registry, chain: &[[u8; 32]]) -> Result<bool, Exit> {
    let text = std::fs::read_to_string(lab.path("job.toml"))
        .map_err(|error| Exit::Fault(error.to_string()))?;
    let document = Document::parse(&text).map_err(|error| Exit::Usage(error.to_string()))?;
    let task = registry.task(document, Some(lab.root()));
    let task = Arc::new(task.map_err(|error| Exit::Usage(error.to_string()))?);
    let mut reference = Reference::new(&task);
    if chain.len() < 2 || chain[0] != reference.chain() {
        return Ok(false);
    }
    for (step, line) in (0..).map(Step).zip(&chain[1..]) {
        let made = reference.step(step);
        let made = made.map_err(|error| Exit::Fault(error.to_string()))?;
        if made.chain != *line {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Summary {
    fn print(&self, json: bool) -> Result<(), Exit> {
        if json {
            return print::json(self);
        }
        let hash = match self.equal {
            true => format!("equal to the reference at all {} steps", self.steps),
            false => "DIFFERENT from the reference".into(),
        };
        print::progress(&format!("hash            {hash}"));
        print::progress(&format!(
            "kills           {}, one every {:.2} s",
            self.kills, self.mean_gap_s
        ));
        print::progress(&format!("steps redone    {}", self.steps_redone));
        print::progress(&format!("workers exited  {}", self.workers_exited));
        if let Some(spread) = self.recovery {
            print::progress(&format!("recovery        {spread}"));
        }
        print::progress(&format!(
            "goodput         {:.3} ({:.0} of {:.0} committed samples/s)",
            self.goodput, self.samples_per_s, self.quiet_samples_per_s
        ));
        Ok(())
    }
}
