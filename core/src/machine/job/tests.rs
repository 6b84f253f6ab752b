//! The job machine, driven event by event: the bench that all its tests share.

mod audits;
mod balance;
mod commits;
mod copies;
mod finish;
mod held_back;
mod hosts;
mod leases;
mod many;
mod minimum;
mod orders;
mod progress;
mod reshard;
mod restart;
mod scores;
mod slow;
mod suspects;
mod wishes;

use super::*;
use crate::id::{Incarnation, MapNumber, Timeline};
use crate::job::Bits;
use crate::layout::SliceMap;
use crate::ledger::Record;
use crate::machine::fleet::{Cause, Member};
use crate::machine::saver;
use crate::message::{
    Contributor, CoordinatorSays, Lease, ShardOrder, ShardReport, TaskScore, WorkerSays,
};
use crate::sampling::{Sampling, Shuffle};
use crate::time::Span;
use crate::tree::{Node, Tree};
use crate::vote::VoteRules;
use crate::{RunId, View};

const PARTITIONS: u32 = 4;

fn rules() -> Rules {
    Rules {
        run: RunId(1),
        sampling: Sampling::new(40, PARTITIONS, 5, Shuffle::Global, 1),
        tree: Tree::new(PARTITIONS),
        slices: SliceMap::new(4, 2),
        bits: Bits::On,
        votes: VoteRules {
            clip_norm: None,
            non_finite: crate::job::NonFinite::Skip,
            total_steps: 6,
            cut_every: None,
        },
        evaluate_every: Some(2),
        evaluation_tasks: 3,
        lease: Span::from_millis(1000),
        audit: crate::machine::audit::AuditRules::OFF,
        grace: Span::from_millis(2000),
        cut_interval: None,
    }
}

fn settings() -> Settings {
    Settings {
        reign: 7,
        branch: branch(),
        views: vec![SliceView {
            slice: SliceId(0),
            view: View::first(7),
            address: "a".into(),
            primary: None,
            backup: None,
        }],
        hosts: None,
        recorded: Step(0),
        chain: SortedMap::new(),
        superseded: SortedMap::new(),
        metrics: SortedMap::new(),
        data: "rows".into(),
        workers: 2,
        max_workers: 100,
        wait_below_min: None,
        min_workers: 1,
        durable: None,
        members: Members::default(),
        wishes: Wishes::default(),
    }
}

fn branch() -> Branch {
    Branch {
        timeline: timeline(),
        map: MapNumber(1),
        shards: 2,
        base: Step(0),
    }
}

fn timeline() -> Timeline {
    Timeline::first(7)
}

fn worker(number: u32) -> Incarnation {
    Incarnation { reign: 7, number }
}

fn record(slice: u16, step: u64) -> StepRecord {
    let node = Node { level: 2, index: 0 };
    StepRecord {
        slice: SliceId(slice),
        timeline: timeline(),
        step: Step(step),
        nodes: vec![Contributor {
            node,
            incarnation: worker(1),
            samples: 20,
        }],
        samples: 20,
        loss_sum: 10.0,
        weight: 20.0,
        skipped: false,
        cut: false,
        cut_missed: false,
        digests: vec![[step as u8; 32], [slice as u8; 32]],
        discarded: u64::from(slice),
    }
}

struct Bench {
    job: Job,
    now: Time,
}

impl Bench {
    fn new(settings: Settings) -> Self {
        Self {
            job: Job::new(rules(), settings),
            now: Time(0),
        }
    }

    fn with_workers(count: u32) -> Self {
        let mut bench = Self::new(settings());
        (1..=count).for_each(|number| drop(bench.join(number)));
        bench
    }

    fn event(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.job.step(self.now, event, &mut effects);
        effects
    }

    fn after(&mut self, millis: u64) -> Vec<Effect> {
        self.now = self.now + Span::from_millis(millis);
        self.event(Event::Tick)
    }

    fn join(&mut self, number: u32) -> Vec<Effect> {
        self.join_as(number, &format!("w{number}"))
    }

    fn join_as(&mut self, number: u32, name: &str) -> Vec<Effect> {
        let (incarnation, name) = (worker(number), name.to_owned());
        self.event(Event::Member(Member::Up { incarnation, name }));
        self.said(
            number,
            WorkerSays::Ready {
                data: "rows".into(),
            },
        )
    }

    fn said(&mut self, number: u32, says: WorkerSays) -> Vec<Effect> {
        self.event(Event::Member(Member::Said(worker(number), says)))
    }

    fn down(&mut self, number: u32) -> Vec<Effect> {
        self.event(Event::Member(Member::Down(
            worker(number),
            Cause::LinkReset,
        )))
    }

    fn progress(&mut self, slice: u16, step: u64, covered: &[u32]) -> Vec<Effect> {
        let resting = step == 6;
        self.shard(slice, step, covered, None, resting)
    }

    fn shard(
        &mut self,
        slice: u16,
        step: u64,
        covered: &[u32],
        pinned: Option<u64>,
        resting: bool,
    ) -> Vec<Effect> {
        self.event(Event::Shard(ShardReport::Progress {
            slice: SliceId(slice),
            timeline: timeline(),
            step: Step(step),
            covered: covered.iter().map(|p| PartitionId(*p)).collect(),
            pinned: pinned.map(Step),
            cutting: None,
            resting,
            voted: false,
            behind: None,
            kept: Step(0),
        }))
    }

    fn committed(&mut self, slice: u16, step: u64) -> Vec<Effect> {
        self.event(Event::Shard(ShardReport::Committed(record(slice, step))))
    }

    /// Both slices at `step`, with their records up to it.
    fn advance(&mut self, step: u64) {
        let from = self.job.recorded.0;
        for step in from..step {
            (0..2).for_each(|slice| drop(self.committed(slice, step)));
            (0..2).for_each(|slice| drop(self.progress(slice, step + 1, &[])));
        }
    }

    /// Both slices rest at the last version, which is durable, and keep it to be scored.
    fn at_last(&mut self) {
        self.advance(6);
        (0..2).for_each(|slice| drop(self.shard(slice, 6, &[], Some(6), true)));
        self.event(Event::Durable(Step(6)));
    }

    fn scored(&mut self, task: u32, score: TaskScore) -> Vec<Effect> {
        self.scored_by(1, 6, task, score)
    }

    /// A member's score of a task on a version.
    fn scored_by(&mut self, number: u32, version: u64, task: u32, score: TaskScore) -> Vec<Effect> {
        let (timeline, version) = (timeline(), Step(version));
        let says = WorkerSays::Evaluated {
            timeline,
            version,
            task,
            score,
        };
        self.said(number, says)
    }

    fn beat(&mut self, number: u32, linked: bool) -> Vec<Effect> {
        let says = WorkerSays::Heartbeat {
            generation: Some(self.job.generation),
            step: None,
            samples_per_s: 0.0,
            linked,
        };
        self.said(number, says)
    }

    fn leases(&self, number: u32) -> Vec<Lease> {
        let mut effects = Vec::new();
        self.job.assign(worker(number), &mut effects);
        match effects.pop() {
            Some(Effect::Say(_, CoordinatorSays::Assign(assignment))) => assignment.leases,
            other => panic!("no assignment: {other:?}"),
        }
    }
}

fn lease(partition: u32, from: u64, until: Option<u64>) -> Lease {
    Lease {
        partition: PartitionId(partition),
        from: Step(from),
        until: until.map(Step),
    }
}
