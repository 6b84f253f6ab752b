mod balance;
mod held_back;
mod hosts;
mod orders;
mod reshard;
mod restart;
mod scores;
mod suspects;
mod wishes;

use super::*;

mod audits;
mod many;
mod minimum;
mod slow;

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
        chain: BTreeMap::new(),
        superseded: BTreeMap::new(),
        metrics: BTreeMap::new(),
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
        let (timeline, version) = (timeline(), Step(6));
        let says = WorkerSays::Evaluated {
            timeline,
            version,
            task,
            score,
        };
        self.said(1, says)
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

#[test]
fn the_first_worker_gets_all_and_a_joiner_its_half_at_a_step_both_know() {
    let mut bench = Bench::with_workers(1);
    let all: Vec<Lease> = (0..4).map(|p| lease(p, 0, None)).collect();
    assert_eq!(bench.leases(1), all);
    bench.advance(2);
    bench.join(2);
    let (first, second) = (bench.leases(1), bench.leases(2));
    assert_eq!(first.iter().filter(|l| l.until == Some(Step(3))).count(), 2);
    assert_eq!(second.len(), 2);
    assert!(
        second
            .iter()
            .all(|l| l.from == Step(3) && l.until.is_none()),
        "{second:?}"
    );
}

#[test]
fn a_lost_workers_open_partitions_move_at_once_and_covered_ones_at_the_next_step() {
    let mut bench = Bench::with_workers(2);
    bench.advance(3);
    let held: Vec<u32> = bench.leases(2).iter().map(|l| l.partition.0).collect();
    bench.progress(0, 3, &[held[0], held[1]]);
    bench.progress(1, 3, &[held[0]]);
    let effects = bench.down(2);
    assert!(effects.contains(&Effect::Tell(Fact::Lost {
        member: worker(2),
        cause: "link-reset".into()
    })));
    let moved: Vec<Lease> = bench
        .leases(1)
        .into_iter()
        .filter(|l| held.contains(&l.partition.0))
        .collect();
    assert_eq!(
        moved,
        vec![lease(held[0], 4, None), lease(held[1], 3, None)]
    );
    let status = bench.job.status(bench.now);
    assert_eq!(
        (status.lost, status.joined, status.workers.len()),
        (1, 2, 1)
    );
}

#[test]
fn a_drained_worker_finishes_its_step_and_is_released_when_it_is_committed() {
    let mut bench = Bench::with_workers(2);
    bench.advance(1);
    bench.said(2, WorkerSays::Drain);
    assert!(bench.leases(2).iter().all(|l| l.until == Some(Step(2))));
    bench.progress(0, 2, &[]);
    let effects = bench.progress(1, 2, &[]);
    assert!(
        effects.contains(&Effect::Say(worker(2), CoordinatorSays::Release)),
        "{effects:?}"
    );
    let status = bench.job.status(bench.now);
    assert_eq!((status.drained, status.lost), (1, 0));
}

#[test]
fn a_holder_lost_before_its_hand_over_leaves_no_gap() {
    let mut bench = Bench::with_workers(1);
    bench.advance(1);
    bench.join(2);
    bench.down(1);
    let all: Vec<Lease> = (0..4).map(|p| lease(p, 1, None)).collect();
    assert_eq!(bench.leases(2), all);
}

#[test]
fn without_workers_the_job_waits_and_says_so() {
    let mut bench = Bench::with_workers(1);
    bench.advance(2);
    bench.down(1);
    let waiting = bench.job.status(bench.now).waiting.expect("it waits");
    assert!(
        waiting.contains("0 of at least 1 ready; w1 was lost (link-reset)"),
        "{waiting}"
    );
    bench.join(2);
    assert_eq!(
        bench.leases(2),
        (0..4).map(|p| lease(p, 2, None)).collect::<Vec<_>>()
    );
}

