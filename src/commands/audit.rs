//! `resilin audit`: the proof, from files alone, that a run applied every sample exactly once and
//! that its ledger and checkpoints are what they were.

use std::path::{Path, PathBuf};

use resilin_actors::Exit;
use resilin_checkpoint::{Counts, History, Plan, RealFiles, Verdict, audit, open_ledger};
use resilin_core::ledger::{Part, StepRecord};
use resilin_core::{PartitionId, Step};
use resilin_learn::kernel::hex;
use serde::Serialize;

use crate::client::STATE;
use crate::{print, runs};

/// Prove that a run applied every sample exactly once and that its ledger is whole
#[derive(Debug, clap::Args)]
pub(crate) struct Audit {
    /// Name of the run or of its directory; needed where there are several
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// State directory
    #[arg(long, value_name = "DIR", default_value = STATE)]
    state: PathBuf,
    /// Show one step instead: whose contributions, which samples
    #[arg(long, value_name = "N")]
    step: Option<u64>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl Audit {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        let dir = runs::directory(&self.state, self.run.as_deref())?;
        match self.step {
            Some(step) => self.show_step(&dir, Step(step)),
            None => self.show_verdict(&dir),
        }
    }

    fn show_verdict(&self, dir: &Path) -> Result<(), Exit> {
        let verdict = audit(&RealFiles, dir)?;
        let run = runs::label(dir);
        if self.json {
            print::json(&Shown {
                run: &run,
                verdict: &verdict,
            })?;
        } else {
            print::line(&lines(&run, &verdict).join("\n"))?;
        }
        match verdict.broken.first() {
            None => Ok(()),
            Some(first) => Err(Exit::Fault(format!(
                "audit of {run}: {first}; {} broken places in all",
                verdict.broken.len() as u64 + verdict.unnamed
            ))),
        }
    }

    fn show_step(&self, dir: &Path, step: Step) -> Result<(), Exit> {
        let (history, plan) = open_ledger(&RealFiles, dir)?;
        let record = recorded(&history, step)?;
        let step = StepOf::new(record, &plan);
        if self.json {
            return print::json(&step);
        }
        print::line(&step.lines().join("\n"))
    }
}

/// The record of a step, or what to ask for instead.
pub(crate) fn recorded(history: &History, step: Step) -> Result<&StepRecord, Exit> {
    history.step(step).ok_or_else(|| {
        let last = history.steps().last();
        Exit::Usage(match last {
            Some(last) => format!(
                "step {step} is not in the ledger, which ends with step {}",
                last.step
            ),
            None => format!("step {step} is not in the ledger, which has no step yet"),
        })
    })
}

#[derive(Serialize)]
struct Shown<'a> {
    run: &'a str,
    #[serde(flatten)]
    verdict: &'a Verdict,
}

fn lines(run: &str, verdict: &Verdict) -> Vec<String> {
    let Counts {
        records,
        torn,
        steps,
        total_steps,
        skipped,
        samples,
        whole_epochs,
        branches,
        remade,
        differing,
        checkpoints,
        damaged_checkpoints,
    } = &verdict.counts;
    let torn = if *torn { "; a torn last line" } else { "" };
    let skipped = match skipped {
        0 => String::new(),
        count => format!(", {count} skipped by policy"),
    };
    let damaged = match damaged_checkpoints {
        0 => String::new(),
        count => format!("; {count} damaged, see `resilin checkpoints verify`"),
    };
    let mut lines = vec![
        format!("run          {run}"),
        format!("ledger       {records} lines, hash chain unbroken{torn}"),
        format!("steps        {steps} of {total_steps}{skipped}"),
        format!(
            "samples      {samples} applied; {whole_epochs} epochs with every row exactly once"
        ),
        format!(
            "branches     {branches}; {remade} lines made again with the same bits, {differing} with others"
        ),
        format!("checkpoints  {checkpoints} have the ledger's chain line{damaged}"),
    ];
    lines.extend(
        verdict
            .broken
            .iter()
            .map(|why| format!("broken       {why}")),
    );
    if verdict.unnamed > 0 {
        lines.push(format!("broken       {} more places", verdict.unnamed));
    }
    let verdict = if verdict.broken.is_empty() {
        "every sample exactly once, as far as the run came"
    } else {
        "not as promised"
    };
    lines.push(format!("verdict      {verdict}"));
    lines
}

/// A step as the ledger and the sampling rule have it.
#[derive(Serialize)]
struct StepOf {
    step: Step,
    epoch: u64,
    timeline: String,
    chain: String,
    samples: u64,
    weight: f64,
    loss: Option<f64>,
    skipped: bool,
    partitions: Vec<PartOf>,
}

/// One partition of a step.
#[derive(Serialize)]
pub(crate) struct PartOf {
    partition: PartitionId,
    /// Who sent the node that it is in: advice, not proof.
    contributor: Option<String>,
    /// Row numbers in the training set, in the order of the microbatch.
    rows: Vec<u32>,
}

impl PartOf {
    /// A partition of a recorded step.
    pub(crate) fn new(
        record: &StepRecord,
        plan: &Plan,
        order: &[u32],
        partition: PartitionId,
    ) -> Self {
        let positions = plan.sampling.positions(record.step, partition);
        let within = |part: &&Part| (part.node.first()..part.node.end()).contains(&partition.0);
        let sent = record.nodes.iter().find(within);
        Self {
            partition,
            contributor: sent.map(|part| part.contributor.to_string()),
            rows: order[positions.start as usize..positions.end as usize].to_vec(),
        }
    }

    /// For people.
    pub(crate) fn line(&self) -> String {
        let by = self.contributor.as_deref().unwrap_or("nobody");
        let rows: Vec<String> = self.rows.iter().map(u32::to_string).collect();
        format!(
            "partition {:<5} by {by:<16} rows {}",
            self.partition,
            rows.join(" ")
        )
    }
}

impl StepOf {
    fn new(record: &StepRecord, plan: &Plan) -> Self {
        let sampling = &plan.sampling;
        let epoch = sampling.position(record.step).epoch;
        let order = sampling.order(epoch);
        let with_samples = sampling.with_samples(record.step);
        Self {
            step: record.step,
            epoch,
            timeline: record.timeline.to_string(),
            chain: hex(&record.chain),
            samples: record.samples,
            weight: record.weight,
            loss: (record.weight > 0.0).then(|| record.loss_sum / record.weight),
            skipped: record.skipped,
            partitions: with_samples
                .iter()
                .map(|partition| PartOf::new(record, plan, &order, partition))
                .collect(),
        }
    }

    fn lines(&self) -> Vec<String> {
        let loss = self
            .loss
            .map_or_else(|| "-".into(), |loss| format!("{loss:.6}"));
        let mut lines = vec![
            format!(
                "step         {} of epoch {}, branch {}",
                self.step,
                self.epoch + 1,
                self.timeline
            ),
            format!("samples      {}, loss {loss}", self.samples),
            format!("chain line   {} {}", self.step.next(), self.chain),
        ];
        lines.extend(self.partitions.iter().map(PartOf::line));
        lines
    }
}
