//! Members and hosts that get no work yet, for having been lost again and again.

use super::crew::Standing;
use super::hosts::Host;
use super::{Effect, Job};
use crate::fact::Fact;
use crate::id::Incarnation;
use crate::time::Time;

impl Job {
    /// Says how long a member that is ready waits.
    pub(super) fn tell_held_back(&self, member: Incarnation, effects: &mut Vec<Effect>) {
        let Some(state) = self.members.get(member) else {
            return;
        };
        let Some(until) = state.held_back() else {
            return;
        };
        effects.push(self.delayed(&state.name, until));
    }

    /// The same of a host.
    pub(super) fn tell_host_held_back(&self, host: Incarnation, effects: &mut Vec<Effect>) {
        let host = self.hosting.hosts.get(&host);
        let held_back = host.and_then(|host| Some((&host.name, self.held_back(host)?)));
        effects.extend(held_back.map(|(name, until)| self.delayed(name, until)));
    }

    /// Until when a host is given no slice, if it has to wait.
    pub(super) fn held_back(&self, host: &Host) -> Option<Time> {
        host.held_back.filter(|until| self.now < *until)
    }

    fn delayed(&self, name: &str, until: Time) -> Effect {
        Effect::Tell(Fact::Delayed {
            name: name.into(),
            wait_ms: until.since(self.now).as_millis(),
            cause: "it was lost again and again".into(),
        })
    }

    /// Lets those work whose time has come. Nobody is held back from a run that would otherwise
    /// wait for its minimum.
    pub(super) fn readmit(&mut self, effects: &mut Vec<Effect>) {
        let (now, lacking) = (self.now, !self.has_minimum());
        let waiting = self.members.waiting().iter();
        let over: Vec<Incarnation> = waiting
            .take_while(|(until, _)| *until <= now || lacking)
            .map(|(_, member)| *member)
            .collect();
        for member in &over {
            let change = |standing: &mut Standing| standing.held_back = None;
            self.members.change(*member, change);
        }
        if !over.is_empty() {
            self.replan(effects);
            self.hand_out(effects);
        }
    }

    /// When the next one is let in.
    pub(super) fn readmitted_at(&self) -> Option<Time> {
        self.members.waiting().first().map(|(until, _)| *until)
    }
}
