//! The order of the records: branches that begin where the ledger is, steps that follow each other.

use resilin_core::ledger::{Record, StepRecord};
use resilin_core::{Step, Timeline};

/// Follows the records in the order in which they were written.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) branches: u64,
    timeline: Timeline,
    /// The step whose record comes next, once the run has its initial line.
    next: Option<Step>,
    /// How far the ledger went before the newest branch, as long as that has no step of its own: the
    /// next one may begin there.
    left: Step,
    pub(super) broken: Vec<String>,
}

impl Walk {
    pub(super) fn take(&mut self, number: u64, record: &Record) {
        match record {
            Record::Initial { timeline, .. } if *timeline >= self.timeline => {
                self.next = Some(Step(0));
            }
            Record::Rollback { timeline, base } => self.branch(number, *timeline, *base),
            Record::Step(step) if step.timeline >= self.timeline => self.step(number, step),
            // Of a branch that was left, or no part of the chain.
            Record::Start { .. }
            | Record::Job { .. }
            | Record::Initial { .. }
            | Record::Step(_)
            | Record::Members(_)
            | Record::Evaluation { .. } => {}
        }
    }

    fn branch(&mut self, number: u64, timeline: Timeline, base: Step) {
        self.branches += 1;
        if timeline <= self.timeline {
            let before = self.timeline;
            self.found(format!(
                "line {number}: branch {timeline} begins after branch {before}"
            ));
        }
        self.timeline = self.timeline.max(timeline);
        let reached = self.next.unwrap_or_default().max(self.left);
        if base > reached {
            self.found(format!(
                "line {number}: branch {timeline} begins on step {base}, but the ledger ends at \
                 step {reached}"
            ));
        }
        (self.next, self.left) = (Some(base), reached);
    }

    fn step(&mut self, number: u64, record: &StepRecord) {
        let step = record.step;
        if record.timeline > self.timeline {
            let timeline = record.timeline;
            self.found(format!(
                "line {number}: step {step} is of branch {timeline}, which never began"
            ));
        }
        if self.next != Some(step) {
            let expected = self
                .next
                .map_or_else(|| "-".into(), |next| next.to_string());
            self.found(format!(
                "line {number}: step {step} follows where step {expected} is due"
            ));
        }
        (self.next, self.left) = (Some(step.next()), Step(0));
    }

    fn found(&mut self, why: String) {
        self.broken.push(why);
    }
}
