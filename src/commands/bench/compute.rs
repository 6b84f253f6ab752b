//! `resilin bench compute`: gradient steps a second on one thread, model by model, beside another
//! program that makes the same steps.

mod cases;
mod engine;

use std::num::NonZeroU32;

use resilin_actors::Exit;
use resilin_learn::registry::Registry;
use serde::Serialize;

use self::cases::{CASES, Case, Rows};
use self::engine::Engine;
use super::outside::{Outside, Took};
use crate::figures::median;
use crate::print;

/// The measurement.
#[derive(Debug, clap::Args)]
pub(super) struct Compute {
    /// Pairs of measurements of each case, after one that is not counted
    #[arg(long, value_name = "N", default_value = "11")]
    pairs: NonZeroU32,
    /// Only this case: mlp-64, mlp-512, cnn-64 or transformer-8
    #[arg(long, value_name = "CASE")]
    case: Option<String>,
    /// Measure in turn with this program, such as "python bench/outside/compute.py"
    #[arg(long, value_name = "COMMAND")]
    outside: Option<String>,
}

/// One case, each side in turn.
#[derive(Clone, Copy, Debug, Serialize)]
struct Round {
    /// The batch as one partition.
    whole: Took,
    /// The batch cut into partitions.
    parts: Took,
    #[serde(skip_serializing_if = "Option::is_none")]
    outside: Option<Took>,
}

#[derive(Debug, Serialize)]
struct Summary {
    case: &'static str,
    /// With one partition, by time of the processor.
    samples_per_s: f64,
    partitions: u32,
    /// Time of the processor with so many partitions over that with one.
    parts_of_whole: f64,
    /// The other side's time over this one's, by time of the processor and by the clock.
    over_outside_cpu: Option<f64>,
    over_outside_wall: Option<f64>,
    steps: u32,
    rounds: Vec<Round>,
}

impl Compute {
    pub(super) fn run(&self, registry: &Registry, json: bool) -> Result<(), Exit> {
        let wanted = |case: &&Case| self.case.as_ref().is_none_or(|name| name == case.name);
        let cases: Vec<&Case> = CASES.iter().filter(wanted).collect();
        if cases.is_empty() {
            let names: Vec<_> = CASES.iter().map(|case| case.name).collect();
            return Err(Exit::Usage(format!(
                "no case has this name; they are {}",
                names.join(", ")
            )));
        }
        let rows = Rows::new()?;
        let outside = self.outside.as_deref().map(Outside::start);
        let mut outside = outside.transpose()?;
        if let (Some(outside), false) = (&outside, json) {
            print::progress(&format!("beside {}", outside.about));
        }
        let mut summaries = Vec::new();
        for case in cases {
            let summary = self.measure(registry, &rows, case, outside.as_mut())?;
            if !json {
                show(case, &summary);
            }
            summaries.push(summary);
        }
        if json {
            return print::json(&summaries);
        }
        Ok(())
    }

    fn measure(
        &self,
        registry: &Registry,
        rows: &Rows,
        case: &Case,
        mut outside: Option<&mut Outside>,
    ) -> Result<Summary, Exit> {
        let mut whole = Engine::new(&case.task(registry, rows, 1)?);
        let mut parts = Engine::new(&case.task(registry, rows, case.parts)?);
        let mut rounds = Vec::new();
        for number in 0..=self.pairs.get() {
            let outside = outside.as_mut();
            let round = Round {
                whole: whole.steps(case.steps)?,
                outside: outside
                    .map(|outside| outside.steps(case.name, case.steps))
                    .transpose()?,
                parts: parts.steps(case.steps)?,
            };
            // The first meets fresh memory.
            if number > 0 {
                rounds.push(round);
            }
        }
        Ok(summary(case, rounds))
    }
}

fn summary(case: &Case, rounds: Vec<Round>) -> Summary {
    let of = |figure: &dyn Fn(&Round) -> Option<f64>| {
        let figures: Option<Vec<f64>> = rounds.iter().map(figure).collect();
        figures.map(|figures| median(&figures))
    };
    let cpu = of(&|round| Some(round.whole.cpu_s)).expect("every round has it");
    Summary {
        case: case.name,
        samples_per_s: f64::from(case.batch * case.steps) / cpu,
        partitions: case.parts,
        parts_of_whole: of(&|round| Some(round.parts.cpu_s / round.whole.cpu_s))
            .expect("every round has both"),
        over_outside_cpu: of(&|round| Some(round.outside?.cpu_s / round.whole.cpu_s)),
        over_outside_wall: of(&|round| Some(round.outside?.wall_s / round.whole.wall_s)),
        steps: case.steps,
        rounds,
    }
}

fn show(case: &Case, summary: &Summary) {
    let Summary {
        samples_per_s,
        parts_of_whole,
        over_outside_cpu,
        over_outside_wall,
        ..
    } = summary;
    print::progress(&format!("{}: {}", case.name, case.about));
    print::progress(&format!(
        "  {samples_per_s:9.0} samples per second of the processor; {} partitions take {parts_of_whole:.3} of the time of one",
        case.parts
    ));
    if let (Some(cpu), Some(wall)) = (over_outside_cpu, over_outside_wall) {
        print::progress(&format!(
            "  {cpu:.3} times the samples of the other program by time of the processor, {wall:.3} by the clock; medians of {} pairs",
            summary.rounds.len()
        ));
    }
}
