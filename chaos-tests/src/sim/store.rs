//! A coordinator's hold on the durable state: the real store, used as the program's store actor
//! uses it. What it says is known to others only when the call would have ended.

use std::ops::Range;

use resilin_checkpoint::{
    Facts, Result, Run, RunIdentity, Save, Set, SliceImage, Start, StateDir, StoreError,
};
use resilin_core::ledger::{Members, Record};
use resilin_core::machine::Rules;
use resilin_core::machine::job::{self, Metrics, Wishes};
use resilin_core::message::{Branch, SliceView};
use resilin_core::sorted::SortedMap;
use resilin_core::{SliceId, Step};
use resilin_learn::kernel::{BlockHasher, Digest, PinnedSlice, WEIGHTS, chain_line};
use resilin_learn::task::Task;

use super::drive::{Drive, lines_to};
use super::lineage::{self, Home, Lineage};
use crate::oracle::Oracle;

/// Whole tensors by name.
pub(super) type Tensors = SortedMap<String, Vec<f32>>;

/// What a start finds.
pub(super) struct Found {
    pub(super) store: Store,
    pub(super) reign: u64,
    pub(super) lineage: Lineage,
    /// The newest version that can be read.
    pub(super) base: Step,
    /// Of the newest checkpoint that can be read.
    pub(super) tensors: Option<Tensors>,
    /// Newer checkpoints that cannot be.
    pub(super) skipped: usize,
    /// Versions before this one have their chain lines.
    pub(super) lines: Step,
    pub(super) metrics: SortedMap<Step, Metrics>,
    pub(super) members: Members,
    pub(super) wishes: Wishes,
    /// Whether the run has ended and been told of.
    pub(super) finished: bool,
}

/// One run's state, open.
pub(super) struct Store {
    /// Keeps the state directory.
    _state: StateDir,
    run: Run,
    branch: Branch,
    save: Option<Writing>,
    /// Records that could not be written yet.
    backlog: Vec<Record>,
    /// Versions before this one have their chain lines written.
    pub(super) lines: Step,
    /// The same before the newest branch, as long as that has no step of its own.
    before: Step,
}

/// A checkpoint being written.
struct Writing {
    step: Step,
    save: Save,
    digests: SortedMap<SliceId, Vec<Digest>>,
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
    /// Of tensors that came over a link.
    pub(super) fn of(
        (slice, step): (SliceId, Step),
        tensors: Vec<(&'static str, Vec<f32>)>,
        digests: Vec<Digest>,
    ) -> Self {
        Self {
            slice,
            step,
            tensors,
            digests,
        }
    }

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

/// Opens the state and the run in it, and takes up a branch.
pub(super) fn open(
    drive: &mut Drive,
    oracle: &Oracle,
    (home, shards): (Home, u16),
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
    run.append(&[Record::Start { reign }])?;
    let lineage = lineage::take_up(&run, home, shards, base, task)?;
    let history = run.history()?;
    let base = base.unwrap_or_default();
    let lines = match history.chain() {
        Ok(lines) => lines_to(&lines),
        Err(_) => Step(0),
    };
    let metrics = history.evaluations().copied();
    let metrics = metrics.map(|metrics| (metrics.version, metrics));
    Ok(Found {
        reign,
        base,
        tensors,
        skipped,
        lines,
        metrics: metrics.collect(),
        members: history.members(),
        wishes: run.wishes()?.unwrap_or_default(),
        finished,
        store: Store {
            _state: state,
            run,
            branch: lineage.branch,
            save: None,
            backlog: Vec::new(),
            lines,
            before: Step(0),
        },
        lineage,
    })
}

impl Store {
    pub(super) fn branch(&self) -> Branch {
        self.branch
    }

    /// The version whose checkpoint is being written.
    pub(super) fn writing(&self) -> Option<Step> {
        self.save.as_ref().map(|open| open.step)
    }

    /// Writes a branch down, unless the checkpoint that it begins at is damaged by now.
    pub(super) fn branch_kept(&mut self, branch: Branch, task: &Task) -> Result<job::Event> {
        if branch.base > Step(0) && self.run.at(branch.base)?.is_none() {
            let newest = self.run.newest()?.restored;
            let newest = newest.map(|found| found.manifest.step);
            return Ok(job::Event::BaseDamaged(newest));
        }
        self.keep_branch(branch, task)?;
        Ok(job::Event::BranchKept(branch.timeline))
    }

    /// The records that follow in the ledger are the branch's.
    fn keep_branch(&mut self, branch: Branch, task: &Task) -> Result<()> {
        self.run.set_branch(branch.timeline, &branch)?;
        self.save = None;
        self.branch = branch;
        // A branch without steps hides nothing from the next one.
        self.before = self.before.max(self.lines);
        self.lines = self.before.min(branch.base.next());
        self.backlog.extend(lineage::beginning(branch, task));
        // A ledger that cannot be written now has these lines first once it can.
        let _ = self.write_ledger();
        Ok(())
    }

    pub(super) fn keep_views(&self, views: Vec<SliceView>) -> Result<()> {
        let views = views.into_iter().map(|view| (view.slice, view));
        self.run.set_views(&views.collect::<SortedMap<_, _>>())
    }

    pub(super) fn keep_wishes(&self, wishes: Wishes) -> Result<()> {
        self.run.set_wishes(&wishes)
    }

    /// Tensors of blocks as they were at the base of a branch, weights first, or why there are none.
    pub(super) fn read(
        &self,
        branch: Branch,
        blocks: Range<usize>,
        task: &Task,
    ) -> std::result::Result<Vec<Vec<f32>>, String> {
        let found = self
            .run
            .at(branch.base)
            .map_err(|error| error.to_string())?;
        match found {
            Some(restored) => {
                let loaded = restored.load(blocks).map_err(|error| error.to_string())?;
                Ok(loaded.into_iter().map(|(_, values)| values).collect())
            }
            None if branch.base == Step(0) => {
                Ok(task.slice_plan(blocks).initial(&task.initial_weights()))
            }
            None => Err(format!(
                "no good checkpoint of step {} is left",
                branch.base
            )),
        }
    }

    /// Writes a slice's part of a cut.
    pub(super) fn write(&mut self, part: &Part, task: &Task) -> Result<()> {
        let slices = task.slices(self.branch.shards);
        let step = part.step;
        if self.save.as_ref().is_some_and(|open| open.step != step) {
            self.save = None;
        }
        if self.save.is_none() {
            let set = Set {
                step,
                timeline: self.branch.timeline,
                map: self.branch.map,
                slices,
                layout: (*task.layout).clone(),
                tensors: task.rule.tensors().len(),
            };
            self.save = Some(Writing {
                step,
                save: self.run.begin(set)?,
                digests: SortedMap::new(),
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
            blocks: slices.range(part.slice),
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
                self.before = Step(0);
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
