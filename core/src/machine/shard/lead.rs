//! A primary with a backup: what it shows it, what waits for it, and when it is in sync.

use super::mirror::{BEHIND, Copying, Mirror, Unacknowledged};
use super::record::Pledge;
use super::{Effect, Follower, Phase, Role, Shard, Sync};
use crate::id::Step;
use crate::message::ReplicaSays;
use crate::vote::Vote;

impl Shard {
    fn mirror(&self) -> Option<&Mirror> {
        match &self.role {
            Role::Primary(mirror) => mirror.as_ref().filter(|mirror| mirror.follows()),
            Role::Backup(_) => None,
        }
    }

    fn any_mirror(&mut self) -> Option<&mut Mirror> {
        match &mut self.role {
            Role::Primary(mirror) => mirror.as_mut(),
            Role::Backup(_) => None,
        }
    }

    fn waits(&self) -> bool {
        let waited_for = |mirror: &Mirror| mirror.sync == Sync::InSync;
        matches!(&self.role, Role::Primary(Some(mirror)) if waited_for(mirror))
    }

    /// Whether one more step may be unacknowledged.
    pub(super) fn may_lead(&self) -> bool {
        self.mirror().is_none_or(|mirror| !mirror.held_up)
    }

    /// Whether the version that is there must not be seen yet.
    pub(super) fn awaits_record(&self) -> bool {
        let made = self.step.next();
        self.waits() && self.mirror().is_none_or(|mirror| mirror.has < Some(made))
    }

    /// Casts a vote: at once, or when the backup stands by it.
    pub(super) fn pledge(&mut self, vote: Vote, effects: &mut Vec<Effect>) {
        let step = vote.step;
        let follows = self.mirror().is_some();
        if follows {
            self.show(vote.clone(), effects);
        }
        let stands_by = self.mirror().is_some_and(|mirror| mirror.stands_by(step));
        if self.waits() && !stands_by {
            self.phase = Phase::Pledging(vote);
        } else {
            self.send_vote(vote, effects);
        }
    }

    /// Sends the open step's pledge and root to the backup.
    fn show(&mut self, vote: Vote, effects: &mut Vec<Effect>) {
        let (step, view, summed) = (self.step, self.origin.view, self.summed());
        let mirror = self.any_mirror().expect("seen by the caller");
        let pledge = Pledge { vote, summed };
        let votes = None;
        mirror.sent.insert(step, Unacknowledged { pledge, votes });
        mirror.held_up |= mirror.sent.len() >= BEHIND;
        mirror.says(step, view, effects);
    }

    /// Sends the votes of the open step, which are all here, to the backup.
    pub(super) fn record_to_backup(&mut self, effects: &mut Vec<Effect>) {
        let (step, view) = (self.step, self.origin.view);
        let votes: Vec<Vote> = self.votes[&step].values().cloned().collect();
        if let Some(mirror) = self.any_mirror()
            && let Some(sent) = mirror.sent.get_mut(&step)
        {
            sent.votes = Some(votes);
            mirror.says_record(step, view, effects);
        }
    }

    /// Makes the copy that the backup asked for, while the newest version is at rest.
    pub(super) fn copy_if_asked(&mut self, effects: &mut Vec<Effect>) {
        let moving = matches!(self.phase, Phase::Applying(_) | Phase::Made { .. });
        let (step, view) = (self.step, self.origin.view);
        let previous = step.0.checked_sub(1).map(Step);
        let votes = previous.and_then(|previous| self.votes.get(&previous));
        let votes = votes.map_or_else(Vec::new, |votes| votes.values().cloned().collect());
        let Some(mirror) = self.any_mirror() else {
            return;
        };
        if mirror.copying != Copying::Asked || moving {
            return;
        }
        mirror.copying = Copying::From(step);
        mirror.sent.clear();
        mirror.held_up = false;
        effects.push(Effect::DropRoots { before: step });
        effects.push(Effect::SendCopy { view, step, votes });
        let cast = self.votes.get(&step);
        let cast = cast.and_then(|votes| votes.get(&self.slice()));
        let own = match &self.phase {
            Phase::Pledging(vote) => Some(vote),
            Phase::Collecting
            | Phase::Combining
            | Phase::Voted
            | Phase::Applying(_)
            | Phase::Made { .. }
            | Phase::Following
            | Phase::Resting => cast,
        };
        if let Some(vote) = own.cloned() {
            self.show(vote, effects);
        }
    }

    pub(super) fn heard_backup(&mut self, says: ReplicaSays, effects: &mut Vec<Effect>) {
        match says {
            ReplicaSays::Pledged { step, .. } => self.pledged(step, effects),
            ReplicaSays::Recorded { step, .. } => self.backup_has(step.next(), effects),
            ReplicaSays::Lacks { step: None, .. } => {
                if let Some(mirror) = self.any_mirror()
                    && mirror.has.is_none()
                {
                    mirror.copying = Copying::Asked;
                }
                self.copy_if_asked(effects);
            }
            ReplicaSays::Lacks {
                step: Some(step), ..
            } => self.lacks(step, effects),
            // A primary's words: nobody says them to a primary.
            ReplicaSays::Copy { .. } | ReplicaSays::Pledge { .. } | ReplicaSays::Record { .. } => {}
        }
    }

    fn pledged(&mut self, step: Step, effects: &mut Vec<Effect>) {
        let open = self.step;
        let Some(mirror) = self.any_mirror() else {
            return;
        };
        if step > open {
            return;
        }
        mirror.pledged = mirror.pledged.max(Some(step));
        self.stood_by(effects);
        self.catch_up(effects);
    }

