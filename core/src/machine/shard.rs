//! **Shard**: collects a step's contributions for one slice, votes, and applies what all votes say.
//!
//! It decides nothing about members. Weights are named by version: the kernel keeps exactly two,
//! `step` and `step - 1`, beside one pinned for a checkpoint and one for an evaluation
//! (PROTOCOL 11). Contributions are opaque handles.

mod collect;
mod commit;
mod event;
mod order;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{Incarnation, LinkId, MapNumber, SliceId, Step, Tensor, Timeline, View};
use crate::machine::Rules;
use crate::message::{ShardReport, SliceSays, StepRecord, Use, WorkerAsks};
use crate::time::Time;
use crate::tree::{Node, PartitionSet};
use crate::vote::{Decision, Flags, Vote};

pub use event::{Assigned, Effect, Event, Follower, Push, Sync};

/// Records kept for the ledger before the shard waits for the coordinator.
const RECORDS: usize = 1024;

/// Records repeated at a time while they are not acknowledged.
const REPEATED: usize = 16;

#[derive(Clone, Debug)]
struct Stored {
    tensor: Tensor,
    incarnation: Incarnation,
    samples: u64,
    weight: f64,
    loss_sum: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Phase {
    /// Contributions are taken.
    Collecting,
    /// The root is being summed.
    Combining,
    /// Voted; waiting for the others.
    Voted,
    /// The new version is being made.
    Applying(Decision),
    /// Nothing more is accepted: the run is over, stopped, sealed or halted here.
    Resting,
}

/// Where a slice starts: new, or restored from a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The slice.
    pub slice: SliceId,
    /// The branch of history.
    pub timeline: Timeline,
    /// The slice layout.
    pub map: MapNumber,
    /// The view it serves under.
    pub view: View,
    /// The version it has.
    pub step: Step,
}

/// The machine of one slice.
#[derive(Clone, Debug)]
pub struct Shard {
    rules: Rules,
    origin: Origin,
    step: Step,
    phase: Phase,
    with_samples: PartitionSet,
    nodes: BTreeMap<Node, Stored>,
    covered: PartitionSet,
    discarded: u64,
    votes: BTreeMap<Step, BTreeMap<SliceId, Vote>>,
    wanted: Flags,
    /// The first version that a rest is asked for at.
    rest_at: Option<Step>,
    sealing: bool,
    /// Blocks that were not finite, once halted.
    halted: Option<Vec<u32>>,
    cutting: Option<Step>,
    pinned: Option<Step>,
    links: BTreeSet<LinkId>,
    pulls: BTreeSet<(Step, LinkId, Use)>,
    records: BTreeMap<Step, StepRecord>,
    retry_at: Option<Time>,
}

impl Shard {
    /// A slice at its origin; `start` gets the effects of opening the first step.
    #[must_use]
    pub fn new(rules: Rules, origin: Origin, effects: &mut Vec<Effect>) -> Self {
        let mut shard = Self {
            rules,
            origin,
            step: origin.step,
            phase: Phase::Collecting,
            with_samples: PartitionSet::default(),
            nodes: BTreeMap::new(),
            covered: PartitionSet::default(),
            discarded: 0,
            votes: BTreeMap::new(),
            wanted: Flags::default(),
            rest_at: None,
            sealing: false,
            halted: None,
            cutting: None,
            pinned: None,
            links: BTreeSet::new(),
            pulls: BTreeSet::new(),
            records: BTreeMap::new(),
            retry_at: None,
        };
        shard.open(effects);
        shard
    }

    /// A replica as a view has it: a primary at its origin, or a backup that has nothing yet.
    #[must_use]
    pub fn begin(rules: Rules, origin: Origin, duty: Assigned, effects: &mut Vec<Effect>) -> Self {
        match duty {
            Assigned::Primary { .. } => Self::new(rules, origin, effects),
            Assigned::Backup => unreachable!("no host begins a replica yet"),
        }
    }

