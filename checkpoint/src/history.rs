//! What a ledger says once its branches are laid over each other: a timeline supersedes every line
//! after its base, and the superseded lines are kept to compare a replay with.

use std::path::Path;

use resilin_core::job::Effective;
use resilin_core::ledger::{Members, Record, StepRecord};
use resilin_core::machine::job::Metrics;
use resilin_core::sorted::SortedMap;
use resilin_core::{Step, Timeline};

use crate::error::{Result, StoreError};
use crate::files::Files;
use crate::line::{self, LedgerMark};

/// A chain line that a later branch made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superseded {
    /// The branch that it belonged to.
    pub timeline: Timeline,
    /// Number of the line: the step of the weights.
    pub line: Step,
    /// The line.
    pub chain: [u8; 32],
}

/// The ledger of a run, resolved to its newest timeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    newest: Timeline,
    lines: SortedMap<Step, (Timeline, [u8; 32])>,
    steps: SortedMap<Step, StepRecord>,
    evaluations: SortedMap<Step, Metrics>,
    superseded: Vec<Superseded>,
    /// What the newest branch left behind, as long as it has no step of its own: the next one may
    /// begin later, at a checkpoint that became durable while this one was written down.
    left: Left,
    members: Members,
    job: Option<(u64, Effective)>,
}

/// What a branch leaves behind.
#[derive(Clone, Debug, Default, PartialEq)]
struct Left {
    lines: SortedMap<Step, (Timeline, [u8; 32])>,
    steps: SortedMap<Step, StepRecord>,
    evaluations: SortedMap<Step, Metrics>,
}

impl History {
    /// Reads the ledger file at `path`, up to the first line that does not fit.
    ///
    /// # Errors
    /// The file system's.
    pub fn read(files: &dyn Files, path: &Path) -> Result<Self> {
        Ok(Self::read_with_mark(files, path)?.0)
    }

    /// The same, with the place up to which the file fits.
    pub(crate) fn read_with_mark(files: &dyn Files, path: &Path) -> Result<(Self, LedgerMark)> {
        let mut history = Self::default();
        let (mark, _) = line::read(files, path, |record| history.add(record))?;
        Ok((history, mark))
    }

    pub(crate) fn add(&mut self, record: Record) {
        match record {
            Record::Initial { timeline, chain } => self.line(timeline, Step(0), chain),
            Record::Step(step) => {
                if step.timeline >= self.newest {
                    self.supersede_left();
                }
                self.line(step.timeline, step.step.next(), step.chain);
                if step.timeline >= self.newest {
                    self.steps.insert(step.step, step);
                }
            }
            Record::Rollback { timeline, base } => self.branch(timeline, base),
            Record::Evaluation {
                timeline,
                epoch,
                step,
                rows,
                correct,
                loss_sum,
                parts,
            } => {
                let metrics = Metrics {
                    version: step,
                    epoch: epoch + 1,
                    rows,
                    correct,
                    loss_sum,
                    parts,
                };
                if timeline >= self.newest {
                    self.evaluations.insert(step, metrics);
                }
            }
            Record::Members(members) => self.members = members,
            Record::Job { rows, job } => self.job = Some((rows, job)),
            Record::Start { .. } => {}
        }
    }

    fn branch(&mut self, timeline: Timeline, base: Step) {
        self.newest = self.newest.max(timeline);
        let Left {
            lines,
            steps,
            evaluations,
        } = std::mem::take(&mut self.left);
        self.lines.extend(lines);
        self.steps.extend(steps);
        self.evaluations.extend(evaluations);
        self.left = Left {
            lines: self.lines.split_off(&base.next()),
            steps: self.steps.split_off(&base),
            evaluations: self.evaluations.split_off(&base.next()),
        };
    }

    /// The newest branch makes anew what it left behind.
    fn supersede_left(&mut self) {
        let Left { lines, .. } = std::mem::take(&mut self.left);
        self.superseded.extend(
            lines
                .into_iter()
                .map(|(line, (timeline, chain))| Superseded {
                    timeline,
                    line,
                    chain,
                }),
        );
    }

    fn line(&mut self, timeline: Timeline, line: Step, chain: [u8; 32]) {
        // A straggler's record of a branch that was left.
        let replaced = if timeline < self.newest {
            Some((timeline, chain))
        } else {
            self.lines.insert(line, (timeline, chain))
        };
        self.superseded
            .extend(replaced.map(|(timeline, chain)| Superseded {
                timeline,
                line,
                chain,
            }));
    }

    /// Who came and went, in all.
    #[must_use]
    pub fn members(&self) -> Members {
        self.members
    }

