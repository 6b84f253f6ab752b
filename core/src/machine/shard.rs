//! **Shard**: collects a step's contributions for one slice, votes, and applies what all votes say.
//!
//! It decides nothing about members. Weights are named by version: the kernel keeps exactly two,
//! `step` and `step - 1`, beside one pinned for a checkpoint and one for an evaluation
//! (PROTOCOL 11). Contributions are opaque handles.

mod collect;
mod order;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{Incarnation, LinkId, MapNumber, SliceId, Step, Tensor, Timeline, View};
use crate::machine::Rules;
use crate::message::{ShardOrder, ShardReport, ShardSays, SliceSays, StepRecord, Use, WorkerAsks};
use crate::time::Time;
use crate::tree::{Node, PartitionSet};
use crate::vote::{Action, Decision, Flags, Vote, decide};

/// Records kept for the ledger before the shard waits for the coordinator.
const RECORDS: usize = 1024;

/// A contribution as it arrives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Push {
    /// The branch of history.
    pub timeline: Timeline,
    /// The slice layout.
    pub map: MapNumber,
    /// The view the worker knows.
    pub view: View,
    /// The step it was evaluated on.
    pub step: Step,
    /// The subtree it sums.
    pub node: Node,
    /// Who sent it.
    pub incarnation: Incarnation,
    /// Its values.
    pub tensor: Tensor,
    /// Rows in it.
    pub samples: u64,
    /// What its sum is divided by, with the others'.
    pub weight: f64,
    /// Sum of its losses.
    pub loss_sum: f64,
}

/// What happens to a shard.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A worker's link is open.
    LinkUp(LinkId),
    /// It is gone.
    LinkDown(LinkId),
    /// A worker asks.
    Asked(LinkId, WorkerAsks),
    /// A worker contributes.
    Pushed(LinkId, Push),
    /// Another slice speaks.
    Slice(SliceSays),
    /// The root of the step is summed.
    Combined {
        /// The step.
        step: Step,
        /// Per block: sum of squares of what would be applied.
        squares: Vec<f64>,
        /// Blocks that are not finite.
        non_finite: Vec<u32>,
    },
    /// Version `step + 1` exists.
    Applied {
        /// The step.
        step: Step,
        /// BLAKE3 of each block.
        digests: Vec<[u8; 32]>,
        /// Whether every new weight is finite.
        finite: bool,
    },
    /// The coordinator orders.
    Order(ShardOrder),
    /// The deadline passed.
    Tick,
}

