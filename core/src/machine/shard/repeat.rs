//! What a shard says of itself, and says again by timer: any message may have been lost.

use super::{Effect, Mirror, Phase, Role, Shard};
use crate::id::{SliceId, Step};
use crate::message::{ShardReport, SliceSays};
use crate::time::Time;

/// Records repeated at a time while they are not acknowledged.
pub(super) const REPEATED: usize = 16;

/// Records that are sent again, part by part, while nothing says that they arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeating {
    /// The last one of this part.
    last: Step,
    /// The last one of all: newer ones were sent a moment ago, and none of them is lost before the
    /// timer says so.
    newest: Step,
}

impl Shard {
    pub(super) fn progress(&self, effects: &mut Vec<Effect>) {
        let Role::Primary(mirror) = &self.role else {
            return;
        };
        effects.push(Effect::Report(ShardReport::Progress {
            slice: self.slice(),
            timeline: self.origin.timeline,
            step: self.step,
            covered: self.covered.clone(),
            pinned: self.pinned,
            cutting: self.cutting,
            resting: self.phase == Phase::Resting,
            voted: self
                .votes
                .get(&self.step)
                .is_some_and(|v| v.contains_key(&self.slice())),
            behind: mirror.as_ref().and_then(Mirror::behind),
            kept: self.records.keys().next().copied().unwrap_or(self.step),
        }));
    }

    /// Asks again for what has not come; the messages it stands for may have been lost.
    pub(super) fn tick(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.retry_at.is_some_and(|at| now < at) {
            return;
        }
        self.retry_at = Some(now + self.rules.retry());
        match &self.role {
            Role::Primary(_) => self.remind(effects),
            Role::Backup(_) => return self.look_for_more(effects),
        }
        if self.phase == Phase::Voted {
            self.ask_votes(effects);
        }
        self.say_coverage_again(effects);
        self.progress(effects);
        self.tell_halt(effects);
        self.repeat_records(effects);
    }

    /// Asks the other slices for the votes of the open step that are not here.
    pub(super) fn ask_votes(&self, effects: &mut Vec<Effect>) {
        let (from, timeline, step) = (self.slice(), self.origin.timeline, self.step);
        let here = self.votes.get(&step);
        let lacking = |slice: &SliceId| !here.is_some_and(|votes| votes.contains_key(slice));
        for slice in self.rules.slices.ids().filter(|s| *s != from && lacking(s)) {
            let ask = SliceSays::AskVote {
                from,
                timeline,
                step,
            };
            effects.push(Effect::Tell(slice, ask));
        }
    }

    /// The oldest records; those that follow are sent once these are acknowledged.
    pub(super) fn repeat_records(&mut self, effects: &mut Vec<Effect>) {
        let newest = self.records.keys().next_back().copied();
        self.repeating = newest.and_then(|newest| self.repeat_part(newest, effects));
    }

    fn repeat_part(&self, newest: Step, effects: &mut Vec<Effect>) -> Option<Repeating> {
        let part = self.records.range(..=newest).take(REPEATED);
        let mut repeating = None;
        for (last, record) in part {
            effects.push(Effect::Report(ShardReport::Committed(record.clone())));
            let last = *last;
            repeating = Some(Repeating { last, newest });
        }
        repeating
    }

    /// A coordinator that comes back lacks as many records as it missed steps: it gets them as fast
    /// as it takes them, and not by timer.
    pub(super) fn recorded(&mut self, before: Step, effects: &mut Vec<Effect>) {
        self.records.retain(|step, _| *step >= before);
        if let Some(Repeating { newest, .. }) = self.repeating.take_if(|part| part.last < before) {
            self.repeating = self.repeat_part(newest, effects);
        }
    }
}
