//! L1: once faults are over and a worker is there, the run ends within a bound.

use resilin_core::Time;
use resilin_core::time::Span;

use super::{Fact, Invariant, World, ensure};

/// Leases that the ways out of a fault take one after the other, at most.
const LEASES: u64 = 60;

#[derive(Default)]
pub(super) struct Ends {
    quiet: Option<Time>,
}

impl Invariant for Ends {
    fn id(&self) -> &'static str {
        "L1"
    }

    fn see(&mut self, fact: &Fact<'_>, world: &World<'_>) -> Result<(), String> {
        match fact {
            Fact::Quiet(now) => self.quiet = Some(*now),
            Fact::Now(now) => {
                let task = &world.oracle.task;
                let failure = &task.job.failure;
                // The slowest worker alone, and a grace for the stop and the last save each.
                let steps = Span::from_millis(100).times(task.total_steps);
                let bound =
                    Span(failure.lease.times(LEASES).0 + failure.drain_grace.times(2).0 + steps.0);
                if let Some(quiet) = self.quiet {
                    return ensure(now.since(quiet) <= bound, || {
                        format!("no end {bound} after faults were over")
                    });
                }
            }
            Fact::Began { .. }
            | Fact::Welcomed(_)
            | Fact::Down(_)
            | Fact::Assigned(..)
            | Fact::Settled
            | Fact::Applied { .. }
            | Fact::Committed(_)
            | Fact::Recorded(_)
            | Fact::Announced { .. }
            | Fact::Stored(..)
            | Fact::Scored(_)
            | Fact::Damaged
            | Fact::Over => {}
        }
        Ok(())
    }
}
