//! Asynchronous jobs in small: slots pushed by holders that are replaced, over links that delay,
//! repeat and reorder, to slices that keep `next[slot]` (PROTOCOL 7). The rule alone is under test:
//! a slice's weights are the list of what it applied.

mod run;

use std::collections::{BTreeMap, BTreeSet};

pub use run::{Applied, run};

/// A slot: a share of the samples with a clock of its own.
pub type Slot = u32;

/// A bug in the rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// What was applied is remembered by incarnation too.
    IncarnationInKey,
    /// A checkpoint, and so a replica, has the weights but not `next[slot]`.
    NextNotKept,
    /// A new holder starts at the highest clock of the slices.
    StartsAtMax,
    /// Whoever is not the newest holder is applied without a look at the clock.
    ZombieBelieved,
}

/// A push: one slot's contribution of one clock to one slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// The slot.
    pub slot: Slot,
    /// Its clock; it names the samples.
    pub clock: u64,
    /// Who evaluated it: advice only.
    pub incarnation: u64,
}

/// One slice of an asynchronous job.
#[derive(Clone, Debug, Default)]
pub struct Slice {
    next: BTreeMap<Slot, u64>,
    /// For the plant whose key has the incarnation in it.
    seen: BTreeSet<(Slot, u64, u64)>,
    newest: BTreeMap<Slot, u64>,
    /// Every contribution applied, in order: the weights.
    pub applied: Vec<(Slot, u64)>,
}

impl Slice {
    /// The clock that is applied next.
    #[must_use]
    pub fn next(&self, slot: Slot) -> u64 {
        self.next.get(&slot).copied().unwrap_or(0)
    }

    /// Applies a push iff its clock is the slot's next one; `broken` replaces the rule.
    pub fn push(&mut self, push: Push, broken: Option<Broken>) {
        let Push {
            slot,
            clock,
            incarnation,
        } = push;
        let newest = self.newest.entry(slot).or_default();
        *newest = incarnation.max(*newest);
        let fenced = incarnation < *newest;
        let due = match broken {
            Some(Broken::IncarnationInKey) => self.seen.insert((slot, clock, incarnation)),
            Some(Broken::ZombieBelieved) if fenced => true,
            Some(Broken::ZombieBelieved | Broken::NextNotKept | Broken::StartsAtMax) | None => {
                clock == self.next(slot)
            }
        };
        if due {
            self.applied.push((slot, clock));
            let next = self.next(slot).max(clock + 1);
            self.next.insert(slot, next);
        }
    }

    /// The slice after a promotion of its replica or a restore of its checkpoint.
    #[must_use]
    pub fn restored(&self, broken: Option<Broken>) -> Self {
        let mut copy = self.clone();
        if broken == Some(Broken::NextNotKept) {
            copy.next.clear();
        }
        copy
    }
}

/// The clock at which a new holder starts: the lowest of the slices, so that none misses one.
#[must_use]
pub fn start(slices: &[Slice], slot: Slot, broken: Option<Broken>) -> u64 {
    let clocks = slices.iter().map(|slice| slice.next(slot));
    let clock = match broken {
        Some(Broken::StartsAtMax) => clocks.max(),
        Some(Broken::IncarnationInKey | Broken::NextNotKept | Broken::ZombieBelieved) | None => {
            clocks.min()
        }
    };
    clock.expect("a job has a slice")
}
