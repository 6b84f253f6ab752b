//! What a shard says of itself, and says again by timer: any message may have been lost.

use super::{Effect, Mirror, Phase, Role, Shard};
use crate::id::{SliceId, Step};
use crate::message::{ShardReport, SliceSays};
use crate::time::{Span, Time};

/// Records repeated at a time while they are not acknowledged.
pub(super) const REPEATED: usize = 16;

/// Rounds of the timer between two repetitions at most.
const RAREST: u64 = 8;

/// How long the coordinator takes to answer. One that is slow has what was said still before it: the
/// longer it takes, the more rarely is it said again, or repetitions alone would keep it busy.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Answers {
    /// A record that was sent, and since when it waits.
    waiting: Option<(Step, Time)>,
    /// How long the last such one waited.
    took: Span,
    /// Nothing is repeated before.
    not_before: Option<Time>,
}

/// Records that are sent again, part by part, while nothing says that they arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Repeating {
    /// The last one of this part.
    last: Step,
    /// The last one of all: newer ones were sent a moment ago, and none of them is lost before the
    /// timer says so.
    newest: Step,
}

impl Answers {
    /// Whether what waits for an answer, the newest record among it, is said again now.
    fn repeat(&mut self, now: Time, newest: Option<Step>, round: Span) -> bool {
        let Some(newest) = newest else {
            *self = Self::default();
            return true;
        };
        if self.not_before.is_some_and(|at| now < at) {
            return false;
        }
        let (_, since) = *self.waiting.get_or_insert((newest, now));
        let slowest = self.took.max(now.since(since)).times(2);
        self.not_before = Some(now + slowest.min(round.times(RAREST)));
        true
    }

    /// All records before a step are taken.
    fn came(&mut self, now: Time, before: Step) {
        if let Some((_, since)) = self.waiting.take_if(|(step, _)| *step < before) {
            self.took = now.since(since);
        }
    }
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
        let newest = self.records.keys().next_back().copied();
        if self.answers.repeat(now, newest, self.rules.retry()) {
            self.tell_again(effects);
        }
    }

    fn tell_again(&mut self, effects: &mut Vec<Effect>) {
        self.progress(effects);
        self.tell_halt(effects);
        self.repeat_records(effects);
    }

    /// The coordinator may be another one: how long it takes has to be seen anew.
    pub(super) fn tell_all_again(&mut self, effects: &mut Vec<Effect>) {
        self.answers = Answers::default();
        if self.is_primary() {
            self.tell_again(effects);
        }
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
    pub(super) fn recorded(&mut self, now: Time, before: Step, effects: &mut Vec<Effect>) {
        self.answers.came(now, before);
        self.records.retain(|step, _| *step >= before);
        if let Some(Repeating { newest, .. }) = self.repeating.take_if(|part| part.last < before) {
            self.repeating = self.repeat_part(newest, effects);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Span = Span::from_millis(500);

    /// In which of the rounds from `first` on something is said again.
    fn said(answers: &mut Answers, newest: u64, rounds: std::ops::Range<u64>) -> Vec<u64> {
        let again = |round: &u64| {
            let now = Time(0) + ROUND.times(*round);
            answers.repeat(now, Some(Step(newest)), ROUND)
        };
        rounds.filter(again).collect()
    }

    #[test]
    fn what_is_not_answered_is_said_ever_more_rarely() {
        let mut answers = Answers::default();
        assert_eq!(said(&mut answers, 0, 1..31), [1, 2, 4, 10, 18, 26]);
    }

    #[test]
    fn what_is_answered_late_is_said_again_after_twice_as_long() {
        let mut answers = Answers::default();
        assert_eq!(said(&mut answers, 3, 1..4), [1, 2]);
        let now = Time(0) + ROUND.times(4);
        answers.came(now, Step(3));
        assert_eq!(answers.took, Span(0), "step 3 is not among them");
        answers.came(now, Step(4));
        assert_eq!(answers.took, ROUND.times(3), "since round 1");
        assert_eq!(said(&mut answers, 9, 4..20), [4, 10, 18]);
        assert!(answers.repeat(now, None, ROUND));
        assert_eq!(
            said(&mut answers, 10, 20..24),
            [20, 21, 23],
            "all was answered"
        );
    }
}
