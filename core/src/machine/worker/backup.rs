//! Copies of what another member is late with (PROTOCOL 17): evaluated and pushed as its own are.

use super::{Effect, Worker};
use crate::id::{Step, Timeline};
use crate::tree::PartitionSet;

impl Worker {
    /// Whoever has its own step to evaluate does not go back: the question is repeated.
    pub(super) fn back_up(
        &mut self,
        timeline: Timeline,
        step: Step,
        partitions: &PartitionSet,
        effects: &mut Vec<Effect>,
    ) {
        let Some(assignment) = self.assignment.clone().filter(|a| a.timeline == timeline) else {
            return;
        };
        if self.links.is_empty() {
            self.dial(&assignment, effects);
        }
        if step != self.step {
            if self.holds(self.step) && self.complete(self.step) {
                return;
            }
            self.go_to(step, effects);
        }
        for partition in partitions.iter() {
            self.extra.insert(partition);
        }
    }

    /// A member without leases follows the slices for as long as it is asked for something.
    pub(super) fn rest_if_idle(&mut self, effects: &mut Vec<Effect>) {
        let held = self.leases().next().is_some() || !self.extra.is_empty();
        let idle = !held && self.evaluation.is_none();
        if idle && !self.links.is_empty() && self.is_linked() {
            self.hang_up(effects);
        }
    }
}