#[test]
fn a_stale_or_late_assignment_is_repeated_and_wrong_rows_are_refused() {
    let mut bench = Bench::with_workers(1);
    let says = WorkerSays::Heartbeat {
        generation: None,
        step: None,
        samples_per_s: 0.0,
        linked: true,
    };
    let again = bench.said(1, says);
    assert!(
        matches!(&again[..], [Effect::Say(_, CoordinatorSays::Assign(_))]),
        "{again:?}"
    );
    let (incarnation, name) = (worker(2), "w2".into());
    bench.event(Event::Member(Member::Up { incarnation, name }));
    let effects = bench.said(
        2,
        WorkerSays::Ready {
            data: "others".into(),
        },
    );
    assert!(
        matches!(&effects[..], [Effect::Say(_, CoordinatorSays::Refuse { cause })]
            if cause.contains("others"))
    );
}

#[test]
fn a_ledger_line_is_written_once_both_slices_have_the_step() {
    let mut bench = Bench::with_workers(1);
    let before = |step| Effect::Order(ShardOrder::Recorded { before: Step(step) });
    assert_eq!(bench.committed(1, 0), vec![]);
    let effects = bench.committed(0, 0);
    let recorded = Effect::Saver(saver::Event::Recorded(Step(1)));
    assert!(effects.contains(&recorded), "{effects:?}");
    let Effect::Append(Record::Step(record)) = &effects[0] else {
        panic!("{effects:?}")
    };
    let mut chain = blake3::Hasher::new();
    for digest in [[0; 32], [0; 32], [0; 32], [1; 32]] {
        chain.update(&digest);
    }
    assert_eq!(record.chain, *chain.finalize().as_bytes());
    assert_eq!((record.samples, record.discarded), (20, 1));
    assert_eq!(effects.last(), Some(&before(1)));
    assert_eq!(
        bench.committed(0, 0),
        vec![before(1)],
        "a repeated record is not written twice"
    );
}

#[test]
fn a_replay_that_differs_halts_the_run() {
    let mut bench = Bench::new(Settings {
        superseded: BTreeMap::from([(Step(1), [9; 32])]),
        ..settings()
    });
    bench.join(1);
    bench.committed(0, 0);
    let effects = bench.committed(1, 0);
    let halted = |e: &Effect| {
        matches!(e, Effect::Close(Outcome::Halted { step: Step(0), cause })
            if cause.contains("replaying step 0"))
    };
    assert!(effects.iter().any(halted), "{effects:?}");
    let saved: Vec<&Effect> = effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Saver(_)))
        .collect();
    assert_eq!(
        saved,
        [&Effect::Saver(saver::Event::Over)],
        "what differs never becomes durable"
    );
}

#[test]
fn a_replay_that_differs_is_noted_where_bits_are_not_promised() {
    let mut bench = Bench::new(Settings {
        superseded: BTreeMap::from([(Step(1), [9; 32])]),
        ..settings()
    });
    bench.job.rules.bits = Bits::Off;
    bench.committed(0, 0);
    let effects = bench.committed(1, 0);
    assert!(effects.contains(&Effect::Tell(Fact::ReplayDiffers { step: Step(0) })));
    assert!(bench.job.ending.is_none());
}

#[test]
fn test_rows_are_shared_out_counted_once_and_added_in_task_order() {
    let mut bench = Bench::with_workers(2);
    bench.advance(2);
    bench.shard(0, 2, &[], Some(2), false);
    let effects = bench.shard(1, 2, &[], Some(2), false);
    let tasks = |number: u32, effects: &[Effect]| -> Vec<u32> {
        effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Say(to, CoordinatorSays::Evaluate { tasks, .. })
                    if *to == worker(number) =>
                {
                    Some(tasks.clone())
                }
                _ => None,
            })
            .flatten()
            .collect()
    };
    assert_eq!(
        (tasks(1, &effects), tasks(2, &effects)),
        (vec![0, 2], vec![1])
    );
    assert_eq!(
        tasks(1, &bench.down(2)),
        vec![1],
        "a lost worker's task moves"
    );
    let mut last = Vec::new();
    for task in [2, 0, 0, 1] {
        let score = TaskScore {
            rows: 10,
            correct: Some(u64::from(task)),
            loss_sum: 0.1,
            parts: [0.0, f64::from(task), 0.1, 0.0],
        };
        let (timeline, version) = (timeline(), Step(2));
        last = bench.said(
            1,
            WorkerSays::Evaluated {
                timeline,
                version,
                task,
                score,
            },
        );
    }
    let metrics = Metrics {
        version: Step(2),
        epoch: 1,
        rows: 30,
        correct: Some(3),
        loss_sum: 0.1 + 0.1 + 0.1,
        parts: [0.0, 3.0, 0.1 + 0.1 + 0.1, 0.0],
    };
    assert!(
        last.contains(&Effect::Tell(Fact::Evaluated(metrics))),
        "{last:?}"
    );
    assert!(last.contains(&Effect::Order(ShardOrder::Evaluated { version: Step(2) })));
}

