//! What is remembered of a trial: the faults, how long each held up the run, and how far the run
//! came meanwhile. Pure: looks and faults come in with their times.

use std::time::Duration;

use resilin_chaos::process::plan::Kind;
use resilin_core::{Step, Timeline};
use serde::Serialize;

/// The run at one moment, as the coordinator told it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Look {
    /// When it was asked.
    pub(crate) began: Duration,
    /// When the answer was there.
    pub(crate) at: Duration,
    /// Branch of history.
    pub(crate) timeline: Timeline,
    /// The newest committed version.
    pub(crate) step: Step,
    /// Workers that compute.
    pub(crate) active: usize,
}

/// A fault that was carried out, or had nobody to meet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Struck {
    /// Seconds since the first fault could come.
    pub(crate) at_s: f64,
    /// What it was.
    #[serde(skip)]
    pub(crate) kind: Kind,
    /// The same in words, with its numbers.
    pub(crate) fault: String,
    /// Whom it met; `None` if nobody of the kind was there.
    pub(crate) target: Option<String>,
    /// The newest step that was known to be committed.
    pub(crate) step: u64,
    /// From the fault to the first step that was committed after a look after it; `None` if none
    /// was.
    pub(crate) recovery_ms: Option<f64>,
}

/// A fault that no step has followed yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    number: usize,
    at: Duration,
    /// The first look that was asked for after the fault: a step that it does not know is later.
    mark: Option<(Timeline, Step)>,
}

/// A stretch of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    /// Its length.
    pub(crate) long: Duration,
    /// The version at its beginning.
    pub(crate) from: Step,
    /// The version at its end.
    pub(crate) to: Step,
}

/// The record of one run.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    /// What went wrong.
    pub(crate) struck: Vec<Struck>,
    /// Processes that ended by themselves and not in peace.
    pub(crate) unplanned: u64,
    workers: usize,
    open: Vec<Open>,
    /// The first look at which all workers computed.
    assembled: Option<Look>,
    /// The first look at the newest version.
    newest: Option<Look>,
    /// Where faults ended, if the run went on after them.
    calm: Option<Look>,
}

impl Record {
    /// An empty record of a run that is complete with so many workers.
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            struck: Vec::new(),
            unplanned: 0,
            workers,
            open: Vec::new(),
            assembled: None,
            newest: None,
            calm: None,
        }
    }

    /// The first look at which all workers computed.
    pub(crate) fn assembled(&self) -> Option<Look> {
        self.assembled
    }

    /// The newest committed version.
    pub(crate) fn step(&self) -> Step {
        self.newest.map_or(Step(0), |look| look.step)
    }

    /// A look at the run.
    pub(crate) fn saw(&mut self, look: Look) {
        let known = |newest: Look| (newest.timeline, newest.step) == (look.timeline, look.step);
        if !self.newest.is_some_and(known) {
            self.newest = Some(look);
        }
        if look.active >= self.workers {
            self.assembled.get_or_insert(look);
        }
        let struck = &mut self.struck;
        self.open.retain_mut(|open| match open.mark {
            Some((timeline, step)) if timeline == look.timeline && look.step > step => {
                let recovery = look.at.saturating_sub(open.at);
                struck[open.number].recovery_ms = Some(recovery.as_secs_f64() * 1e3);
                false
            }
            // A branch that begins later has to commit something of its own.
            Some((timeline, _)) if timeline == look.timeline => true,
            Some(_) | None => {
                if look.began >= open.at {
                    open.mark = Some((look.timeline, look.step));
                }
                true
            }
        });
    }

    /// A fault that was carried out at `at`.
    pub(crate) fn strike(&mut self, at: Duration, struck: Struck) {
        if struck.target.is_some() {
            self.open.push(Open {
                number: self.struck.len(),
                at,
                mark: None,
            });
        }
        self.struck.push(struck);
    }

    /// No fault comes any more.
    pub(crate) fn calm(&mut self, at: Duration) {
        self.calm = self.newest.map(|newest| Look { at, ..newest });
    }

    /// From the moment when all workers computed to the end of the faults, or of the run.
    pub(crate) fn stretch(&self) -> Option<Stretch> {
        let (first, last) = (self.assembled?, self.calm.or(self.newest)?);
        let long = last.at.checked_sub(first.at)?;
        (long > Duration::ZERO).then_some(Stretch {
            long,
            from: first.step,
            to: last.step,
        })
    }

    /// How many met somebody.
    pub(crate) fn met(&self) -> impl Iterator<Item = &Struck> {
        self.struck.iter().filter(|struck| struck.target.is_some())
    }
}

#[cfg(test)]
#[path = "record_test.rs"]
mod tests;
