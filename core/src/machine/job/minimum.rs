//! The fewest workers that a run goes on with, and how it is taken up after a restart.
//!
//! A job gets its minimum at once or holds nothing (PROTOCOL 32). A coordinator that takes up a
//! branch which workers still work on waits a lease for what they say they hold, and plans nothing
//! that contradicts it (PROTOCOL 5).

use super::crew::{Stage, State};
use super::leases::Held;
use super::{Effect, Job};
use crate::id::{Generation, Incarnation, PartitionId};
use crate::message::Claim;
use crate::sorted::SortedMap;
use crate::time::Time;

/// Lost members that are named while a run waits for its minimum.
const NAMED: usize = 8;

/// What members of an earlier life of the coordinator say that they hold.
#[derive(Clone, Debug)]
pub(super) struct Grace {
    until: Time,
    claimed: SortedMap<PartitionId, Generation>,
}

impl Job {
    /// Whether there are as many workers as the run goes on with.
    pub(super) fn has_minimum(&self) -> bool {
        self.members.accepting().len() >= self.settings.min_workers as usize
    }

    /// Whether leases may be given: not before everybody had time to say what it holds.
    pub(super) fn may_plan(&self) -> bool {
        self.grace.is_none()
    }

    /// A branch that an earlier life began may still be worked on.
    pub(super) fn begin_grace(&mut self) {
        let taken_up = self.branch.timeline.reign != self.settings.reign;
        self.grace = taken_up.then(|| Grace {
            until: self.now + self.rules.lease,
            claimed: SortedMap::new(),
        });
    }

    /// Plans once the time is over, or all that there is to hold is held.
    pub(super) fn end_grace(&mut self, effects: &mut Vec<Effect>) {
        let over = |grace: &Grace| grace.until <= self.now || self.all_is_held();
        if self.grace.as_ref().is_some_and(over) {
            self.grace = None;
            // Whoever was to hand over at a later step may be gone: nobody claims the steps before.
            self.reopen_leases();
            self.replan(effects);
            self.hand_out(effects);
        }
    }

    /// Whether every partition has a standing holder that is ready.
    fn all_is_held(&self) -> bool {
        // Most of the time this tells without a look at each.
        if self.members.accepting().len() < self.leases.holders() {
            return false;
        }
        let ready = |lease: &Held| {
            let holder = self.members.get(lease.holder);
            lease.until.is_none() && holder.is_some_and(State::accepts)
        };
        let all = (0..self.rules.tree.partitions()).map(PartitionId);
        let mut last = all.map(|partition| self.leases.get(partition).last());
        last.all(|lease| lease.is_some_and(ready))
    }

    /// Of two claims the one of the higher generation wins.
    pub(super) fn take_claim(&mut self, holder: Incarnation, claim: &Claim) {
        let Some(grace) = &mut self.grace else {
            return;
        };
        let partitions = self.rules.tree.partitions();
        let known = |partition: PartitionId| partition.0 < partitions;
        if claim.timeline != self.branch.timeline {
            return;
        }
        for lease in claim.leases.iter().filter(|lease| known(lease.partition)) {
            let before = grace.claimed.insert(lease.partition, claim.generation);
            let newer = before.is_none_or(|before| before < claim.generation);
            if let Some(before) = before.filter(|before| *before > claim.generation) {
                grace.claimed.insert(lease.partition, before);
                continue;
            }
            let given = self.now;
            self.leases.alter(lease.partition, |held| {
                held.retain(|other| !newer && other.from != lease.from);
                held.push(Held {
                    holder,
                    from: lease.from,
                    until: lease.until,
                    given,
                });
                held.sort_by_key(|lease| lease.from);
                for at in 1..held.len() {
                    held[at - 1].until = Some(held[at].from);
                }
            });
        }
    }

    /// Remembers who is missing.
    pub(super) fn miss(&mut self, name: &str, cause: &str) {
        if self.absent.len() == NAMED {
            self.absent.pop_front();
        }
        self.absent.push_back(format!("{name} was lost ({cause})"));
    }

    /// Gives up when there were too few workers for too long.
    pub(super) fn below_min(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.has_minimum() {
            self.below_min = None;
            self.absent.clear();
            return;
        }
        let since = *self.below_min.get_or_insert(now);
        let waited = self.settings.wait_below_min.map(|wait| since + wait);
        let saving = self.resting_at().filter(|step| self.durable < Some(*step));
        // A stop ends by itself, and a last version needs nobody to be saved.
        let ends = self.stop.is_some() || saving.is_some();
        if !ends && waited.is_some_and(|over| over <= now) {
            self.end(super::Outcome::WaitedTooLong, effects);
        }
    }

    /// How many workers are ready, and who is not.
    pub(super) fn waiting_for_minimum(&self) -> Option<String> {
        if self.has_minimum() {
            return None;
        }
        if self.wanted == 0 && self.active().next().is_none() {
            return Some("workers: none is wanted; ask for N with `resilin scale N`".into());
        }
        let (ready, minimum) = (self.members.accepting().len(), self.settings.min_workers);
        let mut missing: Vec<String> = self
            .members
            .iter()
            .map(|(_, state)| state)
            .filter(|state| !state.accepts())
            .map(|state| match state.stage() {
                Stage::Joining => format!("{} is joining", state.name),
                Stage::Draining => format!("{} is leaving", state.name),
                Stage::Active => format!("{} lacks links", state.name),
            })
            .collect();
        missing.extend(self.absent.iter().cloned());
        let missing = match missing.is_empty() {
            true => String::new(),
            false => format!("; {}", missing.join(", ")),
        };
        Some(format!(
            "workers: {ready} of at least {minimum} ready{missing}; start more with `resilin worker \
             --join`"
        ))
    }
}