#[test]
fn one_slice_may_be_heard_of_later_than_the_others() {
    let mut bench = Bench::with_workers(2);
    bench.shard(0, 3, &[], None, false);
    assert_eq!(bench.job.low(), Step(2), "slice 1 has at least version 2");
    bench.shard(1, 1, &[0], None, false);
    assert_eq!(bench.job.low(), Step(2), "a late report");
    bench.shard(1, 3, &[], None, false);
    assert_eq!(bench.job.low(), Step(3));
}

#[test]
fn a_version_that_one_slice_could_not_keep_is_let_go_by_the_others() {
    let mut bench = Bench::with_workers(1);
    bench.advance(4);
    let let_go = Effect::Order(ShardOrder::Evaluated { version: Step(4) });
    assert!(!bench.shard(0, 4, &[], Some(4), false).contains(&let_go));
    // The other still kept an earlier version as it went through 4.
    bench.committed(0, 4);
    bench.committed(1, 4);
    let missed = Effect::Tell(Fact::NotEvaluated { version: Step(4) });
    let effects = bench.shard(1, 5, &[], None, false);
    assert!(effects.contains(&let_go), "{effects:?}");
    assert!(effects.contains(&missed), "{effects:?}");
    let again = bench.shard(1, 5, &[0], None, false);
    assert!(!again.contains(&missed), "it is said once");
    // Reports from before they let go of it come late: it is let go again, and not scored.
    bench.shard(0, 5, &[], Some(4), false);
    let late = bench.shard(1, 5, &[0, 1], Some(4), false);
    assert!(late.contains(&let_go), "{late:?}");
    let begun =
        |effect: &Effect| matches!(effect, Effect::Say(_, CoordinatorSays::Evaluate { .. }));
    assert!(!late.iter().any(begun), "{late:?}");
}

#[test]
fn a_version_that_no_slice_kept_is_told() {
    let mut bench = Bench::with_workers(1);
    bench.shard(0, 3, &[], None, false);
    let effects = bench.shard(1, 3, &[], None, false);
    assert!(effects.contains(&Effect::Tell(Fact::NotEvaluated { version: Step(2) })));
}

#[test]
fn an_impossible_score_is_not_counted() {
    let mut bench = Bench::with_workers(1);
    bench.at_last();
    for score in [
        TaskScore {
            rows: u64::MAX,
            ..TaskScore::default()
        },
        TaskScore {
            rows: 1,
            correct: Some(2),
            ..TaskScore::default()
        },
    ] {
        for task in 0..3 {
            assert_eq!(bench.scored(task, score), vec![]);
        }
    }
    assert_eq!(bench.scored(u32::MAX, TaskScore::default()), vec![]);
    bench.scored(0, TaskScore::default());
    bench.scored(1, TaskScore::default());
    let last = bench.scored(2, TaskScore::default());
    assert!(matches!(last[0], Effect::Append(_)), "{last:?}");
}

