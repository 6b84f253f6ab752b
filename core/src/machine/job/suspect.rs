//! Leaves that are not finite: believed only when a second evaluation has the same bits
//! (PROTOCOL 16).

use super::{Effect, Job, Note};
use crate::id::{Incarnation, PartitionId, Step};
use crate::message::{CoordinatorSays, ShardOrder};

/// A leaf of the open step that somebody found not finite.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspect {
    step: Step,
    digest: [u8; 32],
    by: Incarnation,
    asked: Option<Incarnation>,
    confirmed: bool,
}

impl Job {
    pub(super) fn non_finite(
        &mut self,
        by: Incarnation,
        step: Step,
        partition: PartitionId,
        digest: [u8; 32],
        effects: &mut Vec<Effect>,
    ) {
        if step != self.low() {
            return;
        }
        let fresh = Suspect {
            step,
            digest,
            by,
            asked: None,
            confirmed: false,
        };
        let suspect = self.suspects.entry(partition).or_insert(fresh);
        if suspect.asked != Some(by) {
            return self.ask_second(partition, effects);
        }
        if suspect.digest == digest {
            suspect.confirmed = true;
            effects.push(Effect::Note(Note::NonFinite(step, partition)));
            effects.push(Effect::Order(ShardOrder::Withhold { step }));
            return;
        }
        effects.push(Effect::Note(Note::Differs(step, partition, suspect.by)));
        *suspect = fresh;
        self.ask_second(partition, effects);
    }

    /// Another member, or the same if it is alone.
    fn ask_second(&mut self, partition: PartitionId, effects: &mut Vec<Effect>) {
        let Some(suspect) = self.suspects.get(&partition).copied() else {
            return;
        };
        if suspect.asked.is_some() || suspect.confirmed {
            return;
        }
        let second = self.active().find(|member| *member != suspect.by);
        let asked = second.or_else(|| self.active().next());
        self.suspects
            .insert(partition, Suspect { asked, ..suspect });
        self.ask(partition, effects);
    }

    fn ask(&self, partition: PartitionId, effects: &mut Vec<Effect>) {
        let Suspect { step, asked, .. } = self.suspects[&partition];
        if let Some(asked) = asked {
            let timeline = self.settings.timeline;
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
        for (partition, suspect) in &self.suspects {
            if suspect.confirmed {
                effects.push(Effect::Order(ShardOrder::Withhold { step: suspect.step }));
            } else {
                self.ask(*partition, effects);
            }
        }
    }

    /// The first confirmed leaf of a step, for the line that says why a run halts.
    pub(super) fn confirmed(&self, step: Step) -> Option<PartitionId> {
        let found = self
            .suspects
            .iter()
            .find(|(_, s)| s.confirmed && s.step == step);
        found.map(|(partition, _)| *partition)
    }
}
