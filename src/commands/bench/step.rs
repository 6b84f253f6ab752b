//! `resilin bench step`: the cost of elasticity. Rounds of the serial reference, one worker and two
//! workers, one after the other, so that a disturbance of the machine hits both sides of a ratio.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use resilin_actors::Exit;
use resilin_actors::supervisor::Happening;
use resilin_core::Step as StepNumber;
use resilin_core::job::Document;
use resilin_learn::reference::Reference;
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;
use serde::Serialize;

use super::lab::Lab;
use super::outside::Outside;
use crate::figures::median;
use crate::print;

const BATCH: u64 = 512;
/// Steps of one measured run.
const STEPS: u64 = 160;
/// Steps before the measurement: caches, pages and leases settle.
const SETTLE: u64 = 20;

const JOB: &str = r#"
[run]
name = "bench-step"
steps = 160
batch = 512
partitions = 8
evaluate_every = 0

[cluster]
compute_threads = 1

[checkpoint]
every_seconds = 0

[model]
name = "mlp"
hidden = [512, 256]

[optimizer]
name = "momentum"
learning_rate = 0.01
"#;

/// The measurement.
#[derive(Debug, clap::Args)]
pub(super) struct Step {
    /// Rounds of reference, one worker and two workers, after one that is not counted
    #[arg(long, value_name = "N", default_value = "11")]
    rounds: NonZeroU32,
    /// Measure in turn with this program, such as "python bench/outside/ddp.py"
    #[arg(long, value_name = "COMMAND")]
    outside: Option<String>,
}

/// Samples a second in one round.
#[derive(Clone, Copy, Debug, Serialize)]
struct Round {
    reference: f64,
    one_worker: f64,
    two_workers: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    outside: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Summary {
    rounds: Vec<Round>,
    one_of_reference: f64,
    two_of_one: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    two_of_outside: Option<f64>,
}

impl Step {
    pub(super) fn run(&self, registry: &Registry, json: bool) -> Result<(), Exit> {
        let lab = Lab::new(JOB)?;
        let text = std::fs::read_to_string(lab.path("job.toml"))
            .map_err(|error| Exit::Fault(error.to_string()))?;
        let document = Document::parse(&text).map_err(|error| Exit::Usage(error.to_string()))?;
        let task = registry.task(document, Some(lab.root()));
        let task = Arc::new(task.map_err(|error| Exit::Usage(error.to_string()))?);
        if !json {
            print::progress(&format!(
                "MLP 784-512-256-10, batch {BATCH}, 8 partitions, momentum; samples/s"
            ));
        }
        let outside = self.outside.as_deref().map(Outside::start);
        let mut outside = outside.transpose()?;
        if let (Some(outside), false) = (&outside, json) {
            print::progress(&format!("beside {}", outside.about));
        }
        let mut rounds = Vec::new();
        for number in 0..=self.rounds.get() {
            let round = Round {
                reference: reference(&task)?,
                one_worker: workers(&lab, 1)?,
                two_workers: workers(&lab, 2)?,
                outside: outside.as_mut().map(others).transpose()?,
            };
            // The first round meets fresh memory and cold files.
            if number > 0 {
                rounds.push(round);
            }
            if !json {
                let outside = round.outside.map(|rate| format!("  outside {rate:7.0}"));
                print::progress(&format!(
                    "round {number:2}  reference {:7.0}  one worker {:7.0}  two workers {:7.0}{}",
                    round.reference,
                    round.one_worker,
                    round.two_workers,
                    outside.unwrap_or_default()
                ));
            }
        }
        report(rounds, json)
    }
}

fn report(rounds: Vec<Round>, json: bool) -> Result<(), Exit> {
    let ratios = |ratio: fn(&Round) -> f64| median(&rounds.iter().map(ratio).collect::<Vec<_>>());
    let one_of_reference = ratios(|round| round.one_worker / round.reference);
    let two_of_one = ratios(|round| round.two_workers / round.one_worker);
    let of_outside: Option<Vec<f64>> = rounds
        .iter()
        .map(|round| round.outside.map(|outside| round.two_workers / outside))
        .collect();
    let two_of_outside = of_outside.map(|ratios| median(&ratios));
    if json {
        return print::json(&Summary {
            rounds,
            one_of_reference,
            two_of_one,
            two_of_outside,
        });
    }
    print::progress(&format!("medians of {} ratios:", rounds.len()));
    print::progress(&format!(
        "  one worker over the reference  {one_of_reference:.3}"
    ));
    print::progress(&format!("  two workers over one           {two_of_one:.3}"));
    if let Some(ratio) = two_of_outside {
        print::progress(&format!("  two workers over the outside   {ratio:.3}"));
    }
    Ok(())
}

/// As many steps of the other program as of a measured run.
fn others(outside: &mut Outside) -> Result<f64, Exit> {
    let steps = u32::try_from(STEPS - SETTLE).expect("a run is short");
    let took = outside.steps("mlp-512", steps)?;
    Ok((u64::from(steps) * BATCH) as f64 / took.wall_s)
}

/// The serial reference in this process.
fn reference(task: &Arc<Task>) -> Result<f64, Exit> {
    let mut run = Reference::new(task);
    let mut begun = Instant::now();
    for step in 0..STEPS {
        if step == SETTLE {
            begun = Instant::now();
        }
        run.step(StepNumber(step))
            .map_err(|error| Exit::Fault(error.to_string()))?;
    }
    Ok(((STEPS - SETTLE) * BATCH) as f64 / begun.elapsed().as_secs_f64())
}

/// A whole run, measured between the first and the last look at it once it has settled. A look
/// falls anywhere within a step at both ends, so its error has no side.
fn workers(lab: &Lab, count: u32) -> Result<f64, Exit> {
    let mut looks: Vec<(Instant, u64)> = Vec::new();
    let ended = lab.train(count, |happening| {
        if let Happening::Status(status) = happening {
            let step = status.job.step.0;
            let active = status.job.workers.len() == count as usize;
            if active && (SETTLE..STEPS).contains(&step) {
                looks.push((Instant::now(), step));
            }
        }
    })?;
    let (Some((begun, first)), Some((over, last))) = (looks.first(), looks.last()) else {
        return Err(ended.exit);
    };
    if first == last {
        return Err(Exit::Fault("the run was too short to be measured".into()));
    }
    Ok(((last - first) * BATCH) as f64 / over.duration_since(*begun).as_secs_f64())
}
