//! A1: in every generation each partition has exactly one standing holder, or none has one because
//! nobody accepts work.

use resilin_core::sorted::SortedMap;
use resilin_core::{Generation, Incarnation, PartitionId};

use super::{Fact, Invariant, World, ensure};

#[derive(Default)]
pub(super) struct Standing {
    generation: Generation,
    holders: SortedMap<PartitionId, Incarnation>,
    touched: bool,
}

impl Invariant for Standing {
    fn id(&self) -> &'static str {
        "A1"
    }

    fn see(&mut self, fact: &Fact<'_>, world: &World<'_>) -> Result<(), String> {
        if let Fact::Assigned(member, assignment) = fact {
            if assignment.generation != self.generation {
                self.generation = assignment.generation;
                self.holders.clear();
                self.touched = true;
            }
            let standing = assignment.leases.iter().filter(|l| l.until.is_none());
            self.holders
                .extend(standing.map(|lease| (lease.partition, *member)));
        }
        let Fact::Settled = fact else {
            return Ok(());
        };
        let all = world.oracle.task.job.run.partitions as usize;
        let held = self.holders.len();
        let complete = held == 0 || held == all;
        let touched = std::mem::take(&mut self.touched);
        ensure(!touched || complete, || {
            format!(
                "generation {}: {held} of {all} partitions have a holder",
                self.generation
            )
        })
    }
}
