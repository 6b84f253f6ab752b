//! What is durable at the end of a run, for whoever looks at it from outside.

use resilin_core::Step;
use resilin_core::ledger::Record;
use resilin_core::sorted::{SortedMap, SortedSet};
use resilin_learn::kernel::Digest;

/// What is durable of a run.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Versions with a checkpoint.
    pub checkpoints: SortedSet<Step>,
    /// The ledger.
    pub ledger: Vec<Record>,
}

impl Kept {
    /// The chain line of each version, as the ledger last had it.
    #[must_use]
    pub fn chain(&self) -> SortedMap<Step, Digest> {
        let mut lines = SortedMap::new();
        for record in &self.ledger {
            match record {
                Record::Initial { chain, .. } => {
                    lines.insert(Step(0), *chain);
                }
                Record::Step(record) => {
                    lines.insert(record.step.next(), record.chain);
                }
                Record::Start { .. }
                | Record::Job { .. }
                | Record::Members(_)
                | Record::Rollback { .. }
                | Record::Evaluation { .. } => {}
            }
        }
        lines
    }
}
