//! **Shard**: collects a step's contributions for one slice, votes, and applies what all votes say.
//!
//! It decides nothing about members. Weights are named by version: the kernel keeps exactly two,
//! `step` and `step - 1`, beside one pinned for a checkpoint and one for an evaluation
//! (PROTOCOL 11). Contributions are opaque handles.

mod backup;
mod collect;
mod commit;
mod copies;
#[cfg(test)]
mod copies_test;
mod event;
mod follow;
#[cfg(test)]
mod follow_test;
mod lead;
#[cfg(test)]
mod lead_test;
mod mirror;
mod order;
mod record;
mod repeat;
mod scored;
#[cfg(test)]
mod scored_test;
#[cfg(test)]
mod tests;
mod view;

use crate::id::{Incarnation, LinkId, MapNumber, SliceId, Step, Tensor, Timeline, View};
use crate::machine::Rules;
use crate::message::{SliceSays, StepRecord, Use, WorkerAsks};
use crate::sorted::{SortedMap, SortedSet};
use crate::time::Time;
use crate::tree::{Node, PartitionSet};
use crate::vote::{Decision, Flags, Vote};

use backup::Backup;
use copies::Comparison;
use mirror::Mirror;
use record::Summed;

pub use event::{Assigned, Effect, Event, Follower, Push, Sync};

/// Records kept for the ledger before the shard waits for the coordinator.
const RECORDS: usize = 1024;

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
    /// Its vote waits until the backup has it.
    Pledging(Vote),
    /// Voted; waiting for the others.
    Voted,
    /// The new version is being made.
    Applying(Decision),
    /// The new version is there and waits until the backup has all that it is made of.
    Made {
        decision: Decision,
        digests: Vec<[u8; 32]>,
    },
    /// A backup between two steps.
    Following,
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

/// What a replica is, with what only that has.
#[derive(Clone, Debug)]
enum Role {
    /// It serves; the backup, if the view has one.
    Primary(Option<Mirror>),
    Backup(Backup),
}

/// The machine of one slice.
#[derive(Clone, Debug)]
pub struct Shard {
    rules: Rules,
    /// With the newest view.
    origin: Origin,
    /// The first view under which it is the primary: frames of workers that know no later one count.
    since: View,
    role: Role,
    step: Step,
    phase: Phase,
    with_samples: PartitionSet,
    nodes: SortedMap<Node, Stored>,
    covered: PartitionSet,
    discarded: u64,
    comparing: Option<Comparison>,
    votes: SortedMap<Step, SortedMap<SliceId, Vote>>,
    /// The open step's vote as a lost primary pledged it, to be cast when the root is there.
    promised: Option<Vote>,
    /// The open step's root as a lost primary summed it.
    inherited: Option<(Summed, Tensor)>,
    wanted: Flags,
    /// The first version that a rest is asked for at.
    rest_at: Option<Step>,
    /// The version at which a rest was over.
    gone_on: Option<Step>,
    sealing: bool,
    /// Blocks that were not finite, once halted.
    halted: Option<Vec<u32>>,
    cutting: Option<Step>,
    pinned: Option<Step>,
    /// The newest version that is scored, or never will be.
    scored: Option<Step>,
    links: SortedSet<LinkId>,
    /// What workers wait for, with the version that each holds meanwhile.
    pulls: SortedMap<(Step, LinkId, Use), Option<Step>>,
    records: SortedMap<Step, StepRecord>,
    repeating: Option<repeat::Repeating>,
    answers: repeat::Answers,
    retry_at: Option<Time>,
}

impl Shard {
    /// A slice at its origin; `start` gets the effects of opening the first step.
    #[must_use]
    pub fn new(rules: Rules, origin: Origin, effects: &mut Vec<Effect>) -> Self {
        Self::begin(rules, origin, Assigned::Primary { backup: None }, effects)
    }

