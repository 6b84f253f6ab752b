//! How a run ends: all steps done, stopped at a checkpoint, halted, or given up.

use super::{Effect, Job, Outcome};
use crate::fact::Fact;
use crate::id::{SliceId, Step};
use crate::machine::saver;
use crate::message::{CoordinatorSays, HostTold, ShardOrder};
use crate::not_finite::{Found, remedy};
use crate::sorted::SortedSet;
use crate::time::Time;

/// A stop that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop {
    since: Time,
    sealed: bool,
    until: Until,
}

/// How long a stop is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Until the run has stopped, whichever coordinator it has by then.
    Done,
    /// As long as this coordinator lives.
    Gone,
}

/// The way out: first durable, then everybody is told (PROTOCOL 29).
#[derive(Clone, Debug)]
pub(super) struct Ending {
    outcome: Outcome,
    closed: bool,
}

impl Stop {
    /// The same stop, on a branch that begins now.
    pub(super) fn begin_again(&mut self, now: Time) {
        (self.since, self.sealed) = (now, false);
    }

    /// Whether it outlives the coordinator.
    pub(super) fn outlives(&self) -> bool {
        self.until == Until::Done
    }
}

impl Ending {
    /// How the run ends.
    pub(super) fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// Whether members are told that the run is over.
    pub(super) fn told(&self) -> bool {
        self.closed
    }
}

impl Outcome {
    /// As in reports and events.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Stopped(_) => "stopped",
            Self::Halted { .. } => "halted",
            Self::SaveFailed { .. } => "save-failed",
            Self::WaitedTooLong => "waited-too-long",
            Self::Outranked { .. } => "outranked",
        }
    }

    /// The first cause, where a run did not end well and it is not in the word.
    #[must_use]
    pub fn cause(&self) -> Option<&str> {
        match self {
            Self::Halted { cause, .. } | Self::Outranked { cause } => Some(cause),
            Self::SaveFailed { reason, .. } => Some(reason),
            Self::Finished | Self::Stopped(_) | Self::WaitedTooLong => None,
        }
    }
}

impl Job {
    pub(super) fn request_stop(&mut self, now: Time, until: Until, effects: &mut Vec<Effect>) {
        match &mut self.stop {
            Some(stop) if until == Until::Done => stop.until = until,
            Some(_) => {}
            None => {
                self.stop = Some(Stop {
                    since: now,
                    sealed: false,
                    until,
                });
                effects.push(Effect::Order(ShardOrder::RequestStop));
            }
        }
    }

    pub(super) fn stop_again(&self, effects: &mut Vec<Effect>) {
        if self.ending.is_some() {
            return;
        }
        if let Some(stop) = &self.stop {
            let order = if stop.sealed {
                ShardOrder::Seal
            } else {
                ShardOrder::RequestStop
            };
            effects.push(Effect::Order(order));
        }
        self.cut_at_rest(effects);
        self.reshard_again(effects);
    }

    /// Closes the open step to newcomers once more, if it was.
    pub(super) fn seal_again(&self, effects: &mut Vec<Effect>) {
        let sealed = self.stop.as_ref().is_some_and(|stop| stop.sealed);
        if sealed && self.ending.is_none() {
            effects.push(Effect::Order(ShardOrder::Seal));
        }
    }

    /// Has the version that the slices rest at cut, unless it is durable already.
    pub(super) fn cut_at_rest(&self, effects: &mut Vec<Effect>) {
        let wanted = |step: &Step| {
            self.ending.is_none() && self.durable < Some(*step) && !self.goes_on_from(*step)
        };
        if let Some(step) = self.resting_at().filter(wanted) {
            effects.push(Effect::Order(ShardOrder::CutHere { step }));
        }
    }

    /// The version that no slice can leave: all are there and one has not voted and never will.
    pub(super) fn resting_at(&self) -> Option<Step> {
        let (low, newest) = (self.low(), self.newest());
        let stuck = self
            .slices
            .values()
            .any(|slice| slice.resting && !slice.voted);
        (low == newest && stuck).then_some(low)
    }

    /// Ends the run as soon as what its end needs is there.
    pub(super) fn finish(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.ending.is_some() {
            return;
        }
        self.seal(now, effects);
        self.went_on();
        if let Some(base) = self.stops_unserved() {
            return self.end(Outcome::Stopped(base), effects);
        }
        let Some(step) = self.resting_at().filter(|_| self.halted.is_empty()) else {
            return;
        };
        if self.is_unasked(step) {
            return self.leave_unasked(step, effects);
        }
        let since = *self.at_last.get_or_insert(now);
        if self.recorded < step {
            return;
        }
        if self.durable < Some(step) {
            let late = since + self.rules.grace <= now;
            if let Some(reason) = self.unsaved.clone().filter(|_| late) {
                if self.is_resharding() && step < self.rules.last() {
                    return self.reshard_failed(step, &reason, effects);
                }
                self.end(
                    Outcome::SaveFailed {
                        durable: self.durable,
                        reason,
                    },
                    effects,
                );
            }
            return;
        }
        // What differs is told before the run ends, if it can be told soon.
        if self.awaits_audits() && now < since + self.rules.lease {
            return;
        }
        let sealed = self.stop.as_ref().is_some_and(|stop| stop.sealed);
        let scoring = !self.unscored_versions().is_empty();
        let last = step == self.rules.last();
        if last && (!self.rules.evaluated(step) || self.metrics.contains_key(&step)) {
            return self.end(Outcome::Finished, effects);
        }
        // Whoever can score it is gone, or does not do it in time: the next start does it.
        let given_up = sealed && (!last || self.active().next().is_none());
        if self.is_resharding() && !last {
            if !scoring {
                self.reshard_at(now, step, effects);
            }
            return;
        }
        if given_up || (!last && !scoring) {
            self.end(Outcome::Stopped(step), effects);
        }
    }

