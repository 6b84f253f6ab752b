//! **Job**: who evaluates what, how far the slices are, and when the run is over.
//!
//! It never touches a tensor and is not on the way of a step: it leases partitions, moves them when
//! a member is lost, drained or new, keeps the ledger, and has test rows scored. Leases decide who is
//! asked, never what is accepted (PROTOCOL 8).

mod evaluation;
mod finish;
mod leases;
mod members;
mod progress;
mod status;
mod suspect;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::fact::Fact;
use crate::id::{Generation, Incarnation, MapNumber, PartitionId, SliceId, Step, Timeline};
use crate::ledger::{Members, Record};
use crate::machine::Rules;
use crate::machine::fleet::Member;
use crate::machine::saver;
use crate::message::{CoordinatorSays, ShardOrder, ShardReport, SliceView, StepRecord};
use crate::time::Time;
use crate::tree::PartitionSet;

pub use evaluation::Metrics;
pub use status::{MemberStatus, Status};

/// What an operator may ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// So many workers are wanted; `train` starts them, surplus ones are drained.
    Scale(u32),
    /// This worker shall leave. If no more than wanted are here, one fewer is wanted: nobody takes
    /// its place until more are asked for.
    Drain(Incarnation),
    /// Checkpoint at the next step and end.
    Stop,
}

/// What happens to a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The fleet tells of a member.
    Member(Member),
    /// A shard reports.
    Shard(ShardReport),
    /// A version is durable.
    Durable(Step),
    /// A cut failed.
    Degraded(String),
    /// An operator commands.
    Command(Command),
    /// What `Close` asked for is durable.
    Closed,
    /// The deadline passed.
    Tick,
}

/// How a run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All steps are done and durable.
    Finished,
    /// Stopped early; this version is durable.
    Stopped(Step),
    /// A step could not be applied; weights are those before it.
    Halted {
        /// The step.
        step: Step,
        /// What was wrong, where, and what to do.
        cause: String,
    },
    /// The last version could not be saved in time; this one is durable.
    SaveFailed {
        /// The newest durable version.
        durable: Option<Step>,
        /// What the store said.
        reason: String,
    },
    /// There were too few workers for too long.
    WaitedTooLong,
}

/// What the shell does for a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Tell a member.
    Say(Incarnation, CoordinatorSays),
    /// Tell every slice.
    Order(ShardOrder),
    /// Append to the ledger; synced no later than the next commit.
    Append(Record),
    /// Tell the saver, after what was appended.
    Saver(saver::Event),
    /// Write down for good how the run ended; answered by `Closed`.
    Close(Outcome),
    /// End the coordinator, after everybody was told.
    Over(Outcome),
    /// Tell people: log, status and event file.
    Tell(Fact),
}

/// Settings beside the run's rules.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The branch of history that this coordinator began.
    pub timeline: Timeline,
    /// The slice layout.
    pub map: MapNumber,
    /// Where each slice is served.
    pub views: Vec<SliceView>,
    /// The version that the slices start from.
    pub base: Step,
    /// Chain lines after `base` of superseded branches, to be made again (PROTOCOL 2).
    pub superseded: BTreeMap<Step, [u8; 32]>,
    /// Whether a chain line that differs halts the run.
    pub bits: bool,
    /// Versions scored before.
    pub metrics: BTreeMap<Step, Metrics>,
    /// Digest of the data manifests; a worker with another is refused.
    pub data: String,
    /// Workers wanted at the start.
    pub workers: u32,
    /// No more than these hold leases.
    pub max_workers: u32,
    /// Give up after so long with fewer ready workers than `min_workers`.
    pub wait_below_min: Option<crate::time::Span>,
    /// See `wait_below_min`.
    pub min_workers: u32,
    /// The newest durable version.
    pub durable: Option<Step>,
    /// Who came and went before this life of the coordinator.
    pub members: Members,
}

#[derive(Clone, Debug)]
struct SliceState {
    /// The open step: the last reported one, or a later one that another slice's report proves.
    step: Step,
    /// The last reported one.
    seen: Step,
    covered: PartitionSet,
    pinned: Option<Step>,
    resting: bool,
    voted: bool,
}

/// Numbers that only grow, for status and report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Who came and went, since the run's first start.
    pub members: Members,
    /// Rows applied.
    pub samples: u64,
    /// Rows evaluated and not used.
    pub discarded: u64,
    /// Wanted checkpoints left out because one was being written.
    pub cuts_missed: u64,
    /// Steps skipped by policy.
    pub skipped: u64,
}