    /// Takes one event.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::LinkUp(link) => self.link_up(link, effects),
            Event::LinkDown(link) => {
                self.links.remove(&link);
                self.pulls.retain(|(_, l, _)| *l != link);
            }
            Event::Asked(
                link,
                WorkerAsks::Pull {
                    timeline,
                    map,
                    view,
                    step,
                    purpose,
                },
            ) => {
                if self.is_current(timeline, map, view) && self.links.contains(&link) {
                    self.pull(link, step, purpose, effects);
                }
            }
            Event::Pushed(link, push) => self.push(link, push, effects),
            Event::Slice(SliceSays::Vote(vote)) => self.vote_arrived(vote, effects),
            Event::Slice(SliceSays::AskVote {
                from,
                timeline,
                step,
            }) => {
                self.vote_asked(from, timeline, step, effects);
            }
            Event::Combined {
                step,
                squares,
                non_finite,
            } => {
                self.combined(step, squares, non_finite, effects);
            }
            Event::Applied {
                step,
                digests,
                finite,
            } => {
                self.applied(step, digests, finite, effects);
            }
            Event::Order(order) => self.order(order, effects),
            Event::View { .. }
            | Event::PeerUp
            | Event::PeerDown
            | Event::Replica(_)
            | Event::Root { .. }
            | Event::Copied { .. } => unreachable!("no host begins a replica yet"),
            Event::Tick => self.tick(now, effects),
        }
        self.advance(effects);
        if self.retry_at.is_none() {
            self.retry_at = Some(now + self.rules.retry());
        }
        self.check_invariants();
    }

    /// When `Tick` is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.retry_at
    }

    /// The newest version.
    #[must_use]
    pub fn version(&self) -> Step {
        self.step
    }

    /// The newest version that it has; `None` for a backup that was not copied yet.
    #[must_use]
    pub fn holds(&self) -> Option<Step> {
        Some(self.step)
    }

    fn slice(&self) -> SliceId {
        self.origin.slice
    }

    fn is_current(&self, timeline: Timeline, map: MapNumber, view: View) -> bool {
        (timeline, map, view) == (self.origin.timeline, self.origin.map, self.origin.view)
    }

    /// A version that is kept only to be scored is not trained on: its step is over.
    fn retained(&self, version: Step, purpose: Use) -> bool {
        let pinned = match purpose {
            Use::Train => None,
            Use::Evaluate => self.pinned,
        };
        let previous = self.step.0.checked_sub(1).map(Step);
        // While the next version is made, it takes the place of the previous one.
        let previous = previous.filter(|version| {
            *version >= self.origin.step && !matches!(self.phase, Phase::Applying(_))
        });
        version == self.step || Some(version) == previous || Some(version) == pinned
    }

    /// Begins the step that the newest version is for.
    fn open(&mut self, effects: &mut Vec<Effect>) {
        self.covered = PartitionSet::default();
        if self.step == self.rules.last() {
            self.phase = Phase::Resting;
            self.with_samples = PartitionSet::default();
        } else {
            self.with_samples = self.rules.sampling.with_samples(self.step);
        }
        self.pin(effects);
        self.progress(effects);
        let due: Vec<_> = self
            .pulls
            .iter()
            .copied()
            .filter(|(s, ..)| *s <= self.step)
            .collect();
        for (step, link, purpose) in due {
            self.pulls.remove(&(step, link, purpose));
            self.pull(link, step, purpose, effects);
        }
    }

    /// Keeps the newest version if it is to be scored and no other is.
    fn pin(&mut self, effects: &mut Vec<Effect>) {
        if self.pinned.is_none() && self.rules.evaluated(self.step) {
            self.pinned = Some(self.step);
            effects.push(Effect::Pin(self.step));
        }
    }

    fn progress(&self, effects: &mut Vec<Effect>) {
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
            behind: None,
        }));
    }

    /// Asks again for what has not come; the messages it stands for may have been lost.
    fn tick(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.retry_at.is_some_and(|at| now < at) {
            return;
        }
        self.retry_at = Some(now + self.rules.retry());
        if self.phase == Phase::Voted {
            let (from, timeline, step) = (self.slice(), self.origin.timeline, self.step);
            let here = &self.votes[&step];
            for slice in self
                .rules
                .slices
                .ids()
                .filter(|slice| !here.contains_key(slice))
            {
                effects.push(Effect::Tell(
                    slice,
                    SliceSays::AskVote {
                        from,
                        timeline,
                        step,
                    },
                ));
            }
        }
        self.progress(effects);
        self.tell_halt(effects);
        for record in self.records.values().take(REPEATED) {
            effects.push(Effect::Report(ShardReport::Committed(record.clone())));
        }
    }

    /// What must hold after every event.
    pub fn check_invariants(&self) {
        assert!(
            self.votes.len() <= 3,
            "votes of more than the previous, open and next step"
        );
        assert!(self.nodes.len() <= self.rules.tree.partitions() as usize);
        assert!(
            self.records.len() <= RECORDS,
            "the ledger's backlog is bounded"
        );
        if self.phase != Phase::Resting {
            assert!(self.step < self.rules.last(), "no step after the last");
        }
    }
}
