//! What another assignment means: what the model is told of it, and steps that it goes back to.

use super::{Effect, Regrouped, Worker};
use crate::id::Step;
use crate::message::{Assignment, Lease};

impl Worker {
    /// Tells the model of an assignment whose leases begin at `first`.
    pub(super) fn regroup(
        &mut self,
        assignment: &Assignment,
        first: Step,
        effects: &mut Vec<Effect>,
    ) {
        let leases = &assignment.leases;
        // Who has no lease does not know at which step the branch goes on.
        let new = !leases.is_empty() && self.begun != Some(assignment.timeline);
        if new {
            self.begun = Some(assignment.timeline);
        }
        effects.push(Effect::Regroup(Regrouped {
            generation: assignment.generation,
            begins: new.then_some(first),
            partitions: leases.iter().map(|lease| lease.partition).collect(),
        }));
    }

    /// The first step before the open one that a new lease asks for: a lost member's, which some
    /// slice may still have open. It does not once the open step's weights are here from all.
    pub(super) fn earlier(&self, assignment: &Assignment) -> Option<Step> {
        let known = |lease: &&Lease| {
            self.leases()
                .any(|old| old.partition == lease.partition && old.from <= lease.from)
        };
        let new = assignment.leases.iter().filter(|lease| !known(lease));
        new.map(|lease| lease.from)
            .filter(|from| *from < self.step)
            .min()
    }
}
