//! Leases on partitions: standing until revoked, handed over at a step both sides know.

use super::crew::Stage;
use super::{Effect, Job};
use crate::fact::Fact;
use crate::id::{Incarnation, PartitionId, Step};
use crate::message::{Assignment, CoordinatorSays, Lease};
use crate::plan::{MemberLoad, Plan, Problem};
use crate::sorted::SortedMap;
use crate::time::Time;

/// One holder of a partition over a range of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) holder: Incarnation,
    pub(super) from: Step,
    pub(super) until: Option<Step>,
    /// When the holder was asked.
    pub(super) given: Time,
}

impl Held {
    fn of(&self, partition: PartitionId) -> Lease {
        let Self { from, until, .. } = *self;
        Lease {
            partition,
            from,
            until,
        }
    }

    /// Whether the lease covers the step.
    pub(super) fn covers(&self, step: Step) -> bool {
        self.from <= step && self.until.is_none_or(|until| step < until)
    }
}

impl Job {
    /// The first step for which somebody still has to evaluate the partition.
    fn uncovered(&self, partition: PartitionId) -> Step {
        let low = self.low();
        let everywhere = self
            .slices
            .values()
            .all(|slice| slice.step > low || slice.covered.contains(partition));
        if everywhere { low.next() } else { low }
    }

    /// Nobody was told of a lease before it was known how far the slices are. What members brought of
    /// an earlier life may be over by then.
    pub(super) fn begin_leases_at_low(&mut self) {
        let (low, now) = (self.low(), self.now);
        self.leases.alter_where(
            |_| true,
            |held| {
                held.retain(|lease| lease.until.is_none_or(|until| until > low));
                for lease in held {
                    (lease.from, lease.given) = (lease.from.max(low), now);
                }
            },
        );
    }

    /// What a slice had of the open step may be lost with its primary, and whoever sent it may be
    /// gone: somebody holds every partition from this step on again.
    pub(super) fn reopen_leases(&mut self) {
        let (low, given) = (self.low(), self.now);
        let later = |held: &[Held]| held.first().is_some_and(|first| low < first.from);
        self.leases
            .alter_where(later, |held| (held[0].from, held[0].given) = (low, given));
    }

    /// Takes a lost member's leases away: a later holder's begins earlier instead.
    pub(super) fn orphan(&mut self, lost: Incarnation) {
        for partition in self.leases.partitions_of(lost) {
            let (first, now) = (self.uncovered(partition), self.now);
            self.leases.alter(partition, |held| {
                held.retain(|lease| lease.holder != lost);
                if let Some(next) = held.first_mut().filter(|next| first < next.from) {
                    (next.from, next.given) = (first, now);
                }
                for at in 1..held.len() {
                    let from = held[at].from;
                    held[at - 1].until = Some(from);
                }
            });
        }
    }

    /// Makes the leases those of a new plan, and tells every member of the new generation.
    pub(super) fn plan(&mut self, effects: &mut Vec<Effect>) {
        self.take_levels();
        let plan = self.problem().solve();
        self.lease(&plan, effects);
        self.note_surplus();
    }

    /// The same, if the plan for the speeds of this moment is another one.
    pub(super) fn replan_if_better(&mut self, effects: &mut Vec<Effect>) {
        if !self.may_plan() {
            return;
        }
        self.take_levels();
        let problem = self.problem();
        let plan = problem.solve();
        if plan.moves(&problem.current).next().is_some() {
            self.lease(&plan, effects);
        }
        self.note_surplus();
    }