/// The machine of one job.
pub struct Job {
    rules: Rules,
    settings: Settings,
    generation: Generation,
    members: BTreeMap<Incarnation, members::State>,
    leases: BTreeMap<PartitionId, Vec<leases::Held>>,
    slices: BTreeMap<SliceId, SliceState>,
    records: BTreeMap<Step, BTreeMap<SliceId, StepRecord>>,
    recorded: Step,
    suspects: BTreeMap<PartitionId, suspect::Suspect>,
    evaluation: Option<evaluation::Evaluation>,
    metrics: BTreeMap<Step, Metrics>,
    /// Versions told to be not evaluated.
    unscored: BTreeSet<Step>,
    /// Versions before this one are scored, being scored, or told.
    judged: Step,
    wanted: u32,
    counters: Counters,
    /// What the ledger has of `counters.members`.
    members_recorded: Members,
    last_loss: Option<f64>,
    commits: VecDeque<(Time, u64)>,
    pace: progress::Pace,
    durable: Option<Step>,
    degraded: Option<String>,
    stop: Option<finish::Stop>,
    /// Since when the slices rest.
    at_last: Option<Time>,
    /// Why the save of the version that they rest at fails.
    unsaved: Option<String>,
    below_min: Option<Time>,
    ending: Option<finish::Ending>,
    halted: BTreeSet<SliceId>,
    retry_at: Option<Time>,
}

impl Job {
    /// A job whose slices start from `settings.base`.
    #[must_use]
    pub fn new(rules: Rules, settings: Settings) -> Self {
        let reign = settings.timeline.reign;
        let state = SliceState {
            step: settings.base,
            seen: settings.base,
            covered: PartitionSet::default(),
            pinned: None,
            resting: false,
            voted: false,
        };
        Self {
            generation: Generation { reign, number: 0 },
            members: BTreeMap::new(),
            leases: BTreeMap::new(),
            slices: rules
                .slices
                .ids()
                .map(|slice| (slice, state.clone()))
                .collect(),
            records: BTreeMap::new(),
            recorded: settings.base,
            suspects: BTreeMap::new(),
            evaluation: None,
            metrics: settings.metrics.clone(),
            unscored: BTreeSet::new(),
            judged: settings.base,
            wanted: settings.workers,
            counters: Counters {
                members: settings.members,
                ..Counters::default()
            },
            members_recorded: settings.members,
            last_loss: None,
            commits: VecDeque::new(),
            pace: progress::Pace::default(),
            durable: settings.durable,
            degraded: None,
            stop: None,
            at_last: None,
            unsaved: None,
            below_min: None,
            ending: None,
            halted: BTreeSet::new(),
            retry_at: None,
            rules,
            settings,
        }
    }

    /// Takes one event.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Member(member) => self.member(now, member, effects),
            Event::Shard(report) => self.report(now, report, effects),
            Event::Durable(step) => {
                self.durable = self.durable.max(Some(step));
                (self.degraded, self.unsaved) = (None, None);
                effects.push(Effect::Tell(Fact::Durable { version: step }));
                // The last cut may have been left out because this one was being written.
                self.cut_at_rest(effects);
            }
            Event::Degraded(reason) => {
                if self.degraded.as_ref() != Some(&reason) {
                    let cause = reason.clone();
                    effects.push(Effect::Tell(Fact::Degraded { cause }));
                }
                // A failure of an earlier version says nothing of the last one.
                self.unsaved = self.at_last.map(|_| reason.clone());
                self.degraded = Some(reason);
            }
            Event::Command(command) => self.command(now, command, effects),
            Event::Closed => self.closed(effects),
            Event::Tick => {}
        }
        self.below_min(now, effects);
        self.record_members(effects);
        self.finish(now, effects);
        if self.retry_at.is_none_or(|at| at <= now) {
            self.retry_at = Some(now + self.rules.retry());
            self.ask_again(effects);
        }
        self.check_invariants();
    }

    /// When `Tick` is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.retry_at
    }

    /// The lowest step that some slice has open: every step before it is committed everywhere.
    #[must_use]
    pub fn low(&self) -> Step {
        self.slices
            .values()
            .map(|slice| slice.step)
            .min()
            .expect("a run has at least one slice")
    }

    /// The newest version any slice has.
    fn newest(&self) -> Step {
        self.slices
            .values()
            .map(|slice| slice.step)
            .max()
            .expect("a run has at least one slice")
    }

    fn command(&mut self, now: Time, command: Command, effects: &mut Vec<Effect>) {
        match command {
            Command::Scale(wanted) => {
                self.wanted = wanted;
                self.drain_surplus(effects);
            }
            Command::Drain(incarnation) => {
                self.lower_wanted(incarnation);
                effects.push(Effect::Say(incarnation, CoordinatorSays::Drain));
                self.drain(incarnation, effects);
            }
            Command::Stop => self.request_stop(now, effects),
        }
    }

    /// What must hold after every event.
    pub fn check_invariants(&self) {
        assert!(
            self.newest() <= self.low().next(),
            "R2: slices differ by at most one version"
        );
        for (partition, held) in &self.leases {
            let ascending = held
                .windows(2)
                .all(|pair| pair[0].until == Some(pair[1].from));
            assert!(
                ascending,
                "holders of {partition} follow each other: {held:?}"
            );
            for lease in held {
                assert!(
                    self.members.contains_key(&lease.holder),
                    "M1: a holder is a live member"
                );
            }
        }
        if self.ending.is_none() && self.members.values().any(members::State::accepts) {
            let standing = self
                .leases
                .values()
                .filter(|held| held.last().is_some_and(|lease| lease.until.is_none()));
            let all = self.rules.tree.partitions() as usize;
            assert_eq!(
                standing.count(),
                all,
                "A1: every partition has a standing holder"
            );
        }
    }
}