#[test]
fn the_run_is_over_when_its_last_version_is_durable_and_scored() {
    let mut bench = Bench::with_workers(1);
    bench.advance(6);
    let durable = bench.event(Event::Durable(Step(6)));
    assert!(
        !durable.iter().any(|e| matches!(e, Effect::Close(_))),
        "not scored yet"
    );
    bench.shard(0, 6, &[], Some(6), true);
    bench.shard(1, 6, &[], Some(6), true);
    let mut last = Vec::new();
    for task in 0..3 {
        let (timeline, version, score) = (timeline(), Step(6), TaskScore::default());
        last = bench.said(
            1,
            WorkerSays::Evaluated {
                timeline,
                version,
                task,
                score,
            },
        );
    }
    assert_eq!(last.last(), Some(&Effect::Close(Outcome::Finished)));
    assert_eq!(
        bench.event(Event::Closed),
        vec![
            Effect::Say(worker(1), CoordinatorSays::Finished),
            Effect::Over(Outcome::Finished)
        ]
    );
    let (incarnation, name) = (worker(2), "late".into());
    let late = bench.event(Event::Member(Member::Up { incarnation, name }));
    assert_eq!(
        late,
        vec![Effect::Say(worker(2), CoordinatorSays::Finished)]
    );
}

#[test]
fn a_stop_ends_at_a_durable_version_and_seals_when_no_step_comes() {
    let mut bench = Bench::with_workers(1);
    bench.advance(1);
    let stop = bench.event(Event::Command(Command::Stop));
    assert!(stop.contains(&Effect::Order(ShardOrder::RequestStop)));
    bench.down(1);
    assert!(bench.after(2000).contains(&Effect::Order(ShardOrder::Seal)));
    bench.shard(0, 1, &[], None, true);
    bench.shard(1, 1, &[], None, true);
    assert!(
        bench
            .after(500)
            .contains(&Effect::Order(ShardOrder::CutHere { step: Step(1) }))
    );
    let effects = bench.event(Event::Durable(Step(1)));
    assert_eq!(
        effects.last(),
        Some(&Effect::Close(Outcome::Stopped(Step(1))))
    );
}

#[test]
fn a_last_version_that_cannot_be_saved_is_retried_for_the_grace() {
    let mut bench = Bench::with_workers(1);
    bench.advance(6);
    bench.event(Event::Degraded("disk full".into()));
    let again = bench.after(500);
    assert!(
        again.contains(&Effect::Order(ShardOrder::CutHere { step: Step(6) })),
        "{again:?}"
    );
    let given_up = bench.after(2000);
    let (durable, reason) = (None, "disk full".into());
    assert!(given_up.contains(&Effect::Close(Outcome::SaveFailed { durable, reason })));
}

#[test]
fn fewer_workers_wanted_drains_the_youngest() {
    let mut bench = Bench::with_workers(3);
    let effects = bench.event(Event::Command(Command::Scale(1)));
    for number in [2, 3] {
        assert!(effects.contains(&Effect::Say(worker(number), CoordinatorSays::Drain)));
    }
    // Worker 3 had not begun its leases yet, so nothing of it is waited for.
    assert!(effects.contains(&Effect::Say(worker(3), CoordinatorSays::Release)));
    assert_eq!(bench.leases(1).len(), 4);
}

#[test]
fn a_drained_worker_is_not_wanted_any_more() {
    let mut bench = Bench::with_workers(2);
    let wanted = |bench: &Bench| {
        let status = bench.job.status(bench.now);
        (status.wanted, status.waiting)
    };
    // A worker that leaves by itself is still wanted, also if an operator drains it then.
    bench.said(2, WorkerSays::Drain);
    bench.event(Event::Command(Command::Drain(worker(2))));
    assert_eq!(wanted(&bench).0, 2);
    bench.event(Event::Command(Command::Scale(1)));
    bench.event(Event::Command(Command::Drain(worker(1))));
    bench.event(Event::Command(Command::Drain(worker(9))));
    let waiting = "workers: none is wanted; ask for N with `resilin scale N`";
    assert_eq!(wanted(&bench), (0, Some(waiting.into())));
}

#[test]
fn a_slice_of_no_map_is_not_heard() {
    let mut bench = Bench::with_workers(1);
    assert_eq!(bench.shard(9, 3, &[], None, false), vec![]);
    assert_eq!(bench.committed(9, 0), vec![]);
    let halted = ShardReport::Halted {
        slice: SliceId(9),
        timeline: timeline(),
        step: Step(0),
        blocks: vec![],
    };
    assert_eq!(bench.event(Event::Shard(halted)), vec![]);
}

