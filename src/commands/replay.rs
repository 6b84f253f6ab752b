//! `resilin replay`: one step of a run again, in this process, from the nearest checkpoint, and its
//! bits compared with the ledger's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resilin_actors::Exit;
use resilin_checkpoint::{Depth, History, Plan, RealFiles, Stored, checkpoints, open_ledger};
use resilin_core::job::Document;
use resilin_core::ledger::{first_difference, marks};
use resilin_core::{PartitionId, Step};
use resilin_learn::kernel::hex;
use resilin_learn::reference::Reference;
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;
use serde::Serialize;

use super::audit::{PartOf, recorded};
use super::reference::exit;
use crate::client::STATE;
use crate::job_file::JobArgs;
use crate::{print, runs};

/// Make one step of a run again from the nearest checkpoint, and compare the bits
#[derive(Debug, clap::Args)]
pub(crate) struct Replay {
    #[command(flatten)]
    job: JobArgs,
    /// The step: it makes the weights of the step after it
    #[arg(long, value_name = "N")]
    step: u64,
    /// Show this partition's part of the step too: digest, loss, rows, who sent it
    #[arg(long, value_name = "P")]
    partition: Option<u32>,
    /// Name of the run or of its directory, instead of a job file
    #[arg(long, value_name = "NAME", conflicts_with_all = ["job", "seed"])]
    run: Option<String>,
    /// State directory
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A chain line, made again.
#[derive(Serialize)]
struct Compared {
    /// The step of the weights.
    line: Step,
    /// As it came out now.
    chain: String,
    /// As it was written down.
    ledger: String,
    equal: bool,
}

/// One partition's part.
#[derive(Serialize)]
struct Leaf {
    #[serde(flatten)]
    part: PartOf,
    gradient_blake3: String,
    samples: u64,
    loss: f64,
}

/// What came out.
#[derive(Serialize)]
struct Outcome {
    run: String,
    step: Step,
    /// The step whose weights the replay began with.
    from: Step,
    checkpoint: Option<PathBuf>,
    equal: bool,
    lines: Vec<Compared>,
    /// The first blocks that differ.
    blocks: Option<std::ops::Range<usize>>,
    leaf: Option<Leaf>,
}

impl Replay {
    pub(crate) fn run(&self, registry: &Registry) -> Result<(), Exit> {
        let (dir, given) = self.directory(registry)?;
        let (history, plan) = open_ledger(&RealFiles, &dir)?;
        let step = Step(self.step);
        recorded(&history, step)?;
        if let Some(partition) = self.partition {
            self.check(&plan, step, PartitionId(partition))?;
        }
        let task = match given {
            Some(task) => task,
            None => {
                let document = Document::received(&plan.job.toml());
                let document = document.map_err(|error| self.job.refused(&error))?;
                self.job.task(document, registry)?
            }
        };
        let outcome = replay(&task, &dir, &history, &plan, step, self.partition)?;
        if self.json {
            print::json(&outcome)?;
        } else {
            print::line(&outcome.lines().join("\n"))?;
        }
        outcome.verdict()
    }

    /// The run's directory, and the task if a job file names it.
    fn directory(&self, registry: &Registry) -> Result<(PathBuf, Option<Arc<Task>>), Exit> {
        if self.job.job.is_none() && self.job.seed.is_none() {
            return Ok((runs::directory(&self.state, self.run.as_deref())?, None));
        }
        let task = self.job.task(self.job.document()?, registry)?;
        let name = format!("{}-{}", task.job.run.name, task.effective.digest8());
        Ok((runs::directory(&self.state, Some(&name))?, Some(task)))
    }

