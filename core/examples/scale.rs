//! What a coordinator's machines cost with 10,000 members: `cargo run --release -p resilin-core
//! --example scale`. Fleet and Job are driven as a shell drives them; times are of this thread's
//! processor, so that other work on the machine does not count.

use resilin_core::sorted::SortedMap;
use std::fs;

use resilin_core::job::Bits;
use resilin_core::layout::SliceMap;
use resilin_core::ledger::Members;
use resilin_core::machine::Rules;
use resilin_core::machine::audit::AuditRules;
use resilin_core::machine::fleet::{self, Fleet, Role};
use resilin_core::machine::job::{self, Job, Settings, Wishes};
use resilin_core::message::{
    Branch, CoordinatorSays, ShardReport, SliceView, StepRecord, WorkerSays,
};
use resilin_core::plan::{MemberLoad, Problem};
use resilin_core::sampling::{Sampling, Shuffle};
use resilin_core::time::{Span, Time};
use resilin_core::tree::{PartitionSet, Tree};
use resilin_core::vote::VoteRules;
use resilin_core::{
    Generation, Incarnation, LinkId, MapNumber, PartitionId, RunId, SliceId, Step, Timeline, View,
};

const MEMBERS: u32 = 10_000;
const STEPS: u64 = 10;

/// Plans that are timed together: the kernel counts a thread's time in steps of milliseconds.
const PLANS: u32 = 500;

/// A quarter of it is the second between two heartbeats.
const LEASE: Span = Span::from_millis(4000);

/// Seconds of heartbeats that are measured.
const SECONDS: u64 = 2;

fn main() {
    plans();
    let mut bench = Bench::new();
    let began = cpu_ms();
    bench.join();
    println!(
        "{MEMBERS} members join: {:.0} ms, {} plans",
        cpu_ms() - began,
        bench.job.status(bench.now).generation.number
    );
    let began = cpu_ms();
    (0..SECONDS).for_each(|_| bench.second());
    let share = (cpu_ms() - began) / (10.0 * SECONDS as f64);
    println!("{MEMBERS} heartbeats a second: {share:.1} % of one core");
    let began = cpu_ms();
    bench.lose_one();
    println!(
        "one of {MEMBERS} is lost: {:.1} ms until all others know",
        cpu_ms() - began
    );
    let began = cpu_ms();
    (0..STEPS).for_each(|step| bench.commit(Step(step)));
    let each = (cpu_ms() - began) / STEPS as f64;
    println!("{STEPS} steps of {MEMBERS} partitions: {each:.1} ms each");
    assert_eq!(bench.job.low(), Step(STEPS), "every step is counted");
}

/// Processor time of this thread in milliseconds.
fn cpu_ms() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("Linux tells it");
    let nanos: f64 = text
        .split(' ')
        .next()
        .and_then(|n| n.parse().ok())
        .expect("nanoseconds");
    nanos / 1e6
}

/// The planner alone: 1,000 workers, one more, one fewer.
fn plans() {
    let member = |number| Incarnation { reign: 1, number };
    let mut problem = Problem {
        partitions: 1000,
        members: (1..=1000)
            .map(|n| (member(n), MemberLoad::default()))
            .collect(),
        current: SortedMap::new(),
    };
    problem.current = problem.solve().0;
    let began = cpu_ms();
    for turn in 0..PLANS {
        problem.members.remove(&member(1 + turn));
        let joined = member(2000 + turn);
        problem.members.insert(joined, MemberLoad::default());
        problem.current = problem.solve().0;
    }
    let each = (cpu_ms() - began) / f64::from(PLANS);
    println!("a plan for 1,000 workers with one replaced: {each:.2} ms, mean of {PLANS}");
}

struct Bench {
    now: Time,
    fleet: Fleet,
    job: Job,
    generations: SortedMap<LinkId, Generation>,
}

impl Bench {
    fn new() -> Self {
        Self {
            now: Time(0),
            fleet: Fleet::new(1, LEASE),
            job: Job::new(rules(), settings()),
            generations: SortedMap::new(),
        }
    }