    /// A replica as a view has it: a primary at its origin, or a backup that has nothing yet.
    #[must_use]
    pub fn begin(rules: Rules, origin: Origin, duty: Assigned, effects: &mut Vec<Effect>) -> Self {
        let (role, phase) = match duty {
            Assigned::Primary { backup } => {
                (Role::Primary(backup.map(Mirror::new)), Phase::Collecting)
            }
            Assigned::Backup => (Role::Backup(Backup::default()), Phase::Following),
        };
        let mut shard = Self {
            rules,
            origin,
            since: origin.view,
            role,
            step: origin.step,
            phase,
            with_samples: PartitionSet::default(),
            nodes: SortedMap::new(),
            covered: PartitionSet::default(),
            discarded: 0,
            comparing: None,
            votes: SortedMap::new(),
            promised: None,
            inherited: None,
            wanted: Flags::default(),
            rest_at: None,
            gone_on: None,
            sealing: false,
            halted: None,
            cutting: None,
            pinned: None,
            scored: None,
            links: SortedSet::new(),
            pulls: SortedMap::new(),
            records: SortedMap::new(),
            repeating: None,
            answers: repeat::Answers::default(),
            retry_at: None,
        };
        match duty {
            Assigned::Primary { .. } => shard.open(effects),
            Assigned::Backup => shard.say_lacks(effects),
        }
        shard
    }

    /// Takes one event.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::LinkUp(link) => self.link_up(link, effects),
            Event::LinkDown(link) => {
                self.links.remove(&link);
                self.pulls.retain(|(_, l, _), _| *l != link);
            }
            Event::Asked(
                link,
                WorkerAsks::Pull {
                    timeline,
                    map,
                    view,
                    step,
                    purpose,
                    holds,
                },
            ) => {
                if self.is_current(timeline, map, view) && self.links.contains(&link) {
                    self.pull(link, (step, purpose), holds, effects);
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
            Event::Compared { same } => self.compared(same, effects),
            Event::Applied {
                step,
                digests,
                finite,
            } => match self.role {
                Role::Primary(_) => self.applied(step, digests, finite, effects),
                Role::Backup(_) => self.followed(step, digests, finite, effects),
            },
            Event::Order(order) => self.order(now, order, effects),
            Event::CoordinatorUp => self.tell_all_again(effects),
            Event::View { view, duty } => self.view_changed(view, duty, effects),
            Event::PeerUp => self.peer_up(effects),
            Event::PeerDown => self.peer_down(effects),
            Event::Replica(says) => self.replica_said(says, effects),
            Event::Root { view, step, tensor } => self.root(view, step, tensor, effects),
            Event::Copied { step } => self.copied(step, effects),
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
        match &self.role {
            Role::Primary(_) => Some(self.step),
            Role::Backup(backup) => backup.is_copied().then_some(self.step),
        }
    }

    /// The newest view that it knows: what its frames are labelled with.
    #[must_use]
    pub fn view(&self) -> View {
        self.origin.view
    }

    fn is_primary(&self) -> bool {
        matches!(self.role, Role::Primary(_))
    }

    fn slice(&self) -> SliceId {
        self.origin.slice
    }

    /// Any view under which this replica is the primary will do: who follows it, and whether this
    /// replica has heard of it yet, is nothing to a worker.
    fn is_current(&self, timeline: Timeline, map: MapNumber, view: View) -> bool {
        (timeline, map) == (self.origin.timeline, self.origin.map) && view >= self.since
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
            *version >= self.origin.step
                && !matches!(self.phase, Phase::Applying(_) | Phase::Made { .. })
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
        let later = self
            .pulls
            .split_off(&(self.step.next(), LinkId(0), Use::Train));
        for ((step, link, purpose), holds) in std::mem::replace(&mut self.pulls, later) {
            self.pull(link, (step, purpose), holds, effects);
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
            // One more for a step that a promoted backup had pledged.
            self.records.len() <= RECORDS + 1,
            "the ledger's backlog is bounded"
        );
        match &self.role {
            Role::Primary(mirror) => mirror.iter().for_each(Mirror::check_invariants),
            Role::Backup(backup) => backup.check_invariants(),
        }
        if !matches!(self.phase, Phase::Resting | Phase::Following) {
            assert!(self.step < self.rules.last(), "no step after the last");
        }
    }
}
