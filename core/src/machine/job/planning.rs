//! When a plan is made: at once while plans are rare, and else so seldom that planning takes no more
//! than its share of the time. What comes in the meantime, be it a thousand workers, is in one plan.

use super::{Effect, Job};
use crate::id::Incarnation;
use crate::time::{Span, Time};

/// Time that a plan takes up for each member and each partition: several times what it costs, so that
/// the rest is left for everything else.
const EACH: Span = Span(2_000);

/// What may be taken up in advance: hundreds of plans of a dozen workers, less than one of thousands.
const CREDIT: Span = Span::from_millis(10);

/// When plans are made.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Planning {
    /// When all plans so far are made up for.
    free: Time,
    /// When the next one is made, if one is wanted that was not made at once.
    due: Option<Time>,
    /// Whoever joins and has a higher number gets nothing from a plan, as long as the last one holds.
    surplus: Option<Incarnation>,
}

impl Planning {
    /// When a plan that is wanted is made.
    pub(super) fn due(&self) -> Option<Time> {
        self.due
    }
}

impl Job {
    /// Makes a plan, now or when there is time for it.
    pub(super) fn replan(&mut self, effects: &mut Vec<Effect>) {
        if !self.may_plan() {
            return;
        }
        let now = self.now;
        if now + CREDIT < self.planning.free {
            let due = Time(self.planning.free.0 - CREDIT.0);
            self.planning.due = Some(due);
            return;
        }
        let size = self.members.len() as u64 + u64::from(self.rules.tree.partitions());
        self.planning.free = self.planning.free.max(now) + EACH.times(size);
        self.planning.due = None;
        self.plan(effects);
    }

    /// Makes the plan that had to wait.
    pub(super) fn plan_when_due(&mut self, effects: &mut Vec<Effect>) {
        if self.planning.due.is_some_and(|due| due <= self.now) {
            self.replan(effects);
            self.release(effects);
        }
    }

    /// A member may work from now on. It changes no plan where every partition has a holder of its own
    /// that is as fast as any, where the most that may work do, and where there are too few to begin.
    pub(super) fn admit(&mut self, member: Incarnation, effects: &mut Vec<Effect>) {
        let too_few = !self.has_minimum() && self.leases.holders() == 0;
        if self.planning.due.is_none() && (self.is_surplus(member) || too_few) {
            self.assign(member, effects);
        } else {
            self.replan(effects);
        }
    }

    /// A member works no more; whoever held nothing and would have got nothing is not missed.
    pub(super) fn dismiss(&mut self, member: Incarnation, effects: &mut Vec<Effect>) {
        let held = self.leases.has(member);
        self.orphan(member);
        if held || self.is_missed(member) {
            self.replan(effects);
        }
    }

    /// Whether a plan without the member may be another one, though it holds nothing.
    pub(super) fn is_missed(&self, member: Incarnation) -> bool {
        !self.is_surplus(member) || !self.has_minimum()
    }

    fn is_surplus(&self, member: Incarnation) -> bool {
        self.planning.surplus.is_some_and(|first| first <= member)
    }

    /// What the plan in force says of joiners.
    pub(super) fn note_surplus(&mut self) {
        let all = self.rules.tree.partitions() as usize;
        let zero = Incarnation {
            reign: 0,
            number: 0,
        };
        let own = self.leases.standing_holders().len() == all && self.all_are_fast();
        let most = self.settings.max_workers as usize;
        let after = || self.members.accepting().iter().nth(most.checked_sub(1)?);
        self.planning.surplus = match own {
            true => Some(zero),
            false => after().copied(),
        };
    }
}
