//! What an operator asked for and is not done yet. It outlives the coordinator that was asked.
//!
//! What there is to remember is a function of the job's state, taken again after every event, so
//! that nothing is remembered that took effect, was replaced or was given up.

use serde::{Deserialize, Serialize};

use super::finish::{Ending, Stop, Until};
use super::reshard::Reshard;
use super::{Effect, Job, Outcome};
use crate::fact::Fact;
use crate::id::Step;

/// What is still to be done, as it is written down for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wishes {
    /// Whether the run is to stop at the next step, with a checkpoint.
    pub stop: bool,
    /// Another number of slices.
    pub reshard: Option<Wanted>,
    /// Another number of workers.
    #[serde(default)]
    pub workers: Option<Workers>,
}

/// So many slices from a version on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Slices.
    pub shards: u16,
    /// The first version that will do.
    pub at: Step,
}

/// So many workers, for as long as coordinators are started for as many as the one that was asked:
/// whoever starts one for another number wants that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workers {
    /// Workers.
    pub wanted: u32,
    /// What the coordinator was started for.
    pub instead_of: u32,
}

/// What the store has, or was asked to take.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kept {
    /// These.
    Wishes(Wishes),
    /// Others than these, which could not be written: they are written again when it is time.
    Not(Wishes),
}

impl Wishes {
    /// Whether nothing is left to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl std::fmt::Display for Wishes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stop = self.stop.then(|| "a stop".to_owned());
        let reshard = self.reshard.map(|Wanted { shards, at }| match at {
            Step(0) => format!("{shards} shards"),
            at => format!("{shards} shards from step {at} on"),
        });
        let workers = self.workers.map(|workers| match workers.wanted {
            1 => "1 worker".to_owned(),
            wanted => format!("{wanted} workers"),
        });
        let all: Vec<String> = stop.into_iter().chain(reshard).chain(workers).collect();
        f.write_str(&all.join(" and "))
    }
}

impl Job {
    /// The first event: what an earlier life was asked for is asked for again. What cannot be any
    /// more, or is so already, is forgotten.
    pub(super) fn take_up_wishes(&mut self, effects: &mut Vec<Effect>) {
        let Wishes {
            stop,
            reshard,
            workers,
        } = self.settings.wishes;
        let started_for = self.settings.workers;
        if let Some(workers) = workers.filter(|workers| workers.instead_of == started_for) {
            self.wanted = workers.wanted.min(self.settings.max_workers);
        }
        if stop {
            self.request_stop(self.now, Until::Done, effects);
        }
        let reshard = reshard.filter(|Wanted { shards, at }| {
            let hosted = self.settings.hosts.is_some();
            hosted && *shards != self.branch.shards && *at < self.rules.last()
        });
        if let Some(Wanted { shards, at }) = reshard {
            self.hosting.reshard = Some(Reshard::Wanted { shards, at });
        }
        let wishes = self.wishes();
        if !wishes.is_empty() {
            effects.push(Effect::Tell(Fact::StillWanted { wishes }));
        }
    }

    /// Has what is left to do written down, if that is not what the store has.
    pub(super) fn remember(&mut self, effects: &mut Vec<Effect>) {
        let wishes = self.wishes();
        if wishes != self.known_wishes() {
            self.keep_wishes(wishes, effects);
        }
    }

    /// Tries once more what could not be written.
    pub(super) fn remember_again(&mut self, effects: &mut Vec<Effect>) {
        if let Kept::Not(wishes) = self.kept {
            self.keep_wishes(wishes, effects);
        }
    }

    /// The newest wishes are not written.
    pub(super) fn wishes_failed(&mut self) {
        self.kept = Kept::Not(self.known_wishes());
    }

    fn keep_wishes(&mut self, wishes: Wishes, effects: &mut Vec<Effect>) {
        self.kept = Kept::Wishes(wishes);
        effects.push(Effect::KeepWishes(wishes));
    }

    fn wishes(&self) -> Wishes {
        let outcome = self.ending.as_ref().map(Ending::outcome);
        let reshard = match self.hosting.reshard {
            Some(Reshard::Wanted { shards, at }) => Some(Wanted { shards, at }),
            Some(Reshard::GivenUp { .. }) | None => None,
        };
        let started_for = self.settings.workers;
        let workers = (self.wanted != started_for).then_some(Workers {
            wanted: self.wanted,
            instead_of: started_for,
        });
        match outcome {
            // Another coordinator's are not for this one to write.
            Some(Outcome::Outranked { .. }) => self.known_wishes(),
            Some(Outcome::Finished) => Wishes::default(),
            Some(
                Outcome::Stopped(_)
                | Outcome::Halted { .. }
                | Outcome::SaveFailed { .. }
                | Outcome::WaitedTooLong,
            ) => Wishes {
                stop: false,
                reshard,
                workers: None,
            },
            None => Wishes {
                stop: self.stop.as_ref().is_some_and(Stop::outlives),
                reshard,
                workers,
            },
        }
    }

    /// Those that the store was told of last.
    fn known_wishes(&self) -> Wishes {
        let (Kept::Wishes(wishes) | Kept::Not(wishes)) = self.kept;
        wishes
    }
}
