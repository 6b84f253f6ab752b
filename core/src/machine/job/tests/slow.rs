//! Members that are late, stuck or slow.

use super::*;

impl Bench {
    fn beat_with(&mut self, number: u32, samples_per_s: f64) -> Vec<Effect> {
        let says = WorkerSays::Heartbeat {
            generation: Some(self.job.generation),
            step: None,
            samples_per_s,
            linked: true,
        };
        self.said(number, says)
    }

    fn held(&self, number: u32) -> Vec<u32> {
        let standing = |lease: &Lease| lease.until.is_none();
        let leases = self.leases(number).into_iter().filter(standing);
        leases.map(|lease| lease.partition.0).collect()
    }

    /// Step `step` is in the ledger of both slices, each partition from the worker named with it.
    fn committed_by(&mut self, step: u64, by: &[u32]) -> Vec<Effect> {
        let mut effects = Vec::new();
        for slice in 0..2 {
            let nodes = by.iter().zip(0..).map(|(number, index)| Contributor {
                node: Node { level: 0, index },
                incarnation: worker(*number),
                samples: 5,
            });
            effects.extend(self.event(Event::Shard(ShardReport::Committed(StepRecord {
                slice: SliceId(slice),
                timeline: timeline(),
                step: Step(step),
                nodes: nodes.collect(),
                samples: 20,
                loss_sum: 10.0,
                weight: 20.0,
                skipped: false,
                cut: false,
                cut_missed: false,
                digests: vec![[step as u8; 32], [slice as u8; 32]],
                discarded: 0,
            }))));
        }
        effects
    }

    /// Both slices of the open step have everything but what a worker holds.
    fn covered_but(&mut self, number: u32) {
        let lacking = self.held(number);
        let covered: Vec<u32> = (0..PARTITIONS).filter(|p| !lacking.contains(p)).collect();
        let step = self.job.low().0;
        (0..2).for_each(|slice| drop(self.progress(slice, step, &covered)));
    }
}

fn backup(number: u32, step: u64, partitions: &[u32]) -> Effect {
    let says = CoordinatorSays::Backup {
        timeline: timeline(),
        step: Step(step),
        partitions: partitions.iter().map(|p| PartitionId(*p)).collect(),
    };
    Effect::Say(worker(number), says)
}

fn late(step: u64, holder: u32, untold: u64) -> Effect {
    Effect::Tell(Fact::Late {
        step: Step(step),
        member: worker(holder),
        name: format!("w{holder}"),
        untold,
    })
}

fn told_late(effects: &[Effect]) -> Vec<&Effect> {
    let is_late = |effect: &&Effect| matches!(effect, Effect::Tell(Fact::Late { .. }));
    effects.iter().filter(is_late).collect()
}

fn fenced(effects: &[Effect]) -> Vec<Incarnation> {
    let member = |effect: &Effect| match effect {
        Effect::Fence(member, _) => Some(*member),
        _ => None,
    };
    effects.iter().filter_map(member).collect()
}

/// Two workers that have both contributed to step 0, at an open step 1.
fn two_proven() -> Bench {
    let mut bench = Bench::with_workers(2);
    bench.committed_by(0, &[1, 1, 2, 2]);
    (0..2).for_each(|slice| drop(bench.progress(slice, 1, &[])));
    bench
}

#[test]
fn what_is_late_is_asked_of_an_idle_member_once_and_again_if_the_question_is_lost() {
    let mut bench = two_proven();
    assert_eq!(bench.held(2), [2, 3]);
    bench.covered_but(2);
    assert_eq!(bench.job.deadline(), Some(Time(0) + Span::from_millis(500)));
    assert!(!bench.after(999).contains(&backup(1, 1, &[2, 3])));
    let effects = bench.after(1);
    assert_eq!(effects, vec![late(1, 2, 0), backup(1, 1, &[2, 3])]);
    bench.progress(0, 1, &[0, 1, 2]);
    bench.progress(1, 1, &[0, 1, 2]);
    assert_eq!(bench.after(500), vec![backup(1, 1, &[3])]);
}

