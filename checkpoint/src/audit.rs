//! The proof, from files alone, that a run did what it promises: every (epoch, sample) applied
//! exactly once, its ledger unbroken, its checkpoints those of its ledger.
//!
//! It trusts nothing but the ledger's hash chain and the pure sampling rule: rows are counted one
//! by one, from the nodes that each step's record says were summed.

mod epoch;
mod walk;

use std::path::Path;

use resilin_core::Step;
use resilin_core::job::{Bits, Document, Effective, Job, Length};
use resilin_core::ledger::Record;
use resilin_core::sampling::Sampling;
use resilin_core::sorted::SortedMap;
use serde::Serialize;

use crate::error::{Result, StoreError};
use crate::files::Files;
use crate::history::History;
use crate::ledger::LEDGER;
use crate::line::{self, LedgerMark, Rest};
use crate::offline;
use crate::restore::Depth;
use epoch::Epoch;
use walk::Walk;

/// Broken places that are kept; the others are counted.
const NAMED: usize = 16;

/// What a run was to do, as its ledger says.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The job that it was last opened with.
    pub job: Effective,
    /// Which rows each partition has at each step.
    pub sampling: Sampling,
    /// Steps of the whole run.
    pub total_steps: u64,
    /// Whether replays must make the same bits.
    pub bits: Bits,
}

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Lines of the ledger, all of them in its hash chain.
    pub records: u64,
    /// Whether a crash tore the last line, which does not count.
    pub torn: bool,
    /// Steps of the newest branch and what led to it.
    pub steps: u64,
    /// Steps of the whole run.
    pub total_steps: u64,
    /// Steps left out by the policy for values that are not finite.
    pub skipped: u64,
    /// Samples applied.
    pub samples: u64,
    /// Epochs of which every row was applied exactly once.
    pub whole_epochs: u64,
    /// Branches: one for each start, and one for each rollback.
    pub branches: u64,
    /// Lines that a later branch made again with the same bits.
    pub remade: u64,
    /// Lines that a later branch made again with other bits.
    pub differing: u64,
    /// Checkpoints whose chain line is the ledger's.
    pub checkpoints: u64,
    /// Checkpoints that are damaged and say nothing.
    pub damaged_checkpoints: u64,
}

/// What an audit comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// What was counted.
    pub counts: Counts,
    /// What is not as promised, in the order in which it was found; nothing if all is.
    pub broken: Vec<String>,
    /// Broken places beyond those.
    pub unnamed: u64,
}

/// Reads a ledger whole.
///
/// # Errors
/// A line that is not as it was written, named with its place, a missing file, or the file
/// system's. A torn last line is not an error, since a crash may leave it.
pub fn open_ledger(files: &dyn Files, dir: &Path) -> Result<(History, Plan)> {
    let mut history = History::default();
    read_all(files, dir, |_, record| history.add(record))?;
    let plan = plan(dir, &history)?;
    Ok((history, plan))
}

fn read_all(
    files: &dyn Files,
    dir: &Path,
    each: impl FnMut(LedgerMark, Record),
) -> Result<(LedgerMark, Rest)> {
    let path = dir.join(LEDGER);
    let (mark, rest) = line::read_with_marks(files, &path, each)?;
    let why = match rest {
        Rest::None | Rest::Torn if mark.records > 0 => return Ok((mark, rest)),
        Rest::None | Rest::Torn => "it has no record: the file is missing, empty or cut".into(),
        Rest::Damaged => format!(
            "line {} (byte {}) is not as it was written: the hash chain breaks there; the {} \
             lines before it hold",
            mark.records + 1,
            mark.bytes,
            mark.records
        ),
    };
    Err(StoreError::damaged(&path, why))
}

fn plan(dir: &Path, history: &History) -> Result<Plan> {
    let damaged = |why: String| StoreError::damaged(&dir.join(LEDGER), why);
    let lacks = || damaged("it does not say which job the run is of".into());
    let (rows, effective) = history.job().ok_or_else(lacks)?;
    let read = |error| damaged(format!("its job is not one of this version: {error}"));
    let mut document = Document::parse(&effective.toml()).map_err(read)?;
    let run = Job::read(&mut document).map_err(read)?.run;
    let microbatch = u64::from(run.microbatch());
    let sampling = Sampling::new(rows, run.partitions, microbatch, run.shuffle, run.seed);
    let total_steps = match run.length {
        Length::Epochs(epochs) => epochs.saturating_mul(sampling.steps_per_epoch()),
        Length::Steps(steps) => steps,
    };
    Ok(Plan {
        job: effective.clone(),
        sampling,
        total_steps,
        bits: run.bits,
    })
}

