//! Which branches took over from others. A checkpoint of a branch that was left is not gone on from,
//! also when it could not be read for a while and can be again: the ledger has other lines by then.

use resilin_core::ledger::Record;
use resilin_core::{Step, Timeline};

/// A branch and the step whose weights it begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Began {
    pub(crate) timeline: Timeline,
    pub(crate) base: Step,
}

/// What a ledger's records say of its branches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Branches {
    /// The newest branch, as long as it has no step of its own: until then it leaves nothing behind.
    idle: Option<Began>,
    /// Those with steps, by timeline. Their bases rise: one that begins earlier leaves behind all
    /// that those before it did.
    begun: Vec<Began>,
}

impl Branches {
    pub(crate) fn add(&mut self, record: &Record) {
        match record {
            Record::Rollback { timeline, base } => {
                let (timeline, base) = (*timeline, *base);
                self.idle = Some(Began { timeline, base });
            }
            Record::Step(step) => {
                // A straggler's record is of a branch that was left.
                if let Some(new) = self.idle.take_if(|idle| idle.timeline == step.timeline) {
                    self.begun.retain(|earlier| earlier.base < new.base);
                    self.begun.push(new);
                }
            }
            Record::Start { .. }
            | Record::Job { .. }
            | Record::Initial { .. }
            | Record::Members(_)
            | Record::Evaluation { .. } => {}
        }
    }

    /// The branch that left a version of another one behind.
    pub(crate) fn left(&self, timeline: Timeline, version: Step) -> Option<Began> {
        let left = |later: &&Began| timeline < later.timeline && later.base < version;
        self.begun.iter().find(left).copied()
    }
}
