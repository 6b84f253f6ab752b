//! Members that get no work yet, for having been lost again and again.

use super::members::Stage;
use super::{Effect, Job};
use crate::fact::Fact;
use crate::id::Incarnation;
use crate::time::Time;

impl Job {
    /// Says how long a member that is ready waits.
    pub(super) fn tell_held_back(&self, member: Incarnation, effects: &mut Vec<Effect>) {
        let state = &self.members[&member];
        let Some(until) = state.held_back else {
            return;
        };
        effects.push(Effect::Tell(Fact::Delayed {
            name: state.name.clone(),
            wait_ms: until.since(self.now).as_millis(),
            cause: "it was lost again and again".into(),
        }));
    }

    /// Lets those work whose time has come. Nobody is held back from a run that would otherwise
    /// wait for its minimum.
    pub(super) fn readmit(&mut self, effects: &mut Vec<Effect>) {
        let (now, lacking) = (self.now, !self.has_minimum());
        let mut any = false;
        for state in self.members.values_mut() {
            let over = state.held_back.is_some_and(|until| until <= now || lacking);
            if over && state.stage == Stage::Active {
                state.held_back = None;
                any = true;
            }
        }
        if any {
            self.replan(effects);
            self.hand_out(effects);
        }
    }

    /// When the next one is let in.
    pub(super) fn readmitted_at(&self) -> Option<Time> {
        let waiting = self.members.values().filter(|s| s.stage == Stage::Active);
        waiting.filter_map(|state| state.held_back).min()
    }
}