#[test]
fn a_holder_without_links_loses_its_leases_until_it_has_them() {
    let mut bench = Bench::with_workers(2);
    bench.advance(1);
    let held = bench.leases(2).len();
    assert!(held > 0);
    bench.beat(2, false);
    bench.now = bench.now + Span::from_millis(900);
    bench.beat(2, false);
    assert_eq!(bench.leases(2).len(), held, "not for a lease yet");
    bench.now = bench.now + Span::from_millis(100);
    bench.beat(2, false);
    assert_eq!(bench.leases(2), vec![]);
    let all: Vec<u32> = bench.leases(1).iter().map(|l| l.partition.0).collect();
    assert_eq!(all, [0, 1, 2, 3]);
    bench.beat(2, false);
    assert_eq!(bench.leases(2), vec![]);
    bench.beat(2, true);
    assert_eq!(bench.leases(2).len(), 2);
}

#[test]
fn a_holder_whom_nobody_can_replace_keeps_its_leases() {
    let mut bench = Bench::with_workers(1);
    for _ in 0..3 {
        bench.beat(1, false);
        bench.now = bench.now + Span::from_millis(1000);
    }
    assert_eq!(bench.leases(1).len(), 4);
}

#[test]
fn who_drains_while_the_slices_rest_is_let_go_at_once() {
    let mut bench = Bench::with_workers(1);
    bench.advance(6);
    let effects = bench.said(1, WorkerSays::Drain);
    assert!(
        effects.contains(&Effect::Say(worker(1), CoordinatorSays::Release)),
        "{effects:?}"
    );
    let again = bench.beat(1, true);
    assert_eq!(
        again,
        vec![Effect::Say(worker(1), CoordinatorSays::Release)],
        "it may not have heard it"
    );
}

#[test]
fn a_stop_or_a_last_save_is_not_given_up_for_lack_of_workers() {
    for (steps, stop) in [(3, true), (6, false)] {
        let mut bench = Bench::new(Settings {
            wait_below_min: Some(Span::from_millis(500)),
            ..settings()
        });
        bench.join(1);
        bench.advance(steps);
        if stop {
            bench.event(Event::Command(Command::Stop));
        }
        bench.down(1);
        let effects = bench.after(600);
        let gave_up = Effect::Close(Outcome::WaitedTooLong);
        assert!(!effects.contains(&gave_up), "at {steps}: {effects:?}");
    }
}

#[test]
fn a_stop_at_the_last_version_without_workers_leaves_the_scoring_to_the_next_start() {
    let mut bench = Bench::with_workers(1);
    bench.at_last();
    bench.event(Event::Command(Command::Leave));
    bench.down(1);
    let grace = bench.after(2000);
    assert_eq!(
        grace[grace.len() - 3..],
        [
            Effect::Tell(Fact::NotEvaluated { version: Step(6) }),
            Effect::Tell(Fact::Over {
                outcome: "stopped".into(),
                cause: None
            }),
            Effect::Close(Outcome::Stopped(Step(6)))
        ]
    );
}

#[test]
fn a_stop_waits_for_an_evaluation_until_the_seal() {
    let mut bench = Bench::with_workers(1);
    bench.advance(2);
    (0..2).for_each(|slice| drop(bench.shard(slice, 2, &[], Some(2), true)));
    bench.event(Event::Command(Command::Stop));
    let durable = bench.event(Event::Durable(Step(2)));
    let close = Effect::Close(Outcome::Stopped(Step(2)));
    assert!(!durable.contains(&close), "{durable:?}");
    let sealed = bench.after(2000);
    assert!(sealed.contains(&close), "{sealed:?}");
}

#[test]
fn a_failure_of_an_earlier_save_does_not_give_up_the_last_one() {
    let mut bench = Bench::with_workers(1);
    bench.event(Event::Degraded("old".into()));
    bench.advance(6);
    bench.after(500);
    let late = bench.after(2000);
    let given_up = |e: &Effect| matches!(e, Effect::Close(Outcome::SaveFailed { .. }));
    assert!(!late.iter().any(given_up), "{late:?}");
    let (durable, reason) = (None, "new".to_owned());
    let failed = bench.event(Event::Degraded(reason.clone()));
    assert!(failed.contains(&Effect::Close(Outcome::SaveFailed { durable, reason })));
}

