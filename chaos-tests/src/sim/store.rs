//! A coordinator's hold on the durable state: the real store, used as the program's store actor
//! uses it. What it says is known to others only when the call would have ended.

use std::collections::BTreeMap;

use resilin_checkpoint::{
    Facts, Result, Run, RunIdentity, Save, Set, SliceImage, Start, StateDir, StoreError,
};
use resilin_core::ledger::{Members, Record};
use resilin_core::machine::Rules;
use resilin_core::machine::job::Metrics;
use resilin_core::{MapNumber, SliceId, Step, Timeline};
use resilin_learn::kernel::{BlockHasher, Digest, PinnedSlice, WEIGHTS, chain_line};
use resilin_learn::task::Task;

use super::drive::{Drive, lines_to};
use crate::oracle::Oracle;

/// Whole tensors by name.
pub(super) type Tensors = BTreeMap<String, Vec<f32>>;

/// What a start finds.
pub(super) struct Found {
    pub(super) store: Store,
    pub(super) reign: u64,
    pub(super) timeline: Timeline,
    pub(super) base: Step,
    /// Of the newest checkpoint that can be read.
    pub(super) tensors: Option<Tensors>,
    /// Newer checkpoints that cannot be.
    pub(super) skipped: usize,
    /// Versions before this one have their chain lines.
    pub(super) lines: Step,
    pub(super) superseded: BTreeMap<Step, Digest>,
    pub(super) metrics: BTreeMap<Step, Metrics>,
    pub(super) members: Members,
    /// Whether the run has ended and been told of.
    pub(super) finished: bool,
}

/// One run's state, open.
pub(super) struct Store {
    /// Keeps the state directory.
    _state: StateDir,
    run: Run,
    timeline: Timeline,
    map: MapNumber,
    save: Option<Writing>,
    /// Records that could not be written yet.
    backlog: Vec<Record>,
    /// Versions before this one have their chain lines written.
    pub(super) lines: Step,
}

/// A checkpoint being written.
struct Writing {
    step: Step,
    save: Save,
    digests: BTreeMap<SliceId, Vec<Digest>>,
}

/// A slice's part of a cut.
#[derive(Debug)]
pub(super) struct Part {
    slice: SliceId,
    step: Step,
    tensors: Vec<(&'static str, Vec<f32>)>,
    digests: Vec<Digest>,
}

impl Part {
    pub(super) fn new(slice: SliceId, pinned: &PinnedSlice, digests: &[Digest]) -> Self {
        let tensors = pinned.tensors();
        Self {
            slice,
            step: pinned.version(),
            tensors: tensors.map(|(name, flat)| (name, flat.to_vec())).collect(),
            digests: digests.to_vec(),
        }
    }

    /// Other weights under the same label, for a plant.
    pub(super) fn replace_weights(&mut self, weights: &[f32]) {
        for (_, flat) in self.tensors.iter_mut().filter(|(name, _)| *name == WEIGHTS) {
            flat.copy_from_slice(weights);
        }
    }

    pub(super) fn place(&self) -> (SliceId, Step) {
        (self.slice, self.step)
    }
}

/// Opens the state and the run in it, and begins a branch.
pub(super) fn open(
    drive: &mut Drive,
    oracle: &Oracle,
    rules: &Rules,
    unix_seconds: u64,
) -> Result<Found> {
    let task = &oracle.task;
    let state = drive.state()?;
    let reign = state.next_reign(unix_seconds)?;
    let identity = RunIdentity {
        name: task.job.run.name.clone(),
        job: task.effective.clone(),
    };
    let run = state.open_run(identity, Start::Resume, unix_seconds)?.run;
    let newest = run.newest()?;
    let skipped = newest.skipped.len();
    let base = newest.restored.as_ref().map(|r| r.manifest.step);
    let loaded = newest.restored.map(|r| r.load(0..task.layout.blocks()));
    let tensors = loaded.transpose()?.map(Tensors::from_iter);
    let finished = run.record().finished.as_ref();
    let finished = finished.is_some_and(|finished| finished.report.is_some());
    let timeline = run.next_timeline()?;
    begin_branch(&run, reign, timeline, base, oracle)?;
    let history = run.history()?;
    let base = base.unwrap_or_default();
    let lines = match history.chain() {
        Ok(lines) => lines_to(&lines),
        Err(_) => Step(0),
    };
    let metrics = history.evaluations().map(|scored| {
        let metrics = Metrics {
            version: scored.step,
            epoch: scored.epoch,
            rows: scored.rows,
            correct: scored.correct,
            loss_sum: scored.loss_sum,
        };
        (scored.step, metrics)
    });
    Ok(Found {
        reign,
        timeline,
        base,
        tensors,
        skipped,
        lines,
        superseded: history.lines_after(base),
        metrics: metrics.collect(),
        members: history.members(),
        finished,
        store: Store {
            _state: state,
            run,
            timeline,
            map: drive.map_for(rules),
            save: None,
            backlog: Vec::new(),
            lines,
        },
    })
}

fn begin_branch(
    run: &Run,
    reign: u64,
    timeline: Timeline,
    base: Option<Step>,
    oracle: &Oracle,
) -> Result<()> {
    let begun = Record::Rollback {
        timeline,
        base: base.unwrap_or_default(),
    };
    let mut records = vec![Record::Start { reign }, begun];
    if base.is_none_or(|base| base == Step(0)) {
        let initial = oracle.task.initial_weights();
        let chain = chain_line(&digests(&initial, oracle));
        records.push(Record::Initial { timeline, chain });
    }
    run.append(&records)?;
    run.sync_ledger().map(drop)
}

impl Store {
    pub(super) fn map(&self) -> MapNumber {
        self.map
    }