    /// The backup has this version: all that went into the steps before.
    fn backup_has(&mut self, version: Step, effects: &mut Vec<Effect>) {
        let open = self.step;
        let Some(mirror) = self.any_mirror() else {
            return;
        };
        let Copying::From(copied) = mirror.copying else {
            return;
        };
        let made = mirror
            .sent
            .get(&open)
            .is_some_and(|sent| sent.votes.is_some());
        let newest = if made { open.next() } else { open };
        if version < copied || version > newest {
            return;
        }
        if mirror.has < Some(version) {
            mirror.has = Some(version);
            mirror.held_up &= version < open;
            mirror.sent.retain(|step, _| *step >= version);
            effects.push(Effect::DropRoots { before: version });
        }
        self.stood_by(effects);
        self.publish_if_recorded(effects);
        self.catch_up(effects);
    }

    fn lacks(&mut self, version: Step, effects: &mut Vec<Effect>) {
        let Some(mirror) = self.any_mirror() else {
            return;
        };
        match mirror.copying {
            Copying::From(copied) => {
                // Before that, a newer copy is on its way: what follows on the older one is gone.
                if copied <= version {
                    self.backup_has(version, effects);
                    self.send_again(effects);
                }
            }
            Copying::Unasked => {
                mirror.copying = Copying::Asked;
                self.copy_if_asked(effects);
            }
            Copying::Asked => {}
        }
    }

    /// Sends all that was not acknowledged.
    pub(super) fn send_again(&self, effects: &mut Vec<Effect>) {
        if let Some(mirror) = self.mirror() {
            for step in mirror.sent.keys() {
                mirror.says(*step, self.origin.view, effects);
            }
        }
    }

    fn stood_by(&mut self, effects: &mut Vec<Effect>) {
        let stands_by = self
            .mirror()
            .is_some_and(|mirror| mirror.stands_by(self.step));
        if stands_by {
            self.vote_at_last(effects);
        }
    }

    fn vote_at_last(&mut self, effects: &mut Vec<Effect>) {
        if let Phase::Pledging(vote) = &self.phase {
            self.send_vote(vote.clone(), effects);
        }
    }

    fn publish_if_recorded(&mut self, effects: &mut Vec<Effect>) {
        if matches!(self.phase, Phase::Made { .. }) && !self.awaits_record() {
            self.publish_at_last(effects);
        }
    }

    fn publish_at_last(&mut self, effects: &mut Vec<Effect>) {
        match std::mem::replace(&mut self.phase, Phase::Voted) {
            Phase::Made { decision, digests } => self.publish(decision, digests, effects),
            other => self.phase = other,
        }
    }

    /// From the moment that the backup has all that anybody has seen, it is waited for; only then
    /// may it be recorded as in sync. What nobody else keeps for the ledger must be there first.
    fn catch_up(&mut self, effects: &mut Vec<Effect>) {
        let (open, view, slice) = (self.step, self.origin.view, self.slice());
        let voted = self
            .votes
            .get(&open)
            .is_some_and(|votes| votes.contains_key(&slice));
        let oldest = self.records.keys().next().copied();
        let Some(mirror) = self.any_mirror() else {
            return;
        };
        let Copying::From(copied) = mirror.copying else {
            return;
        };
        let stands_by = !voted || mirror.stands_by(open);
        let told = oldest.is_none_or(|oldest| oldest >= copied);
        if mirror.sync == Sync::Copying && mirror.has >= Some(open) && stands_by && told {
            mirror.sync = Sync::InSync;
            effects.push(Effect::InSync(view));
        }
    }

    /// Says again, by timer, what was not acknowledged; not the roots, which only a lost link
    /// loses: the backup asks for them.
    pub(super) fn remind(&mut self, effects: &mut Vec<Effect>) {
        self.catch_up(effects);
        let view = self.origin.view;
        let Role::Primary(Some(mirror)) = &self.role else {
            return;
        };
        for (step, sent) in &mirror.sent {
            if mirror.pledged < Some(*step) {
                effects.push(Effect::Mirror(sent.pledge.says(view)));
            }
            mirror.says_record(*step, view, effects);
        }
        if (mirror.sync, mirror.recorded) == (Sync::InSync, Sync::Copying) {
            effects.push(Effect::InSync(view));
        }
    }

    /// Forgets a copy that did not arrive; the backup will ask for another.
    pub(super) fn give_up_copy(&mut self, effects: &mut Vec<Effect>) {
        let before = self.step.next();
        let Some(mirror) = self.any_mirror() else {
            return;
        };
        if mirror.has.is_none() {
            mirror.copying = Copying::Unasked;
            mirror.sent.clear();
            mirror.held_up = false;
            effects.push(Effect::DropRoots { before });
        }
    }

    /// What a new view says of the backup. What waited for one that the view does not record as in
    /// sync is committed at once (PROTOCOL 3).
    pub(super) fn backup_is(&mut self, backup: Option<Follower>, effects: &mut Vec<Effect>) {
        let before = self.step.next();
        let Role::Primary(mirror) = &mut self.role else {
            unreachable!("seen by the caller")
        };
        match (mirror, backup) {
            (Some(mirror), Some(follower)) if mirror.is_recorded_by(follower) => {
                (mirror.sync, mirror.recorded) = (Sync::InSync, Sync::InSync);
                self.send_again(effects);
            }
            (mirror, backup) => {
                if mirror.take().is_some() {
                    effects.push(Effect::DropRoots { before });
                }
                *mirror = backup.map(Mirror::new);
                self.vote_at_last(effects);
                self.publish_at_last(effects);
            }
        }
    }
}
