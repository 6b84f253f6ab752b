//! **Job**: who evaluates what, how far the slices are, and when the run is over.
//!
//! It never touches a tensor and is not on the way of a step: it leases partitions, moves them when
//! a member is lost, drained or new, keeps the ledger, and has test rows scored. Leases decide who is
//! asked, never what is accepted (PROTOCOL 8).

mod audit;
mod balance;
mod branch;
mod command;
mod copies;
mod crew;
mod evaluation;
mod event;
mod finish;
mod held_back;
mod hosts;
mod leases;
mod members;
mod minimum;
mod orders;
mod placement;
mod planning;
mod progress;
mod reshard;
mod served;
mod speed;
mod status;
mod stuck;
mod suspect;
mod table;
#[cfg(test)]
mod tests;
mod unfollowed;
mod views;
mod wish;

use std::collections::VecDeque;

use crate::fact::Fact;
use crate::id::{Generation, PartitionId, SliceId, Step};
use crate::ledger::Members;
use crate::machine::Rules;
use crate::machine::turns::Turns;
use crate::message::{Branch, SliceView, StepRecord};
use crate::sorted::{SortedMap, SortedSet};
use crate::time::Time;
use crate::tree::PartitionSet;

pub use audit::AuditCounts;
pub use evaluation::Metrics;
pub use event::{Command, Effect, Event, Outcome};
pub use status::{HostStatus, MemberStatus, SliceStatus, Status};
pub use wish::{Wanted, Wishes, Workers};

/// Settings beside the run's rules.
#[derive(Clone, Debug)]
pub struct Settings {
    /// This life of the coordinator.
    pub reign: u64,
    /// The branch of history that goes on, written down for good: one that this coordinator began,
    /// or with slices in hosts the one that they may still hold.
    pub branch: Branch,
    /// Where each slice of the branch is served, as written down for good; empty before slices were
    /// first placed on hosts.
    pub views: Vec<SliceView>,
    /// Where slices live; `None`: in the coordinator's process.
    pub hosts: Option<HostSettings>,
    /// The ledger has every record of the branch before this step.
    pub recorded: Step,
    /// The branch's chain lines after the newest durable version.
    pub chain: SortedMap<Step, [u8; 32]>,
    /// Chain lines after `base` of superseded branches, to be made again (PROTOCOL 2).
    pub superseded: SortedMap<Step, [u8; 32]>,
    /// Versions scored before.
    pub metrics: SortedMap<Step, Metrics>,
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
    /// What an earlier life was asked for and had not done.
    pub wishes: Wishes,
}

/// The processes that slices live in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostSettings {
    /// Hosts that are waited for before slices are first placed (at least 1).
    pub processes: u16,
    /// Replicas of each slice beside its primary: 0 or 1.
    pub replicas: u8,
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
    /// Steps that the slice's backup has yet to acknowledge.
    behind: Option<u64>,
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
#[derive(Clone, Debug)]
pub struct Job {
    rules: Rules,
    settings: Settings,
    branch: Branch,
    views: Vec<SliceView>,
    generation: Generation,
    members: crew::Crew,
    leases: table::Table,
    planning: planning::Planning,
    slices: SortedMap<SliceId, SliceState>,
    records: SortedMap<Step, SortedMap<SliceId, StepRecord>>,
    recorded: Step,
    suspects: SortedMap<PartitionId, suspect::Suspect>,
    evaluation: Option<evaluation::Evaluation>,
    audits: audit::Audits,
    differing: copies::Differing,
    metrics: SortedMap<Step, Metrics>,
    /// Versions whose score the store has not taken; shard processes keep them.
    untaken: SortedSet<Step>,
    /// Versions told to be not evaluated.
    unscored: SortedSet<Step>,
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
    kept: wish::Kept,
    /// Since when the slices rest.
    at_last: Option<Time>,
    /// Why the save of the version that they rest at fails.
    unsaved: Option<String>,
    below_min: Option<Time>,
    ending: Option<finish::Ending>,
    halted: SortedSet<SliceId>,
    hosting: hosts::Hosting,
    /// Chain lines after the newest durable version, to be made again after a rollback.
    chain: SortedMap<Step, [u8; 32]>,
    retry_at: Option<Time>,
    /// The time of the event that is taken, and of the first one.
    now: Time,
    began: Option<Time>,
    progress: stuck::Progress,
    /// When the plan last followed the speeds.
    speeds_at: Option<Time>,
    survey: speed::Survey,
    /// While members of an earlier life of the coordinator say what they hold.
    grace: Option<minimum::Grace>,
    /// Members that were lost since there were too few.
    absent: VecDeque<String>,
    checks: Turns,
}

