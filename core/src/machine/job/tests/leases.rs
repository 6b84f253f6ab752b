//! Who holds which partition, from which step on, as members come and go.

use super::*;

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
