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
        if let Fact::Quiet(now) = fact {
            self.quiet = Some(*now);
        }
        let (Fact::Now(now), Some(quiet)) = (fact, self.quiet) else {
            return Ok(());
        };
        let task = &world.oracle.task;
        let failure = &task.job.failure;
        // The slowest worker alone, and a grace for the stop and the last save each.
        let steps = Span::from_millis(100).times(task.total_steps);
        let leases = failure.lease.times(LEASES);
        let bound = Span(leases.0 + failure.drain_grace.times(2).0 + steps.0);
        ensure(now.since(quiet) <= bound, || {
            format!("no end {bound} after faults were over")
        })
    }
}