/// Audits the run in `dir`. Files are only read; it works beside a coordinator.
///
/// # Errors
/// As [`open_ledger`]: a ledger that cannot be read proves nothing.
pub fn audit(files: &dyn Files, dir: &Path) -> Result<Verdict> {
    let mut history = History::default();
    let mut walk = Walk::default();
    let mut marks = SortedMap::new();
    let (end, rest) = read_all(files, dir, |mark, record| {
        walk.take(mark.records, &record);
        marks.insert(mark.records, mark);
        history.add(record);
    })?;
    let plan = plan(dir, &history)?;
    let mut audit = Audit {
        verdict: Verdict {
            counts: Counts {
                records: end.records,
                torn: rest == Rest::Torn,
                total_steps: plan.total_steps,
                branches: walk.branches,
                ..Counts::default()
            },
            broken: Vec::new(),
            unnamed: 0,
        },
        plan: &plan,
        history: &history,
    };
    walk.broken.into_iter().for_each(|why| audit.broken(why));
    audit.steps();
    audit.branches();
    audit.checkpoints(files, dir, &marks)?;
    Ok(audit.verdict)
}

struct Audit<'a> {
    verdict: Verdict,
    plan: &'a Plan,
    history: &'a History,
}

impl Audit<'_> {
    fn broken(&mut self, why: String) {
        if self.verdict.broken.len() < NAMED {
            self.verdict.broken.push(why);
        } else {
            self.verdict.unnamed += 1;
        }
    }

    /// Counts every row of every epoch.
    fn steps(&mut self) {
        let sampling = self.plan.sampling;
        let mut epoch = Epoch::new(&sampling, 0);
        let (history, mut expected) = (self.history, Step(0));
        for record in history.steps() {
            if record.step != expected {
                let step = record.step;
                self.broken(format!("step {expected} is missing before step {step}"));
            }
            expected = record.step.next();
            let number = sampling.position(record.step).epoch;
            if number != epoch.number {
                self.epoch_over(&epoch);
                epoch = Epoch::new(&sampling, number);
            }
            self.verdict.counts.steps += 1;
            self.verdict.counts.samples += record.samples;
            if record.skipped {
                self.verdict.counts.skipped += 1;
                epoch.skipped += 1;
            } else if let Err(why) = epoch.apply(&sampling, record) {
                self.broken(why);
            }
        }
        let over = expected.0.is_multiple_of(sampling.steps_per_epoch()) && expected.0 > 0;
        if over {
            self.epoch_over(&epoch);
        } else if let Some(row) = epoch.twice() {
            let number = epoch.number + 1;
            self.broken(format!("epoch {number}: row {row} was applied twice"));
        }
        if expected.0 > self.plan.total_steps {
            let total = self.plan.total_steps;
            self.broken(format!("{} steps of a run of {total}", expected.0));
        }
    }

    fn epoch_over(&mut self, epoch: &Epoch) {
        let number = epoch.number + 1;
        let wrong = epoch.applied.iter().position(|times| *times != 1);
        match wrong {
            None => self.verdict.counts.whole_epochs += 1,
            Some(row) => {
                let times = epoch.applied[row];
                // A policy left rows out, and the ledger says so.
                if times > 1 || epoch.skipped == 0 {
                    self.broken(format!(
                        "epoch {number}: row {row} was applied {times} times"
                    ));
                }
            }
        }
    }

    /// Superseded lines must have been made again as they were.
    fn branches(&mut self) {
        let history = self.history;
        for old in history.superseded() {
            let Some(line) = history.line_of(old.line) else {
                continue;
            };
            if line == old.chain {
                self.verdict.counts.remade += 1;
                continue;
            }
            self.verdict.counts.differing += 1;
            if self.plan.bits == Bits::On {
                let (line, timeline) = (old.line, old.timeline);
                self.broken(format!(
                    "the chain line of step {line} differs from that of branch {timeline}"
                ));
            }
        }
    }

    fn checkpoints(
        &mut self,
        files: &dyn Files,
        dir: &Path,
        marks: &SortedMap<u64, LedgerMark>,
    ) -> Result<()> {
        for stored in offline::checkpoints(files, dir, Depth::Lengths)? {
            let Ok(manifest) = &stored.manifest else {
                self.verdict.counts.damaged_checkpoints += 1;
                continue;
            };
            let step = manifest.step;
            let fits =
                |mark: &LedgerMark| mark.records == 0 || marks.get(&mark.records) == Some(mark);
            let why = match self.history.line_of(step) {
                None => {
                    format!("the ledger ends before step {step}, of which there is a checkpoint")
                }
                Some(line) if line != manifest.chain => {
                    format!("the checkpoint of step {step} has another chain line than the ledger")
                }
                Some(_) if !manifest.ledger.as_ref().is_none_or(fits) => format!(
                    "the ledger is not the one that the checkpoint of step {step} was written after"
                ),
                Some(_) => {
                    self.verdict.counts.checkpoints += 1;
                    continue;
                }
            };
            self.broken(why);
        }
        Ok(())
    }
}