impl Job {
    /// A job whose slices start from `settings.branch.base`.
    #[must_use]
    pub fn new(rules: Rules, settings: Settings) -> Self {
        let reign = settings.reign;
        let state = SliceState::at(settings.branch.base);
        let slices = rules.slices.with_slices(settings.branch.shards);
        let rules = Rules { slices, ..rules };
        Self {
            generation: Generation { reign, number: 0 },
            members: crew::Crew::default(),
            leases: table::Table::default(),
            planning: planning::Planning::default(),
            slices: rules
                .slices
                .ids()
                .map(|slice| (slice, state.clone()))
                .collect(),
            records: SortedMap::new(),
            recorded: settings.recorded,
            suspects: SortedMap::new(),
            evaluation: None,
            audits: audit::Audits::default(),
            differing: copies::Differing::default(),
            metrics: settings.metrics.clone(),
            untaken: SortedSet::new(),
            unscored: SortedSet::new(),
            judged: settings
                .metrics
                .keys()
                .next_back()
                .map_or(Step(0), |last| last.next()),
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
            kept: wish::Kept::Wishes(settings.wishes),
            at_last: None,
            unsaved: None,
            below_min: None,
            ending: None,
            halted: SortedSet::new(),
            hosting: hosts::Hosting::new(&settings),
            chain: settings.chain.clone(),
            retry_at: None,
            branch: settings.branch,
            views: settings.views.clone(),
            now: Time(0),
            progress: stuck::Progress::new(settings.branch.base),
            began: None,
            speeds_at: None,
            survey: speed::Survey::default(),
            grace: None,
            absent: VecDeque::new(),
            checks: Turns::default(),
            rules,
            settings,
        }
    }

    /// Takes one event.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        let first = effects.len();
        self.await_hosts(now);
        self.now = now;
        if self.began.is_none() {
            self.began = Some(now);
            self.progress.begin(now);
            self.begin_grace();
            self.take_up_wishes(effects);
        }
        match event {
            Event::Member(member) => self.member(now, member, effects),
            Event::Shard(report) => self.report(now, report, effects),
            Event::Commit(step) => self.commit(step, effects),
            Event::NotCommitted(step) => self.commit_over(step, effects),
            Event::Durable(step) => self.is_durable(step, effects),
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
            Event::Host(news) => self.host(now, news, effects),
            Event::Order(order) => effects.push(Effect::Order(order)),
            Event::OrderSlice(slice, order) => self.order_slice(slice, order, effects),
            Event::Taken(timeline, before) => self.taken(timeline, before, effects),
            Event::ScoreTaken(timeline, version) => self.score_taken(timeline, version, effects),
            Event::BranchKept(timeline) => self.branch_kept(now, timeline, effects),
            Event::ViewsKept => self.views_kept(effects),
            Event::KeepFailed(reason) => self.keep_failed(now, reason),
            Event::WishesFailed => self.wishes_failed(),
            Event::BaseDamaged(newest) => self.base_damaged(newest, effects),
            Event::Closed => self.closed(effects),
            Event::Outranked(reign) => self.outranked(reign, effects),
            Event::Tick => {}
        }
        self.end_grace(effects);
        self.readmit(effects);
        self.plan_when_due(effects);
        self.below_min(now, effects);
        self.record_members(effects);
        self.watch_progress(effects);
        self.finish(now, effects);
        self.settle(now, effects);
        self.remember(effects);
        if self.retry_at.is_none_or(|at| at <= now) {
            self.retry_at = Some(now + self.rules.retry());
            self.ask_again(now, effects);
            self.remember_again(effects);
        }
        self.ask_audits(effects);
        self.address_orders(first, effects);
        // Release builds leave it to the simulator.
        if cfg!(debug_assertions) && self.checks.take(self.members.len()) {
            self.check_invariants();
        }
    }

    /// When `Tick` is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let waits = [
            self.late_at(),
            self.readmitted_at(),
            self.hosts_deadline(),
            self.planning.due(),
            self.retry_at,
        ];
        waits.into_iter().flatten().min()
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

    /// What must hold after every event.
    pub fn check_invariants(&self) {
        assert!(
            self.newest() <= self.low().next(),
            "R2: slices differ by at most one version"
        );
        self.check_views();
        self.members.check();
        self.leases.check();
        for (partition, held) in self.leases.iter() {
            let ascending = held
                .windows(2)
                .all(|pair| pair[0].until == Some(pair[1].from));
            assert!(
                ascending,
                "holders of {partition} follow each other: {held:?}"
            );
            for lease in held {
                assert!(
                    self.members.has(lease.holder),
                    "M1: a holder is a live member"
                );
            }
        }
        let planned = self.may_plan() && self.planning.due().is_none();
        if self.ending.is_none() && planned && self.has_minimum() {
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