    /// The newest timeline's chain lines from step 0 on, over all the branches that led to it.
    ///
    /// # Errors
    /// A line is missing because the ledger was damaged.
    pub fn chain(&self) -> Result<Vec<(Step, [u8; 32])>> {
        let mut chain = Vec::with_capacity(self.lines.len());
        for (expected, (line, (_, hash))) in (0..).map(Step).zip(&self.lines) {
            if *line != expected {
                return Err(StoreError::damaged(
                    Path::new(crate::ledger::LEDGER),
                    format!("the chain line of step {expected} is missing"),
                ));
            }
            chain.push((*line, *hash));
        }
        Ok(chain)
    }

    /// The newest timeline's chain line of a step.
    #[must_use]
    pub fn line_of(&self, step: Step) -> Option<[u8; 32]> {
        self.lines.get(&step).map(|(_, chain)| *chain)
    }

    /// Rows of the training set, and the job that the run was last opened with.
    #[must_use]
    pub fn job(&self) -> Option<(u64, &Effective)> {
        self.job.as_ref().map(|(rows, job)| (*rows, job))
    }

    /// The record of a step of the newest timeline.
    #[must_use]
    pub fn step(&self, step: Step) -> Option<&StepRecord> {
        self.steps.get(&step)
    }

    /// The newest timeline's committed steps from step 0 on.
    pub fn steps(&self) -> impl Iterator<Item = &StepRecord> {
        self.steps.values()
    }

    /// The newest timeline's evaluations by version.
    pub fn evaluations(&self) -> impl Iterator<Item = &Metrics> {
        self.evaluations.values()
    }

    /// The lines after `base` that any branch has: what a replay from there is compared with,
    /// whether its branch is in the ledger already or not. Of several the last one written.
    #[must_use]
    pub fn lines_after(&self, base: Step) -> SortedMap<Step, [u8; 32]> {
        let superseded = self.superseded.iter().map(|old| (old.line, old.chain));
        let left_and_current = self.left.lines.iter().chain(&self.lines);
        superseded
            .chain(left_and_current.map(|(line, (_, chain))| (*line, *chain)))
            .filter(|(line, _)| *line > base)
            .collect()
    }

    /// The newest timeline.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        self.newest
    }

    /// The superseded lines, in the order in which they were superseded; those that the newest branch
    /// will make anew are not yet.
    #[must_use]
    pub fn superseded(&self) -> &[Superseded] {
        &self.superseded
    }

    /// The superseded lines whose replay came out otherwise: always none where a job promises bits
    /// (PROTOCOL 2).
    pub fn differing(&self) -> impl Iterator<Item = &Superseded> {
        self.superseded.iter().filter(|old| {
            self.lines
                .get(&old.line)
                .is_some_and(|(_, chain)| *chain != old.chain)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(timeline: u64, step: u64) -> Record {
        Record::Step(StepRecord {
            timeline: Timeline::first(timeline),
            step: Step(step),
            chain: [step as u8; 32],
            marks: String::new(),
            nodes: Vec::new(),
            samples: 1,
            loss_sum: 1.0,
            weight: 1.0,
            skipped: false,
            discarded: 0,
        })
    }

    fn rollback(timeline: u64, base: u64) -> Record {
        let (timeline, base) = (Timeline::first(timeline), Step(base));
        Record::Rollback { timeline, base }
    }

    fn history(records: impl IntoIterator<Item = Record>) -> History {
        let mut history = History::default();
        let timeline = Timeline::first(1);
        let chain = [9; 32];
        history.add(Record::Initial { timeline, chain });
        records.into_iter().for_each(|record| history.add(record));
        history
    }

    fn whole(history: &History) -> (usize, usize) {
        let lines = history.chain().expect("no line is missing");
        (lines.len(), history.steps().count())
    }

    #[test]
    fn a_branch_may_begin_where_the_ledger_was_before_one_without_steps() {
        let before = (0..5).map(|number| step(1, number));
        let mut history = history(before.chain([rollback(2, 1), rollback(3, 4)]));
        assert_eq!(whole(&history), (5, 4), "lines 0 to 4, steps 0 to 3");
        assert!(history.superseded().is_empty());
        assert_eq!(history.lines_after(Step(3)).len(), 2);
        history.add(step(3, 4));
        assert_eq!(whole(&history), (6, 5));
        let superseded: Vec<Step> = history.superseded().iter().map(|old| old.line).collect();
        assert_eq!(superseded, [Step(5)]);
    }

    #[test]
    fn what_a_branch_has_made_anew_does_not_come_back() {
        let before = (0..5).map(|number| step(1, number));
        let after = [rollback(2, 1), step(2, 1), rollback(3, 4)];
        let history = history(before.chain(after));
        assert_eq!(whole(&history), (3, 2));
        assert_eq!(history.superseded().len(), 4);
    }
}