#[test]
fn whoever_stays_late_is_named_once_and_then_again_after_many_steps_with_their_number() {
    let mut bench = two_proven();
    bench.job.rules.votes.total_steps = 1000;
    let mut told = Vec::new();
    for step in 1..=102 {
        bench.covered_but(2);
        for wait in [bench.job.patience(), Span::from_millis(1)] {
            let effects = bench.after(wait.as_millis());
            told.extend(told_late(&effects).into_iter().cloned());
        }
        bench.committed_by(step, &[1, 1, 2, 2]);
        (0..2).for_each(|slice| drop(bench.progress(slice, step + 1, &[])));
    }
    assert_eq!(told, [late(1, 2, 0), late(101, 2, 99)]);
    let said = |effect: &Effect| match effect {
        Effect::Tell(fact) => fact.to_string(),
        _ => unreachable!("only facts were kept"),
    };
    assert_eq!(
        told.iter().map(said).collect::<Vec<_>>(),
        [
            "step 1 waits for worker 7.2 (w2), which is late",
            "step 101 waits for worker 7.2 (w2), which is late, as for 99 steps since this was \
             last said"
        ]
    );
}

#[test]
fn whoever_is_alone_or_busy_is_asked_for_no_copy() {
    let mut bench = Bench::with_workers(1);
    bench.advance(1);
    let asked = |effects: &[Effect]| {
        let says = |e: &Effect| matches!(e, Effect::Say(_, CoordinatorSays::Backup { .. }));
        effects.iter().any(says)
    };
    assert!(!asked(&bench.after(10_000)), "alone");
    let mut bench = two_proven();
    assert!(!asked(&bench.after(10_000)), "both are late with their own");
    bench.covered_but(2);
    assert!(asked(&bench.after(500)));
}

#[test]
fn a_joiners_first_assignment_has_more_time() {
    let mut bench = Bench::with_workers(2);
    bench.committed_by(0, &[1, 1, 1, 1]);
    (0..2).for_each(|slice| drop(bench.progress(slice, 1, &[])));
    bench.covered_but(2);
    assert!(!bench.after(3999).contains(&late(1, 2, 0)));
    assert!(bench.after(1).contains(&late(1, 2, 0)));
}

#[test]
fn whoever_is_beaten_by_later_copies_in_three_steps_in_a_row_is_fenced() {
    let mut bench = two_proven();
    for step in 1..=3 {
        bench.covered_but(2);
        let copied = bench.after(1600).contains(&backup(1, step, &[2, 3]));
        assert!(copied, "at {step}");
        let effects = bench.committed_by(step, &[1, 1, 1, 1]);
        let expected = if step < 3 { vec![] } else { vec![worker(2)] };
        assert_eq!(fenced(&effects), expected, "at {step}");
        (0..2).for_each(|slice| drop(bench.progress(slice, step + 1, &[])));
    }
    let effects = bench.event(Event::Member(Member::Down(worker(2), Cause::Fenced)));
    assert!(effects.contains(&Effect::Tell(Fact::Lost {
        member: worker(2),
        cause: "fenced".into(),
    })));
    assert_eq!(bench.held(1), [0, 1, 2, 3]);
}

#[test]
fn slow_times_for_all_fence_nobody() {
    let mut bench = two_proven();
    for step in 1..=5 {
        // Worker 1 is late too; once it is done it copies, and worker 2 is first all the same.
        bench.after(20_000);
        bench.covered_but(2);
        assert!(
            bench.after(500).contains(&backup(1, step, &[2, 3])),
            "at {step}"
        );
        let effects = bench.committed_by(step, &[1, 1, 2, 2]);
        assert_eq!(fenced(&effects), vec![], "at {step}");
        (0..2).for_each(|slice| drop(bench.progress(slice, step + 1, &[])));
    }
}

