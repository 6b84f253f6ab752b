//! What a primary knows of its backup: what it was sent and what it has.
//!
//! A backup in sync has every vote before another slice counts on it, and all that a version is made
//! of before anybody sees the version (PROTOCOL 12). One that is being copied is waited for by
//! nobody, except that it must not fall behind without a bound.

use super::record::Pledge;
use super::{Effect, Follower, Sync};
use crate::id::{Incarnation, Step, View};
use crate::message::ReplicaSays;
use crate::sorted::SortedMap;
use crate::vote::Vote;

/// Steps that a backup may have to acknowledge before its primary waits at a boundary: each holds a
/// root in memory.
pub(super) const BEHIND: usize = 8;

/// How far the copy of a backup is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copying {
    /// The backup asks for it, by timer.
    Unasked,
    /// It is made once no version is being made.
    Asked,
    /// It was made of this version; roots from here on follow.
    From(Step),
}

/// What the backup may need again.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unacknowledged {
    pub(super) pledge: Pledge,
    /// All votes of the step, once they are here.
    pub(super) votes: Option<Vec<Vote>>,
}

/// The backup of a primary.
#[derive(Clone, Debug)]
pub(super) struct Mirror {
    pub(super) who: Incarnation,
    /// Whether it is waited for; from then on for as long as it is the backup.
    pub(super) sync: Sync,
    /// What the view records: until that says so too, the coordinator is told again.
    pub(super) recorded: Sync,
    pub(super) copying: Copying,
    /// The newest version that it has all of.
    pub(super) has: Option<Step>,
    /// The newest step whose pledge it has.
    pub(super) pledged: Option<Step>,
    pub(super) sent: SortedMap<Step, Unacknowledged>,
    /// It fell behind by the bound: the next step waits until it has all, so that it is in sync
    /// after one pause.
    pub(super) held_up: bool,
}

impl Mirror {
    pub(super) fn new(follower: Follower) -> Self {
        Self {
            who: follower.incarnation,
            sync: follower.sync,
            recorded: follower.sync,
            copying: Copying::Unasked,
            has: None,
            pledged: None,
            sent: SortedMap::new(),
            held_up: false,
        }
    }

    /// Whether a view names it and says that it is in sync. One that is named without was given up
    /// in between, may have lost what it had, and is copied anew.
    pub(super) fn is_recorded_by(&self, follower: Follower) -> bool {
        self.who == follower.incarnation && follower.sync == Sync::InSync
    }

    /// Steps that it has yet to acknowledge, once it is copied or being copied.
    pub(super) fn behind(&self) -> Option<u64> {
        self.follows().then_some(self.sent.len() as u64)
    }

    pub(super) fn follows(&self) -> bool {
        matches!(self.copying, Copying::From(_))
    }

    /// Whether it has the pledge of a step that it must have before others hear the vote.
    pub(super) fn stands_by(&self, step: Step) -> bool {
        self.pledged >= Some(step) || self.has > Some(step)
    }

    pub(super) fn says(&self, step: Step, view: View, effects: &mut Vec<Effect>) {
        let sent = &self.sent[&step];
        effects.push(Effect::Mirror(sent.pledge.says(view)));
        if sent.pledge.has_root() {
            effects.push(Effect::SendRoot(step));
        }
        self.says_record(step, view, effects);
    }

    pub(super) fn says_record(&self, step: Step, view: View, effects: &mut Vec<Effect>) {
        if let Some(votes) = self.sent[&step].votes.clone() {
            effects.push(Effect::Mirror(ReplicaSays::Record { view, step, votes }));
        }
    }

    pub(super) fn check_invariants(&self) {
        assert!(self.sent.len() <= BEHIND, "what a backup lacks is bounded");
        let from = self.has.max(match self.copying {
            Copying::From(step) => Some(step),
            Copying::Unasked | Copying::Asked => None,
        });
        let first = self.sent.keys().next();
        assert!(first.is_none() || first.copied() >= from);
    }
}