    fn lease(&mut self, Plan(targets): &Plan, effects: &mut Vec<Effect>) {
        let (low, newest, given) = (self.low(), self.newest(), self.now);
        let mut moved = 0;
        for partition in (0..self.rules.tree.partitions()).map(PartitionId) {
            let target = targets.get(&partition).copied();
            if is_only(self.leases.get(partition), target) {
                continue;
            }
            let first = self.uncovered(partition);
            self.leases.alter(partition, |held| {
                held.retain(|lease| lease.until.is_none_or(|until| until > low));
                let standing = held.last().copied().filter(|lease| lease.until.is_none());
                match (standing, target) {
                    (None, None) => {}
                    (None, Some(holder)) => {
                        let from = held.last().and_then(|lease| lease.until).unwrap_or(first);
                        held.push(Held {
                            holder,
                            from,
                            until: None,
                            given,
                        });
                        moved += 1;
                    }
                    (Some(lease), Some(holder)) if lease.holder == holder => {}
                    (Some(_), target) => {
                        hand_over(held, Step(newest.0 + 1), target.map(|to| (to, given)));
                        moved += 1;
                    }
                }
            });
        }
        self.note_pauses();
        self.deal_audits();
        self.generation = self.generation.next();
        if self.generation.number > 1 && moved > 0 {
            self.counters.members.reassigned += moved;
            effects.push(Effect::Tell(Fact::Moved { leases: moved }));
        }
        self.assign_all(effects);
    }

    fn problem(&self) -> Problem {
        let current = self.leases.iter().filter_map(|(partition, held)| {
            let standing = held.last().filter(|lease| lease.until.is_none())?;
            Some((*partition, standing.holder))
        });
        // A job gets its minimum at once or holds nothing (PROTOCOL 32).
        let enough = self.has_minimum();
        let members: SortedMap<Incarnation, MemberLoad> = self
            .active()
            .filter(|_| enough)
            .take(self.settings.max_workers as usize)
            .map(|member| {
                let speed = self.planned_level(member);
                (
                    member,
                    MemberLoad {
                        speed,
                        accepts: true,
                    },
                )
            })
            .collect();
        Problem {
            partitions: self.rules.tree.partitions(),
            members,
            current: current.collect(),
        }
    }

    /// Tells a member all that it holds.
    pub(super) fn assign(&self, member: Incarnation, effects: &mut Vec<Effect>) {
        let held = self.leases.of(member);
        let leases = held.map(|(partition, lease)| lease.of(partition)).collect();
        self.assign_leases(member, leases, effects);
    }

    /// Tells everybody; looks at each lease once, and not once for each member.
    pub(super) fn assign_all(&self, effects: &mut Vec<Effect>) {
        let mut held: SortedMap<Incarnation, Vec<Lease>> = SortedMap::new();
        for (partition, leases) in self.leases.iter() {
            for lease in leases {
                let of = held.entry(lease.holder).or_default();
                of.push(lease.of(*partition));
            }
        }
        for member in self.members.ids() {
            let leases = held.remove(&member).unwrap_or_default();
            self.assign_leases(member, leases, effects);
        }
    }

    fn assign_leases(&self, member: Incarnation, leases: Vec<Lease>, effects: &mut Vec<Effect>) {
        let Some(state) = self.members.get(member) else {
            return;
        };
        // Nobody can work before slices are served, or before it is known how far they are.
        let joining = state.stage() == Stage::Joining;
        if joining || self.is_unserved() || !self.may_plan() {
            return;
        }
        let assignment = Assignment {
            generation: self.generation,
            timeline: self.branch.timeline,
            map: self.branch.map,
            views: self.views.clone(),
            leases,
            audits: self.audits_of(member),
        };
        effects.push(Effect::Say(member, CoordinatorSays::Assign(assignment)));
    }
}

/// Whether nothing but a standing lease of the wanted holder is on the partition.
fn is_only(held: &[Held], target: Option<Incarnation>) -> bool {
    match held {
        [] => target.is_none(),
        [lease] => lease.until.is_none() && Some(lease.holder) == target,
        _ => false,
    }
}

/// Ends the standing lease at `step`, or takes it back whole if it begins no earlier; `target` holds
/// from then on.
fn hand_over(held: &mut Vec<Held>, step: Step, target: Option<(Incarnation, Time)>) {
    let standing = held.last_mut().expect("the caller saw a standing lease");
    let mut from = step;
    if standing.from >= step {
        from = standing.from;
        held.pop();
    } else {
        standing.until = Some(step);
    }
    let Some((holder, given)) = target else {
        return;
    };
    match held.last_mut() {
        // It gets back what it was to hand over.
        Some(before) if before.holder == holder => before.until = None,
        Some(_) | None => held.push(Held {
            holder,
            from,
            until: None,
            given,
        }),
    }
}