#[test]
fn a_halt_says_what_is_left() {
    for (durable, left) in [
        (None, "there is no checkpoint"),
        (Some(Step(3)), "the newest checkpoint is of step 3"),
    ] {
        let mut bench = Bench::new(Settings {
            durable,
            ..settings()
        });
        let effects = bench.event(Event::Shard(ShardReport::Halted {
            slice: SliceId(0),
            timeline: timeline(),
            step: Step(0),
            blocks: vec![2],
        }));
        let told = |e: &Effect| {
            matches!(e, Effect::Close(Outcome::Halted { cause, .. })
                if cause.contains(left) && cause.contains("block 2"))
        };
        assert!(effects.iter().any(told), "{effects:?}");
    }
}

#[test]
fn what_a_slice_cuts_is_told_to_the_saver() {
    let mut bench = Bench::with_workers(1);
    let cutting = |slice| {
        Event::Shard(ShardReport::Progress {
            slice: SliceId(slice),
            timeline: timeline(),
            step: Step(1),
            covered: PartitionSet::default(),
            pinned: None,
            cutting: Some(Step(1)),
            resting: false,
            voted: false,
            behind: None,
            kept: Step(0),
        })
    };
    let told = Effect::Saver(saver::Event::Cutting(Step(1)));
    assert_eq!(bench.event(cutting(1)), vec![told]);
    assert_eq!(bench.event(cutting(9)), vec![], "a slice of no map");
}

#[test]
fn who_came_and_went_is_counted_over_every_life_of_the_coordinator() {
    let members = Members {
        joined: 4,
        lost: 2,
        drained: 1,
        reassigned: 9,
    };
    let mut bench = Bench::new(Settings {
        members,
        ..settings()
    });
    let effects = bench.join(1);
    let joined = Members {
        joined: 5,
        ..members
    };
    let written = Effect::Append(Record::Members(joined));
    assert!(effects.contains(&written), "{effects:?}");
    assert!(
        !bench
            .after(500)
            .iter()
            .any(|e| matches!(e, Effect::Append(_)))
    );
    let status = bench.job.status(bench.now);
    assert_eq!((status.joined, status.lost), (5, 2));
}

#[test]
fn the_last_cut_follows_at_once_when_an_earlier_one_is_over() {
    let mut bench = Bench::with_workers(1);
    bench.advance(6);
    let effects = bench.event(Event::Durable(Step(4)));
    let cut = Effect::Order(ShardOrder::CutHere { step: Step(6) });
    assert!(effects.contains(&cut), "{effects:?}");
    let effects = bench.event(Event::Durable(Step(6)));
    assert!(!effects.contains(&cut), "{effects:?}");
}

#[test]
fn commits_are_told_once_a_second_and_always_after_a_loss() {
    let mut bench = Bench::with_workers(2);
    let told = |effects: &[Effect]| -> Vec<Step> {
        let told = effects.iter().filter_map(|effect| match effect {
            Effect::Tell(Fact::Committed { version, .. }) => Some(*version),
            _ => None,
        });
        told.collect()
    };
    let commit = |bench: &mut Bench, step| {
        let effects = [bench.committed(0, step), bench.committed(1, step)].concat();
        (0..2).for_each(|slice| drop(bench.progress(slice, step + 1, &[])));
        effects
    };
    assert_eq!(told(&commit(&mut bench, 0)), [Step(1)]);
    assert_eq!(told(&commit(&mut bench, 1)), []);
    bench.down(2);
    assert_eq!(told(&commit(&mut bench, 2)), [Step(3)]);
    bench.after(1000);
    assert_eq!(told(&commit(&mut bench, 3)), [Step(4)]);
    assert_eq!(told(&commit(&mut bench, 4)), []);
    assert_eq!(
        told(&commit(&mut bench, 5)),
        [Step(6)],
        "the last one is told"
    );
}