/// What the shell does for a shard.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Give the tensor's memory back.
    Free(Tensor),
    /// Tell a worker.
    Say(LinkId, ShardSays),
    /// Stream a version's weights to a worker; a newer one for the same use supersedes it.
    SendWeights(LinkId, Step, Use),
    /// Sum the nodes in tree order; answered by `Combined`.
    Combine {
        /// The step.
        step: Step,
        /// Disjoint nodes that cover every partition with samples, in tree order.
        nodes: Vec<(Node, Tensor)>,
        /// What the sum is divided by.
        weight: f64,
    },
    /// Make version `step + 1` in place of `step - 1`; answered by `Applied`.
    Apply {
        /// The step.
        step: Step,
        /// How; never `Halt`.
        action: Action,
        /// What the sum is divided by.
        weight: f64,
    },
    /// Keep a copy of this version, the newest, for evaluation.
    Pin(Step),
    /// Drop that copy.
    Unpin(Step),
    /// Copy this version, the newest, with all optimizer state, and write it to the store.
    Cut(Step),
    /// Tell another slice.
    Tell(SliceId, SliceSays),
    /// Tell the coordinator.
    Report(ShardReport),
}

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
    sealing: bool,
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
            sealing: false,
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

    fn slice(&self) -> SliceId {
        self.origin.slice
    }

    fn is_current(&self, timeline: Timeline, map: MapNumber, view: View) -> bool {
        (timeline, map, view) == (self.origin.timeline, self.origin.map, self.origin.view)
    }

    fn retained(&self, version: Step) -> bool {
        let previous = self.step.0.checked_sub(1).map(Step);
        // While the next version is made, it takes the place of the previous one.
        let previous = previous.filter(|version| {
            *version >= self.origin.step && !matches!(self.phase, Phase::Applying(_))
        });
        version == self.step || Some(version) == previous || Some(version) == self.pinned
    }

    /// Moves on as far as what is there allows.
    fn advance(&mut self, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Collecting
            && self.records.len() < RECORDS
            && self.covered.includes(&self.with_samples)
        {
            self.phase = Phase::Combining;
            effects.push(Effect::Combine {
                step: self.step,
                nodes: self
                    .in_tree_order()
                    .map(|(node, stored)| (node, stored.tensor))
                    .collect(),
                weight: self.total(|stored| stored.weight),
            });
        }
        if self.phase == Phase::Voted
            && self.votes[&self.step].len() == usize::from(self.rules.slices.slices())
        {
            let decision = decide(&self.rules.votes, &self.votes[&self.step]);
            self.carry_out(decision, effects);
        }
    }

    fn carry_out(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        if decision.action == Action::Halt {
            let votes = self.votes[&self.step].values();
            let blocks = votes
                .flat_map(|vote| vote.non_finite.iter().copied())
                .collect();
            return self.halt(blocks, effects);
        }
        self.phase = Phase::Applying(decision);
        let weight = self.total(|stored| stored.weight);
        effects.push(Effect::Apply {
            step: self.step,
            action: decision.action,
            weight,
        });
    }

    fn halt(&mut self, blocks: Vec<u32>, effects: &mut Vec<Effect>) {
        self.phase = Phase::Resting;
        let (slice, timeline, step) = (self.slice(), self.origin.timeline, self.step);
        effects.push(Effect::Report(ShardReport::Halted {
            slice,
            timeline,
            step,
            blocks,
        }));
    }

    fn cast(&mut self, squares: Vec<f64>, non_finite: Vec<u32>, effects: &mut Vec<Effect>) {
        let flags = Flags {
            busy: self.cutting.is_some(),
            ..self.wanted
        };
        let (timeline, step, slice) = (self.origin.timeline, self.step, self.slice());
        let vote = Vote {
            timeline,
            step,
            slice,
            squares,
            non_finite,
            flags,
        };
        self.phase = Phase::Voted;
        for other in self.rules.slices.ids().filter(|other| *other != slice) {
            effects.push(Effect::Tell(other, SliceSays::Vote(vote.clone())));
        }
        self.votes.entry(step).or_default().insert(slice, vote);
    }

    fn applied(
        &mut self,
        step: Step,
        digests: Vec<[u8; 32]>,
        finite: bool,
        effects: &mut Vec<Effect>,
    ) {
        let Phase::Applying(decision) = self.phase else {
            unreachable!("only `Apply` is answered by `Applied`")
        };
        assert_eq!(step, self.step, "one apply at a time");
        if !finite {
            return self.halt(Vec::new(), effects);
        }
        self.record(decision, digests, effects);
        for (_, stored) in std::mem::take(&mut self.nodes) {
            effects.push(Effect::Free(stored.tensor));
        }
        // All slices voted for `step`, so all have version `step`: older votes are proven.
        self.votes.retain(|voted, _| *voted >= step);
        self.step = step.next();
        if decision.cut {
            self.wanted = Flags::default();
            self.cut(effects);
        }
        let rests = decision.stop || self.sealing;
        self.phase = if rests {
            Phase::Resting
        } else {
            Phase::Collecting
        };
        self.open(effects);
    }

    fn cut(&mut self, effects: &mut Vec<Effect>) {
        assert!(self.cutting.is_none(), "one cut in flight");
        self.cutting = Some(self.step);
        effects.push(Effect::Cut(self.step));
    }

    fn record(&mut self, decision: Decision, digests: Vec<[u8; 32]>, effects: &mut Vec<Effect>) {
        let skipped = decision.action == Action::Skip;
        let record = StepRecord {
            slice: self.slice(),
            timeline: self.origin.timeline,
            step: self.step,
            nodes: self.contributors(),
            samples: self.nodes.values().map(|stored| stored.samples).sum(),
            loss_sum: self.total(|stored| stored.loss_sum),
            weight: self.total(|stored| stored.weight),
            skipped,
            cut: decision.cut,
            cut_missed: decision.cut_missed,
            digests,
            discarded: std::mem::take(&mut self.discarded),
        };
        effects.push(Effect::Report(ShardReport::Committed(record.clone())));
        self.records.insert(self.step, record);
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
            resting: self.phase == Phase::Resting,
            voted: self
                .votes
                .get(&self.step)
                .is_some_and(|v| v.contains_key(&self.slice())),
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
        if let Some(record) = self.records.values().next() {
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
