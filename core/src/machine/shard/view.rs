//! New views: who follows, and how a backup becomes the primary at its step.

use super::record::Pledge;
use super::{Assigned, Effect, Follower, Mirror, Phase, Role, Shard};
use crate::id::{SliceId, Step, Tensor, View};
use crate::job::Bits;
use crate::message::ReplicaSays;
use crate::sorted::SortedMap;
use crate::vote::{Vote, decide};

/// What is at a backup of the step that a lost primary had open.
pub(super) struct Left {
    pub(super) pledge: Option<Pledge>,
    pub(super) root: Option<Tensor>,
    pub(super) votes: SortedMap<SliceId, Vote>,
}

impl Shard {
    pub(super) fn view_changed(&mut self, view: View, duty: Assigned, effects: &mut Vec<Effect>) {
        if view <= self.origin.view {
            return;
        }
        self.origin.view = view;
        match (&self.role, duty) {
            (Role::Primary(_), Assigned::Primary { backup }) => self.backup_is(backup, effects),
            (Role::Backup(_), Assigned::Backup) => self.say_lacks(effects),
            (Role::Backup(_), Assigned::Primary { backup }) => {
                self.since = view;
                self.promote(backup, effects);
            }
            (Role::Primary(_), Assigned::Backup) => {
                unreachable!("a primary that was replaced begins anew")
            }
        }
    }

    /// The other replica speaks; under another view than the current it is not heard.
    pub(super) fn replica_said(&mut self, says: ReplicaSays, effects: &mut Vec<Effect>) {
        let view = match &says {
            ReplicaSays::Copy { view, .. }
            | ReplicaSays::Pledge { view, .. }
            | ReplicaSays::Record { view, .. }
            | ReplicaSays::Pledged { view, .. }
            | ReplicaSays::Recorded { view, .. }
            | ReplicaSays::Lacks { view, .. } => *view,
        };
        if view != self.origin.view {
            return;
        }
        match &self.role {
            Role::Primary(_) => self.heard_backup(says, effects),
            Role::Backup(_) => self.heard_primary(says, effects),
        }
    }

    pub(super) fn peer_up(&mut self, effects: &mut Vec<Effect>) {
        match &self.role {
            Role::Primary(_) => self.send_again(effects),
            Role::Backup(_) => self.say_lacks(effects),
        }
    }

    pub(super) fn peer_down(&mut self, effects: &mut Vec<Effect>) {
        match &self.role {
            Role::Primary(_) => self.give_up_copy(effects),
            Role::Backup(_) => self.primary_unlinked(),
        }
    }

    /// Becomes the primary at its version, of which all is here that anybody has seen, and goes on
    /// with the open step from what the lost primary left of it.
    pub(super) fn serve(
        &mut self,
        follower: Option<Follower>,
        left: Left,
        effects: &mut Vec<Effect>,
    ) {
        self.role = Role::Primary(follower.map(Mirror::new));
        let previous = self.step.0.checked_sub(1).map(Step);
        let previous = previous.and_then(|step| self.votes.get(&step));
        let stopped = previous.is_some_and(|votes| decide(&self.rules.votes, votes).stop)
            && self.gone_on != Some(self.step);
        self.phase = if stopped || self.halted.is_some() {
            Phase::Resting
        } else {
            Phase::Collecting
        };
        self.open(effects);
        self.inherit(left, effects);
        let sealed = self.sealing && self.promised.is_none();
        if sealed && self.phase == Phase::Collecting {
            self.phase = Phase::Resting;
        }
        if self.phase != Phase::Resting {
            self.ask_votes(effects);
        }
        self.say_coverage(effects);
        self.progress(effects);
        self.tell_halt(effects);
        self.repeat_records(effects);
    }

    /// The vote that was pledged may have been heard, so no other is cast.
    fn inherit(&mut self, left: Left, effects: &mut Vec<Effect>) {
        let Left {
            pledge,
            root,
            mut votes,
        } = left;
        let step = self.step;
        if self.halted.is_some() {
            effects.extend(root.map(Effect::Free));
            self.votes.insert(step, votes);
            return;
        }
        let own = votes.remove(&self.slice());
        self.votes.insert(step, votes);
        match (pledge, root) {
            (Some(Pledge { vote, summed }), Some(tensor)) => {
                self.pin_as_primary_did(effects);
                self.inherited = Some((summed, tensor));
                self.covered = self.with_samples.clone();
                effects.push(Effect::Load { step, tensor });
                self.send_vote(vote, effects);
            }
            (Some(pledge), None) if !pledge.has_root() => {
                self.pin_as_primary_did(effects);
                self.send_vote(pledge.vote, effects);
            }
            (pledge, root) => {
                effects.extend(root.map(Effect::Free));
                // Of another root it would not be the vote, and without its root nobody heard it.
                let promised = pledge.map(|pledge| pledge.vote).or(own);
                self.promised = promised.filter(|_| self.rules.bits == Bits::On);
            }
        }
    }
}