#[test]
fn a_lost_copier_is_replaced() {
    let mut bench = Bench::with_workers(3);
    bench.committed_by(0, &[1, 2, 2, 3]);
    (0..2).for_each(|slice| drop(bench.progress(slice, 1, &[])));
    let held = bench.held(3);
    bench.covered_but(3);
    assert!(bench.after(4000).contains(&backup(1, 1, &held)));
    // What the lost member held is covered at this step, so worker 2 is idle.
    let effects = bench.down(1);
    assert!(effects.contains(&backup(2, 1, &held)), "{effects:?}");
}

#[test]
fn a_worker_ten_times_slower_is_named_once_and_the_plan_follows() {
    let mut bench = Bench::with_workers(2);
    bench.advance(1);
    assert_eq!(bench.beat_with(1, 100.0), vec![]);
    let effects = bench.beat_with(2, 10.0);
    let slow = Effect::Tell(Fact::Slow {
        member: worker(2),
        times: 10.0,
    });
    let moved = Effect::Tell(Fact::Moved { leases: 2 });
    assert!(
        effects.contains(&slow) && effects.contains(&moved),
        "{effects:?}"
    );
    assert_eq!(bench.held(1), [0, 1, 2, 3]);
    // It ends at a step that both know.
    let until: Vec<Option<Step>> = bench.leases(2).iter().map(|lease| lease.until).collect();
    assert_eq!(until, [Some(Step(2)); 2]);
    assert_eq!(bench.beat_with(2, 10.0), vec![], "it is named once");
    let status = bench.job.status(bench.now);
    assert_eq!(status.workers[1].times_slower, Some(10.0));
    assert_eq!(status.workers[0].times_slower, None);
}

#[test]
fn noise_moves_nothing_and_the_plan_follows_at_most_once_a_lease() {
    let mut bench = Bench::with_workers(2);
    bench.advance(1);
    for figures in [(100.0, 90.0), (70.0, 100.0), (100.0, 65.0)] {
        assert_eq!(bench.beat_with(1, figures.0), vec![]);
        assert_eq!(bench.beat_with(2, figures.1), vec![], "{figures:?}");
    }
    let moved = |effects: &[Effect]| {
        effects
            .iter()
            .any(|e| matches!(e, Effect::Tell(Fact::Moved { .. })))
    };
    assert!(moved(&bench.beat_with(2, 30.0)));
    assert!(!moved(&bench.beat_with(2, 100.0)), "within the same lease");
    bench.after(1000);
    assert!(moved(&bench.beat_with(2, 99.0)));
    assert_eq!(bench.held(1), [0, 1]);
}

#[test]
fn whoever_holds_nothing_for_being_slow_is_tried_again_later_and_later() {
    let mut bench = Bench::with_workers(2);
    bench.advance(1);
    bench.beat_with(1, 100.0);
    bench.beat_with(2, 10.0);
    assert_eq!(bench.held(2), [0; 0]);
    for pause in [30, 60] {
        bench.after(pause * 1000 - 1);
        bench.beat_with(2, 10.0);
        assert_eq!(bench.held(2), [0; 0], "before {pause} leases");
        bench.after(1);
        bench.beat_with(2, 10.0);
        assert_eq!(bench.held(2).len(), 2, "after {pause} leases");
        bench.after(1000);
        bench.beat_with(2, 10.0);
        assert_eq!(bench.held(2).len(), 2, "the old figure says nothing new");
        bench.beat_with(2, 11.0);
        assert_eq!(bench.held(2), [0; 0], "it is measured anew");
        bench.beat_with(2, 10.0);
    }
}

#[test]
fn a_wait_has_a_name_only_when_it_is_long() {
    let mut bench = two_proven();
    bench.covered_but(2);
    let waiting = |bench: &Bench| bench.job.status(bench.now).waiting;
    bench.after(249);
    assert_eq!(waiting(&bench), None);
    bench.now = bench.now + Span::from_millis(1);
    assert_eq!(
        waiting(&bench).as_deref(),
        Some("worker #2 (w2) at step 1: partitions 2, 3")
    );
}