    /// Where a run stops whose slices nobody has been given: all that there is of it is the base of
    /// its branch, which is durable or the beginning.
    fn stops_unserved(&self) -> Option<Step> {
        let unserved = self.settings.hosts.is_some() && self.views.is_empty();
        let idle = unserved && self.hosting.keeping.is_none();
        self.stop.filter(|_| idle).map(|_| self.branch.base)
    }

    /// Versions that are kept for scoring or being scored.
    fn unscored_versions(&self) -> SortedSet<Step> {
        let pinned = self.slices.values().filter_map(|slice| slice.pinned);
        let under_way = self.evaluation.iter().map(|evaluation| evaluation.version);
        let mut versions: SortedSet<Step> = pinned.chain(under_way).collect();
        versions.retain(|version| !self.metrics.contains_key(version));
        versions
    }

    /// No step came within the grace of a stop: the open one is closed to newcomers.
    fn seal(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let grace = self.rules.grace;
        if let Some(stop) = self
            .stop
            .as_mut()
            .filter(|s| !s.sealed && s.since + grace <= now)
        {
            stop.sealed = true;
            effects.push(Effect::Order(ShardOrder::Seal));
        }
    }

    pub(super) fn slice_halted(
        &mut self,
        slice: SliceId,
        step: Step,
        blocks: &[u32],
        effects: &mut Vec<Effect>,
    ) {
        self.halted.insert(slice);
        if self.ending.is_some() {
            return;
        }
        let (place, found) = match (self.confirmed(step), blocks.first()) {
            (Some(partition), _) => (
                format!("the gradient of partition {partition} is not finite"),
                Found::Leaf(partition),
            ),
            (None, Some(block)) => (
                format!("the summed gradient of block {block} is not finite"),
                Found::Sum,
            ),
            (None, None) => (
                "the update made a weight that is not finite".into(),
                Found::Update,
            ),
        };
        // Before step 0 nothing is made that could be lost.
        let kept = match self.durable {
            _ if step == Step(0) => String::new(),
            Some(durable) => {
                format!(
                    "the newest checkpoint is of step {durable}, weights made after it are lost: "
                )
            }
            None => "there is no checkpoint, all weights are lost: ".into(),
        };
        let remedy = remedy(step, found, &self.rules.sampling);
        let cause = format!("step {step}: {place}; {kept}{remedy}");
        self.end(Outcome::Halted { step, cause }, effects);
    }

    pub(super) fn end(&mut self, outcome: Outcome, effects: &mut Vec<Effect>) {
        if self.ending.is_some() {
            return;
        }
        self.ending = Some(Ending {
            outcome: outcome.clone(),
            closed: false,
        });
        for version in self.unscored_versions() {
            self.not_evaluated(version, effects);
        }
        if self.has_halted() {
            effects.push(Effect::Saver(saver::Event::Over));
        }
        effects.push(Effect::Tell(Fact::Over {
            outcome: outcome.word().into(),
            cause: outcome.cause().map(str::to_owned),
        }));
        // Nothing is done after it is told that the run is over.
        self.remember(effects);
        effects.push(Effect::Close(outcome));
    }

    /// A later coordinator leads the run: nothing is written or told any more, not even the end.
    pub(super) fn outranked(&mut self, reign: u64, effects: &mut Vec<Effect>) {
        let own = self.settings.reign;
        let cause = format!(
            "a later coordinator (reign {reign}) leads this run, and this one (reign {own}) commands \
             nobody any more: go on with the state directory of the later one"
        );
        let outcome = Outcome::Outranked { cause };
        self.ending = Some(Ending {
            outcome: outcome.clone(),
            closed: false,
        });
        effects.push(Effect::Saver(saver::Event::Over));
        effects.push(Effect::Over(outcome));
    }

    /// Whether nothing of this run may become durable any more.
    pub(super) fn has_halted(&self) -> bool {
        let outcome = self.ending.as_ref().map(|ending| &ending.outcome);
        matches!(outcome, Some(Outcome::Halted { .. }))
    }

    /// Says once that a version is not scored.
    pub(super) fn not_evaluated(&mut self, version: Step, effects: &mut Vec<Effect>) {
        if self.unscored.insert(version) {
            effects.push(Effect::Tell(Fact::NotEvaluated { version }));
        }
    }

    pub(super) fn closed(&mut self, effects: &mut Vec<Effect>) {
        let Some(ending) = self.ending.as_mut().filter(|ending| !ending.closed) else {
            return;
        };
        ending.closed = true;
        for member in self.members.ids() {
            effects.push(Effect::Say(member, CoordinatorSays::Finished));
        }
        for host in self.hosting.hosts.keys() {
            effects.push(Effect::Host(*host, HostTold::Finished));
        }
        effects.push(Effect::Over(ending.outcome.clone()));
    }
}
