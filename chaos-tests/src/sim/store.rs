//! A model of the durable store: what is synced survives, what is not may or may not. A checkpoint
//! is there whole or not at all; the newest one can be damaged.

use std::collections::BTreeMap;

use resilin_core::ledger::{Members, Record};
use resilin_core::machine::Rules;
use resilin_core::machine::job::Metrics;
use resilin_core::{MapNumber, SliceId, Step};
use resilin_learn::kernel::{BlockHasher, Digest, PinnedSlice, WEIGHTS};

use super::codec;
use crate::oracle::Oracle;

/// Checkpoints kept, damaged ones not counted.
const KEEP: usize = 3;

/// Whole tensors by name.
pub type Tensors = BTreeMap<String, Vec<f32>>;

/// What is durable of a run.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// The newest reign.
    pub reign: u64,
    /// The newest slice layout and its slice count.
    pub map: (MapNumber, u16),
    /// Checkpoints by step.
    pub checkpoints: BTreeMap<Step, Tensors>,
    /// Checkpoints that cannot be read.
    pub damaged: Vec<Step>,
    /// The ledger.
    pub ledger: Vec<Record>,
    /// Lines of it that survive a crash.
    pub synced: usize,
    /// Files of cuts under way; a crash loses them.
    writing: BTreeMap<Step, BTreeMap<SliceId, Tensors>>,
}

impl Store {
    /// A slice's file is written.
    pub(super) fn write(&mut self, slice: SliceId, pinned: &PinnedSlice) {
        let tensors = pinned
            .tensors()
            .map(|(name, values)| (name.to_owned(), values.to_vec()))
            .collect();
        let files = self.writing.entry(pinned.version()).or_default();
        files.insert(slice, codec::pass::<Tensors>(&tensors));
    }

    pub(super) fn abandon(&mut self, step: Step) {
        self.writing.remove(&step);
    }

    /// Manifest and commit record are durable: digests of all blocks, if the files were there.
    pub(super) fn commit(&mut self, step: Step, oracle: &Oracle) -> Option<Vec<Digest>> {
        let files = self.writing.remove(&step)?;
        let mut whole = Tensors::new();
        for tensors in files.into_values() {
            for (name, values) in tensors {
                whole.entry(name).or_default().extend(values);
            }
        }
        let digests = digests(&whole, oracle);
        self.checkpoints.insert(step, whole);
        while self.checkpoints.len() > KEEP {
            self.checkpoints.pop_first();
        }
        self.synced = self.ledger.len();
        Some(digests)
    }

    /// The process dies: of what was not synced only `kept` lines are left.
    pub(super) fn crash(&mut self, kept: usize) {
        self.writing.clear();
        let left = (self.synced + kept).min(self.ledger.len());
        self.ledger.truncate(left);
        self.synced = left;
    }

    /// Lines that were not synced.
    pub(super) fn unsynced(&self) -> usize {
        self.ledger.len() - self.synced
    }

    pub(super) fn damage_newest(&mut self) {
        let newest = self.checkpoints.pop_last();
        self.damaged.extend(newest.map(|(step, _)| step));
    }

    /// The newest checkpoint that can be read.
    pub(super) fn newest(&self) -> Option<(Step, Tensors)> {
        let (step, tensors) = self.checkpoints.last_key_value()?;
        Some((*step, codec::pass(tensors)))
    }

    /// The chain line of each version, as the ledger last had it.
    #[must_use]
    pub fn chain(&self) -> BTreeMap<Step, Digest> {
        let mut lines = BTreeMap::new();
        for record in &self.ledger {
            match record {
                Record::Initial { chain, .. } => {
                    lines.insert(Step(0), *chain);
                }
                Record::Step(record) => {
                    lines.insert(record.step.next(), record.chain);
                }
                Record::Start { .. }
                | Record::Members(_)
                | Record::Rollback { .. }
                | Record::Evaluation { .. } => {}
            }
        }
        lines
    }

    /// The number of steps from 0 on that the ledger has, over all branches.
    pub(super) fn recorded(&self) -> Step {
        let lines = self.chain();
        let mut step = Step(0);
        while lines.contains_key(&step.next()) {
            step = step.next();
        }
        step
    }

    /// Who came and went, as the ledger says.
    pub(super) fn members(&self) -> Members {
        let mut said = self.ledger.iter().filter_map(|record| match record {
            Record::Members(members) => Some(*members),
            Record::Start { .. }
            | Record::Initial { .. }
            | Record::Step(_)
            | Record::Rollback { .. }
            | Record::Evaluation { .. } => None,
        });
        said.next_back().unwrap_or_default()
    }

    /// The versions that the ledger says were scored.
    pub(super) fn metrics(&self) -> BTreeMap<Step, Metrics> {
        let scored = self.ledger.iter().filter_map(|record| match record {
            Record::Evaluation {
                epoch,
                step,
                rows,
                correct,
                loss_sum,
                ..
            } => Some(Metrics {
                version: *step,
                epoch: *epoch,
                rows: *rows,
                correct: *correct,
                loss_sum: *loss_sum,
            }),
            Record::Start { .. }
            | Record::Initial { .. }
            | Record::Step(_)
            | Record::Members(_)
            | Record::Rollback { .. } => None,
        });
        scored.map(|metrics| (metrics.version, metrics)).collect()
    }

    /// The number of the slice layout for so many slices.
    pub(super) fn map_for(&mut self, rules: &Rules) -> MapNumber {
        let slices = rules.slices.slices();
        if self.map.1 != slices {
            self.map = (self.map.0.next(), slices);
        }
        self.map.0
    }
}

/// Digests of all blocks of a checkpoint's weights.
pub(super) fn digests(tensors: &Tensors, oracle: &Oracle) -> Vec<Digest> {
    let (layout, weights) = (&oracle.task.layout, &tensors[WEIGHTS]);
    let mut hasher = BlockHasher::default();
    (0..layout.blocks())
        .map(|block| hasher.digest(&weights[layout.values(block..block + 1)]))
        .collect()
}
