//! `resilin bench model`: what the steps of a job cost in one process, whoever wrote its model: the
//! program's own, or a command.

use std::num::NonZeroU32;
use std::time::Instant;

use resilin_actors::Exit;
use resilin_core::Step;
use resilin_learn::look::check_rows;
use resilin_learn::reference::Reference;
use resilin_learn::registry::Registry;
use resilin_learn::rehearsal::rehearse;
use serde::Serialize;

use crate::figures::Spread;
use crate::job_file::JobArgs;
use crate::print;

/// The measurement.
#[derive(Debug, clap::Args)]
pub(super) struct OwnModel {
    #[command(flatten)]
    job: JobArgs,
    /// Steps that are timed, after a fifth as many that are not
    #[arg(long, value_name = "N", default_value = "100")]
    steps: NonZeroU32,
}

#[derive(Debug, Serialize)]
struct Summary {
    model: String,
    values: usize,
    batch: u32,
    partitions: u32,
    #[serde(flatten)]
    step: Spread,
    samples_per_s: f64,
}

impl OwnModel {
    pub(super) fn run(&self, registry: &Registry, json: bool) -> Result<(), Exit> {
        let task = self.job.task(self.job.document()?, registry)?;
        let timed = u64::from(self.steps.get());
        // Caches, pages and a command's libraries settle.
        let settling = timed.div_ceil(5);
        if task.total_steps < settling + timed {
            return Err(Exit::Usage(format!(
                "the job has {} steps, and {} are to be made; give it more, or say --steps",
                task.total_steps,
                settling + timed
            )));
        }
        check_rows(&task).map_err(|error| Exit::Usage(error.to_string()))?;
        rehearse(&task)?;
        let mut run = Reference::new(&task);
        let (mut times_ms, mut samples) = (Vec::new(), 0);
        for step in 0..settling + timed {
            let begun = Instant::now();
            let made = run.step(Step(step));
            let made = made.map_err(|error| Exit::Fault(error.to_string()))?;
            if step >= settling {
                times_ms.push(begun.elapsed().as_secs_f64() * 1e3);
                samples += made.samples;
            }
        }
        let total_s = times_ms.iter().sum::<f64>() / 1e3;
        let summary = Summary {
            model: task.model_name(),
            values: task.layout.len(),
            batch: task.job.run.batch,
            partitions: task.job.run.partitions,
            step: Spread::of(&times_ms).expect("at least one step"),
            samples_per_s: samples as f64 / total_s,
        };
        summary.print(json)
    }
}

impl Summary {
    fn print(&self, json: bool) -> Result<(), Exit> {
        if json {
            return print::json(self);
        }
        print::progress(&format!(
            "{} of {} values, batch {} in {} partitions, one process",
            self.model, self.values, self.batch, self.partitions
        ));
        print::progress(&format!("step            {}", self.step));
        print::progress(&format!("samples/s       {:.0}", self.samples_per_s));
        Ok(())
    }
}