    fn fleet(&mut self, event: fleet::Event) {
        let mut effects = Vec::new();
        self.fleet.step(self.now, event, &mut effects);
        for effect in effects {
            match effect {
                fleet::Effect::Member(news) => self.job(job::Event::Member(news)),
                fleet::Effect::Send(link, CoordinatorSays::Assign(assignment)) => {
                    self.generations.insert(link, assignment.generation);
                }
                fleet::Effect::Send(..)
                | fleet::Effect::Welcome(..)
                | fleet::Effect::Close(_)
                | fleet::Effect::Outranked(_)
                | fleet::Effect::Host(_)
                | fleet::Effect::WelcomeHost(..)
                | fleet::Effect::SendHost(..) => {}
            }
        }
    }

    fn job(&mut self, event: job::Event) {
        let mut effects = Vec::new();
        self.job.step(self.now, event, &mut effects);
        std::hint::black_box(self.job.deadline());
        for effect in effects {
            if let job::Effect::Say(member, says) = effect {
                self.fleet(fleet::Event::Say(member, says));
            }
        }
    }

    fn join(&mut self) {
        for link in (0..u64::from(MEMBERS)).map(LinkId) {
            let name = format!("worker{}", link.0);
            let (role, before) = (Role::Worker, None);
            self.fleet(fleet::Event::Joined {
                link,
                name,
                role,
                before,
            });
            let data = "rows".into();
            self.fleet(fleet::Event::Said(link, WorkerSays::Ready { data }));
        }
    }

    /// A heartbeat of everybody, spread over a second.
    fn second(&mut self) {
        for link in (0..u64::from(MEMBERS)).map(LinkId) {
            self.now = self.now + Span(1_000_000_000 / u64::from(MEMBERS));
            if self.fleet.deadline().is_some_and(|at| at <= self.now) {
                self.fleet(fleet::Event::Tick);
            }
            if self.job.deadline().is_some_and(|at| at <= self.now) {
                self.job(job::Event::Tick);
            }
            let says = WorkerSays::Heartbeat {
                generation: self.generations.get(&link).copied(),
                step: Some(Step(0)),
                samples_per_s: 100.0,
                linked: true,
            };
            self.fleet(fleet::Event::Said(link, says));
        }
    }

    fn lose_one(&mut self) {
        self.fleet(fleet::Event::LinkDown(LinkId(7)));
    }

    /// The one slice says that the step is done.
    fn commit(&mut self, step: Step) {
        let (slice, timeline) = (SliceId(0), timeline());
        self.job(job::Event::Shard(ShardReport::Committed(StepRecord {
            slice,
            timeline,
            step,
            nodes: Vec::new(),
            samples: u64::from(MEMBERS),
            loss_sum: 1.0,
            weight: 1.0,
            skipped: false,
            cut: false,
            cut_missed: false,
            digests: vec![[0; 32]],
            discarded: 0,
        })));
        self.job(job::Event::Shard(ShardReport::Progress {
            slice,
            timeline,
            step: step.next(),
            covered: PartitionSet::from_iter((0..MEMBERS / 2).map(PartitionId)),
            pinned: None,
            cutting: None,
            resting: false,
            voted: false,
            behind: None,
            kept: step.next(),
        }));
    }
}

fn timeline() -> Timeline {
    Timeline {
        reign: 1,
        number: 1,
    }
}

fn rules() -> Rules {
    Rules {
        run: RunId(1),
        sampling: Sampling::new(1 << 20, MEMBERS, 1, Shuffle::Global, 1),
        tree: Tree::new(MEMBERS),
        slices: SliceMap::new(1, 1),
        bits: Bits::On,
        votes: VoteRules {
            clip_norm: None,
            non_finite: resilin_core::job::NonFinite::Skip,
            total_steps: 1000,
            cut_every: None,
        },
        evaluate_every: None,
        evaluation_tasks: 0,
        lease: LEASE,
        audit: AuditRules::OFF,
        grace: LEASE,
        cut_interval: None,
    }
}

fn settings() -> Settings {
    Settings {
        reign: 1,
        branch: Branch {
            timeline: timeline(),
            map: MapNumber(1),
            shards: 1,
            base: Step(0),
        },
        views: vec![SliceView {
            slice: SliceId(0),
            view: View::first(1),
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
        workers: MEMBERS,
        max_workers: MEMBERS,
        wait_below_min: None,
        min_workers: 1,
        durable: None,
        members: Members::default(),
        wishes: Wishes::default(),
    }
}