    /// Writes a slice's part of a cut.
    pub(super) fn write(&mut self, part: &Part, task: &Task, rules: &Rules) -> Result<()> {
        let step = part.step;
        if self.save.as_ref().is_some_and(|open| open.step != step) {
            self.save = None;
        }
        if self.save.is_none() {
            let set = Set {
                step,
                timeline: self.timeline,
                map: self.map,
                slices: rules.slices,
                layout: (*task.layout).clone(),
                tensors: 1 + task.rule.optimizer.moments().len(),
            };
            self.save = Some(Writing {
                step,
                save: self.run.begin(set)?,
                digests: BTreeMap::new(),
            });
        }
        let open = self.save.as_mut().expect("just begun");
        if open.digests.contains_key(&part.slice) {
            return Ok(());
        }
        let tensors: Vec<(&str, &[f32])> = part
            .tensors
            .iter()
            .map(|(name, flat)| (*name, flat.as_slice()))
            .collect();
        open.save.write_slice(&SliceImage {
            slice: part.slice,
            blocks: rules.slices.range(part.slice),
            tensors: &tensors,
        })?;
        open.digests.insert(part.slice, part.digests.clone());
        Ok(())
    }

    /// Ledger, manifest, commit record, in this order (PROTOCOL 26); the digests of all blocks.
    pub(super) fn commit(&mut self, step: Step, task: &Task, rules: &Rules) -> Result<Vec<Digest>> {
        self.write_ledger()?;
        let open = self.save.take().filter(|open| open.step == step);
        let lacks = || StoreError::Refused(format!("the checkpoint of step {step} was given up"));
        let Writing { save, digests, .. } = open.ok_or_else(lacks)?;
        let blocks: Vec<Digest> = digests.into_values().flatten().collect();
        let rows = std::iter::once(&task.split.train).chain(&task.split.test);
        let facts = Facts {
            chain: chain_line(&blocks),
            data: rows.map(|rows| rows.manifest().clone()).collect(),
            finished: step == rules.last(),
        };
        save.seal(facts)?.commit()?;
        // A directory that cannot be removed is only a warning.
        let _ = self.run.prune(task.job.checkpoint.keep);
        Ok(blocks)
    }

    pub(super) fn abandon(&mut self, step: Step) {
        if self.save.as_ref().is_some_and(|open| open.step == step) {
            self.save = None;
        }
    }

    pub(super) fn append(&mut self, record: Record) {
        self.backlog.push(record);
        // A commit needs it written and fails with the same words.
        let _ = self.write_ledger();
    }

    /// Writes down that the run is over.
    pub(super) fn finish(&mut self, unix_seconds: u64) -> Result<()> {
        self.write_ledger()?;
        let report = serde_json::json!({ "outcome": "finished" });
        self.run.finish(unix_seconds, report)
    }

    /// Writes the end of the ledger.
    pub(super) fn write_ledger(&mut self) -> Result<()> {
        if self.backlog.is_empty() {
            return Ok(());
        }
        self.run.append(&self.backlog)?;
        for record in self.backlog.drain(..) {
            if let Record::Step(step) = record
                && step.step.next() == self.lines
            {
                self.lines = self.lines.next();
            }
        }
        Ok(())
    }
}

/// Digests of all blocks of a version.
pub(super) fn digests(weights: &[f32], oracle: &Oracle) -> Vec<Digest> {
    let layout = &oracle.task.layout;
    let mut hasher = BlockHasher::default();
    (0..layout.blocks())
        .map(|block| hasher.digest(&weights[layout.values(block..block + 1)]))
        .collect()
}

/// Digests of all blocks of a checkpoint's weights.
pub(super) fn blocks_of(tensors: Option<&Tensors>, oracle: &Oracle) -> Vec<Digest> {
    match tensors {
        Some(tensors) => digests(&tensors[WEIGHTS], oracle),
        None => digests(&oracle.task.initial_weights(), oracle),
    }
}
