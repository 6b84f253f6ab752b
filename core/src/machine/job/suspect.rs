//! Leaves that are not finite: believed only when a second evaluation has the same bits
//! (PROTOCOL 16).

use super::crew::State;
use super::{Effect, Job};
use crate::fact::Fact;
use crate::id::{Incarnation, PartitionId, Step};
use crate::job::Bits;
use crate::message::{CoordinatorSays, ShardOrder};
use crate::sorted::SortedMap;

/// One evaluation of a leaf that was not finite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) step: Step,
    pub(super) digest: [u8; 32],
    pub(super) by: Incarnation,
    /// How often `by` has evaluated the leaf: the report itself may be repeated.
    pub(super) evaluations: u32,
}

/// A leaf of the open step that somebody found not finite.
#[derive(Clone, Debug)]
pub(super) struct Suspect {
    found: Found,
    /// Where `found` was made: a machine that is broken may fail alike in all its processes.
    machine: String,
    /// How many evaluations of each member are known: only a new one says something new.
    seen: SortedMap<Incarnation, u32>,
    asked: Option<Incarnation>,
    confirmed: bool,
}

impl Job {
    pub(super) fn non_finite(
        &mut self,
        partition: PartitionId,
        found: Found,
        effects: &mut Vec<Effect>,
    ) {
        let step = found.step;
        let contributes = self.rules.sampling.with_samples(step).contains(partition);
        if step != self.low() || !contributes {
            return;
        }
        let machine = self.members.get(found.by).map(|by| by.machine().to_owned());
        let machine = machine.unwrap_or_default();
        let fresh = || Suspect {
            found,
            machine: machine.clone(),
            seen: SortedMap::from([(found.by, found.evaluations)]),
            asked: None,
            confirmed: false,
        };
        let known = self.suspects.contains_key(&partition);
        let suspect = self.suspects.entry(partition).or_insert_with(fresh);
        let seen = suspect.seen.entry(found.by).or_insert(0);
        if !known || found.evaluations <= *seen {
            return self.ask_second(partition, effects);
        }
        *seen = found.evaluations;
        if suspect.confirmed {
            return;
        }
        let first = suspect.found;
        // Without the promise of bits two evaluations need not be the same (PROTOCOL 16).
        if first.digest == found.digest || self.rules.bits == Bits::Off {
            suspect.confirmed = true;
            effects.push(Effect::Tell(Fact::NonFinite { step, partition }));
            effects.push(Effect::Order(ShardOrder::Withhold { step }));
            return;
        }
        effects.push(Effect::Tell(Fact::Differs {
            step,
            partition,
            member: first.by,
        }));
        (suspect.found, suspect.machine, suspect.asked) = (found, machine, None);
        self.ask_second(partition, effects);
    }

    /// A member on another machine, else another one, or the same if it is alone.
    fn ask_second(&mut self, partition: PartitionId, effects: &mut Vec<Effect>) {
        let unasked = |suspect: &&Suspect| suspect.asked.is_none() && !suspect.confirmed;
        let Some(suspect) = self.suspects.get(&partition).filter(unasked) else {
            return;
        };
        let Found { step, by, .. } = suspect.found;
        // Whoever drains still works on the step, and may be the only one that does.
        let draining = self.members.draining().iter().copied();
        let able = self.active().chain(draining);
        let able = able.filter(|m| self.evaluates(*m, step));
        let nearness = |member: &Incarnation| {
            let at = self.members.get(*member).map(State::machine);
            (at == Some(&suspect.machine), *member == by, *member)
        };
        let asked = able.min_by_key(nearness);
        self.suspects
            .entry(partition)
            .and_modify(|suspect| suspect.asked = asked);
        self.ask(partition, effects);
    }

    /// Whether the member works on the step: whoever begins later ignores the question.
    fn evaluates(&self, member: Incarnation, step: Step) -> bool {
        self.leases.of(member).any(|(_, lease)| lease.covers(step))
    }

    fn ask(&self, partition: PartitionId, effects: &mut Vec<Effect>) {
        let Suspect { found, asked, .. } = &self.suspects[&partition];
        let step = found.step;
        if let Some(asked) = *asked {
            let timeline = self.branch.timeline;
            let says = CoordinatorSays::Reevaluate {
                timeline,
                step,
                partition,
            };
            effects.push(Effect::Say(asked, says));
        }
    }

    pub(super) fn suspect_lost(&mut self, lost: Incarnation, effects: &mut Vec<Effect>) {
        let open: Vec<PartitionId> = self.suspects.keys().copied().collect();
        for partition in open {
            let suspect = self.suspects.get_mut(&partition).expect("just listed");
            if suspect.asked == Some(lost) && !suspect.confirmed {
                suspect.asked = None;
                self.ask_second(partition, effects);
            }
        }
    }

    pub(super) fn suspects_again(&self, effects: &mut Vec<Effect>) {
        self.withhold_again(effects);
        for (partition, suspect) in &self.suspects {
            if !suspect.confirmed {
                self.ask(*partition, effects);
            }
        }
    }

    /// Has the step withheld of which a leaf is confirmed, if there is one.
    pub(super) fn withhold_again(&self, effects: &mut Vec<Effect>) {
        let mut suspects = self.suspects.values();
        if let Some(suspect) = suspects.find(|suspect| suspect.confirmed) {
            let step = suspect.found.step;
            effects.push(Effect::Order(ShardOrder::Withhold { step }));
        }
    }

    /// The first confirmed leaf of a step, for the line that says why a run halts.
    pub(super) fn confirmed(&self, step: Step) -> Option<PartitionId> {
        let found = self
            .suspects
            .iter()
            .find(|(_, s)| s.confirmed && s.found.step == step);
        found.map(|(partition, _)| *partition)
    }
}