    fn check(&self, plan: &Plan, step: Step, partition: PartitionId) -> Result<(), Exit> {
        if plan.sampling.with_samples(step).contains(partition) {
            return Ok(());
        }
        Err(Exit::Usage(match plan.sampling.partitions() {
            count if partition.0 >= count => {
                format!("the run has partitions 0 to {}, not {partition}", count - 1)
            }
            _ => format!("partition {partition} has no samples at step {step}"),
        }))
    }
}

fn replay(
    task: &Arc<Task>,
    dir: &Path,
    history: &History,
    plan: &Plan,
    step: Step,
    partition: Option<u32>,
) -> Result<Outcome, Exit> {
    let (mut reference, checkpoint) = start(task, dir, step)?;
    let mut outcome = Outcome {
        run: runs::label(dir),
        step,
        from: reference.open_step(),
        checkpoint,
        equal: true,
        lines: Vec::new(),
        blocks: None,
        leaf: None,
    };
    outcome.compare(&reference, history);
    while reference.open_step() <= step {
        let open = reference.open_step();
        let wanted = partition.filter(|_| open == step);
        if let Some(partition) = wanted.map(PartitionId) {
            outcome.leaf = Some(leaf(&mut reference, history, plan, partition)?);
        }
        reference.step(open).map_err(exit)?;
        outcome.compare(&reference, history);
    }
    Ok(outcome)
}

/// The run at its nearest good checkpoint, or at its beginning.
fn start(task: &Arc<Task>, dir: &Path, step: Step) -> Result<(Reference, Option<PathBuf>), Exit> {
    let mut damaged = Vec::new();
    for stored in checkpoints(&RealFiles, dir, Depth::Lengths)?.iter().rev() {
        let manifest = match &stored.manifest {
            Ok(manifest) if manifest.step <= step => manifest,
            Ok(_) | Err(_) => continue,
        };
        if manifest.layout != *task.layout {
            return Err(Exit::Refused(
                "the checkpoints are of another model: use the program that made the run".into(),
            ));
        }
        check_rows(task, &manifest.data)?;
        match restore(task, stored, manifest.step) {
            Ok(reference) => return Ok((reference, Some(stored.path.clone()))),
            Err(error) => damaged.push(error),
        }
    }
    if let Some(error) = damaged.first() {
        print::log(&format!("going back further: {error}"));
    }
    Ok((Reference::new(task), None))
}

fn check_rows(task: &Task, stored: &[resilin_learn::dataset::Manifest]) -> Result<(), Exit> {
    let stored = stored.first().map(|rows| rows.digest.as_str());
    let here = task.split.train.manifest().digest.as_str();
    if stored == Some(here) {
        return Ok(());
    }
    Err(Exit::Refused(format!(
        "the run was trained on other rows (digest {}) than are here ({here}); name their directory with --data",
        stored.unwrap_or("unknown")
    )))
}

fn restore(task: &Arc<Task>, stored: &Stored, step: Step) -> Result<Reference, Exit> {
    let tensors = stored.load(&RealFiles)?;
    Reference::restore(task, step, |name, out| {
        let found = tensors.iter().find(|(stored, _)| stored == name);
        let lacks = || Exit::Damaged(format!("{} has no tensor {name}", stored.path.display()));
        out.copy_from_slice(&found.ok_or_else(lacks)?.1);
        Ok(())
    })
}

fn leaf(
    reference: &mut Reference,
    history: &History,
    plan: &Plan,
    partition: PartitionId,
) -> Result<Leaf, Exit> {
    let step = reference.open_step();
    let order = plan.sampling.order(plan.sampling.position(step).epoch);
    let part = PartOf::new(recorded(history, step)?, plan, &order, partition);
    let made = reference.leaf(partition);
    let (outcome, digest) = made.map_err(|error| Exit::Fault(error.to_string()))?;
    Ok(Leaf {
        part,
        gradient_blake3: hex(&digest),
        samples: outcome.samples,
        loss: outcome.loss_sum / outcome.weight,
    })
}

impl Outcome {
    /// Compares the line of the newest weights.
    fn compare(&mut self, reference: &Reference, history: &History) {
        let line = reference.open_step();
        let Some(ledger) = history.line_of(line) else {
            return;
        };
        let chain = reference.chain();
        let equal = chain == ledger;
        if !equal && self.equal {
            let ours = marks(reference.digests());
            let before = line.0.checked_sub(1).map(Step);
            let record = before.and_then(|step| history.step(step));
            let blocks = reference.digests().len();
            self.blocks = record.and_then(|r| first_difference(&ours, &r.marks, blocks));
        }
        self.equal &= equal;
        self.lines.push(Compared {
            line,
            chain: hex(&chain),
            ledger: hex(&ledger),
            equal,
        });
    }

    fn lines(&self) -> Vec<String> {
        let from = match &self.checkpoint {
            Some(path) => format!("checkpoint {}", path.display()),
            None => "the initial weights".into(),
        };
        let mut lines = vec![
            format!("run          {}", self.run),
            format!(
                "replayed     steps {} to {} from {from}",
                self.from, self.step
            ),
        ];
        let differing = self.lines.iter().find(|line| !line.equal);
        lines.push(match differing {
            None => format!("lines        {} compared, all equal", self.lines.len()),
            Some(Compared {
                line,
                chain,
                ledger,
                ..
            }) => {
                format!("differs      line {line}: {chain} here, {ledger} in the ledger")
            }
        });
        if let Some(leaf) = &self.leaf {
            lines.push(format!("gradient     blake3 {}", leaf.gradient_blake3));
            lines.push(format!(
                "loss         {:.6} over {} samples",
                leaf.loss, leaf.samples
            ));
            lines.push(leaf.part.line());
        }
        lines
    }

    fn verdict(&self) -> Result<(), Exit> {
        let Some(differing) = self.lines.iter().find(|line| !line.equal) else {
            return Ok(());
        };
        let at = match differing.line {
            Step(0) => "the initial weights differ".into(),
            line if line == self.from => format!("the weights of checkpoint {line} differ"),
            Step(line) => format!("step {} differs", line - 1),
        };
        let blocks = self.blocks.as_ref().map_or_else(String::new, |blocks| {
            let (first, last) = (blocks.start, blocks.end - 1);
            if first == last {
                format!(", block {first} first")
            } else {
                format!(", blocks {first} to {last} first")
            }
        });
        Err(Exit::Fault(format!("replay of {}: {at}{blocks}", self.run)))
    }
}
