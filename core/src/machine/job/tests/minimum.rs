//! Too few workers, workers that are held back, and runs that are taken up with workers at work.

use super::*;
use crate::machine::job::leases::Held;
use crate::message::Claim;
use crate::random::{Key, Purpose};

fn needs(min_workers: u32) -> Bench {
    Bench::new(Settings {
        min_workers,
        ..settings()
    })
}

fn standing(bench: &Bench, number: u32) -> Vec<u32> {
    let leases = bench.leases(number).into_iter();
    let standing = leases.filter(|lease| lease.until.is_none());
    standing.map(|lease| lease.partition.0).collect()
}

#[test]
fn a_run_gets_its_minimum_at_once_or_holds_nothing() {
    let mut bench = needs(3);
    for number in 1..=2 {
        bench.join(number);
        assert_eq!(bench.leases(number), vec![], "{number} workers");
    }
    bench.join(3);
    let all: Vec<u32> = (1..=3).flat_map(|n| standing(&bench, n)).collect();
    assert_eq!(all.len(), 4);
    bench.advance(2);
    bench.down(3);
    // Whoever is left finishes the open step, and no other.
    for number in 1..=2 {
        let leases = bench.leases(number);
        assert!(!leases.is_empty());
        assert!(
            leases.iter().all(|l| l.until == Some(Step(3))),
            "{leases:?}"
        );
    }
    bench.join(4);
    let all: Vec<u32> = [1, 2, 4]
        .into_iter()
        .flat_map(|n| standing(&bench, n))
        .collect();
    assert_eq!(all.len(), 4);
}

#[test]
fn a_run_below_its_minimum_says_who_is_missing() {
    let mut bench = needs(3);
    bench.join(1);
    bench.join(2);
    bench.down(2);
    let (incarnation, name) = (worker(3), "w3".into());
    bench.event(Event::Member(Member::Up { incarnation, name }));
    let waiting = bench.job.status(bench.now).waiting;
    assert_eq!(
        waiting.as_deref(),
        Some(
            "workers: 1 of at least 3 ready; w3 is joining, w2 was lost (link-reset); start more \
             with `resilin worker --join`"
        )
    );
}

#[test]
fn a_run_below_its_minimum_for_too_long_is_given_up_and_one_above_it_is_not() {
    for (workers, given_up) in [(1, true), (2, false)] {
        let mut bench = Bench::new(Settings {
            min_workers: 2,
            wait_below_min: Some(Span::from_millis(500)),
            ..settings()
        });
        (1..=workers).for_each(|number| drop(bench.join(number)));
        let effects = bench.after(600);
        let close = Effect::Close(Outcome::WaitedTooLong);
        assert_eq!(
            effects.contains(&close),
            given_up,
            "{workers} workers: {effects:?}"
        );
    }
}

#[test]
fn no_more_than_the_maximum_hold_leases() {
    let mut bench = Bench::new(Settings {
        max_workers: 2,
        ..settings()
    });
    (1..=4).for_each(|number| drop(bench.join(number)));
    let held = [1, 2, 3, 4].map(|number| standing(&bench, number).len());
    assert_eq!(held, [2, 2, 0, 0]);
}

fn held_back(bench: &mut Bench, number: u32, millis: u64) -> Vec<Effect> {
    let (incarnation, name) = (worker(number), format!("w{number}"));
    bench.event(Event::Member(Member::Up { incarnation, name }));
    let until = bench.now + Span::from_millis(millis);
    bench.event(Event::Member(Member::HeldBack(incarnation, until)));
    let data = "rows".into();
    bench.said(number, WorkerSays::Ready { data })
}

#[test]
fn whoever_is_held_back_gets_its_leases_when_its_time_has_come() {
    let mut bench = Bench::with_workers(1);
    let effects = held_back(&mut bench, 2, 3000);
    let told = Effect::Tell(Fact::Delayed {
        name: "w2".into(),
        wait_ms: 3000,
        cause: "it was lost again and again".into(),
    });
    assert!(effects.contains(&told), "{effects:?}");
    bench.after(2999);
    assert_eq!(bench.leases(2), vec![]);
    let status = bench.job.status(bench.now);
    let seen = (status.workers[1].state.as_str(), status.workers[1].waits_ms);
    assert_eq!(seen, ("waiting", Some(1)));
    bench.after(1);
    assert_eq!(bench.leases(2).len(), 2);
}

#[test]
fn nobody_is_held_back_from_a_run_that_waits_for_its_minimum() {
    let mut bench = needs(2);
    bench.join(1);
    held_back(&mut bench, 2, 64_000);
    assert_eq!(standing(&bench, 2).len(), 2);
}

/// A later life of the coordinator over a branch that the life before began.
fn taken_up() -> Bench {
    Bench::new(Settings {
        reign: 8,
        ..settings()
    })
}

/// Somebody of before is back and says what it holds.
fn claim(bench: &mut Bench, number: u32, generation: u32, leases: Vec<Lease>) {
    let (incarnation, name) = (later(number), format!("w{number}"));
    bench.event(Event::Member(Member::Up { incarnation, name }));
    let claim = Claim {
        before: worker(number),
        generation: Generation {
            reign: 7,
            number: generation,
        },
        timeline: timeline(),
        leases,
    };
    let claim = WorkerSays::Claim(claim);
    bench.event(Event::Member(Member::Said(incarnation, claim)));
}

/// It claims and takes part again.
fn back(bench: &mut Bench, number: u32, generation: u32, leases: Vec<Lease>) {
    claim(bench, number, generation, leases);
    let data = "rows".into();
    let ready = WorkerSays::Ready { data };
    bench.event(Event::Member(Member::Said(later(number), ready)));
}

fn later(number: u32) -> Incarnation {
    Incarnation { reign: 8, number }
}

fn holders(bench: &Bench) -> Vec<Option<u32>> {
    let holder = |held: &[Held]| {
        let last = held.last().filter(|lease| lease.until.is_none());
        last.map(|lease| lease.holder.number)
    };
    (0..PARTITIONS)
        .map(|p| holder(bench.job.leases.get(PartitionId(p))))
        .collect()
}

#[test]
fn leases_stay_where_they_were_when_a_coordinator_comes_back() {
    let mut bench = taken_up();
    let halves = [vec![1, 3], vec![0, 2]];
    for (number, half) in (1..).zip(halves) {
        let leases = half.into_iter().map(|p| lease(p, 2, None)).collect();
        back(&mut bench, number, 5, leases);
    }
    // All is held, so nobody waits for the end of the grace; and nothing moved.
    assert_eq!(holders(&bench), [2, 1, 2, 1].map(Some));
    assert_eq!(bench.job.status(bench.now).reassigned, 0);
    assert_eq!(bench.job.generation.number, 1);
}

#[test]
fn steps_that_only_a_lost_holder_had_are_claimed_by_the_next_one() {
    let mut bench = taken_up();
    for (number, half) in (1..).zip([vec![0, 1], vec![2, 3]]) {
        let leases = half.into_iter().map(|p| lease(p, 3, None)).collect();
        back(&mut bench, number, 5, leases);
    }
    let low = bench.job.low().0;
    let mut effects = Vec::new();
    bench.job.assign(later(1), &mut effects);
    let Some(Effect::Say(_, CoordinatorSays::Assign(assignment))) = effects.pop() else {
        panic!("no assignment");
    };
    assert_eq!(
        assignment.leases,
        [lease(0, low, None), lease(1, low, None)]
    );
}

#[test]
fn what_nobody_claims_is_given_away_after_a_lease_and_not_before() {
    let mut bench = taken_up();
    back(&mut bench, 1, 5, vec![lease(1, 0, None)]);
    bench.event(Event::Tick);
    bench.after(999);
    assert_eq!(holders(&bench), [None, Some(1), None, None]);
    bench.after(1);
    assert_eq!(holders(&bench), [Some(1); 4]);
}

#[test]
fn whoever_claims_and_is_lost_before_it_takes_part_holds_nothing() {
    let mut bench = taken_up();
    claim(&mut bench, 1, 5, vec![lease(1, 0, None)]);
    assert_eq!(holders(&bench), [None, Some(1), None, None]);
    let down = Member::Down(later(1), Cause::LinkReset);
    bench.event(Event::Member(down));
    assert_eq!(holders(&bench), [None; 4]);
}

#[test]
fn of_two_claims_the_higher_generation_wins_in_either_order() {
    for swapped in [false, true] {
        let mut claims = [(1, 4), (2, 5)];
        if swapped {
            claims.reverse();
        }
        let mut bench = taken_up();
        for (number, generation) in claims {
            back(&mut bench, number, generation, vec![lease(3, 0, None)]);
        }
        assert_eq!(holders(&bench)[3], Some(2), "swapped: {swapped}");
    }
}

#[test]
fn a_claim_of_another_branch_or_of_no_partition_is_nothing() {
    let mut bench = taken_up();
    back(&mut bench, 1, 5, vec![lease(77, 0, None)]);
    let mut other = Bench::new(Settings {
        reign: 8,
        branch: Branch {
            timeline: Timeline::first(6),
            ..settings().branch
        },
        ..settings()
    });
    back(&mut other, 1, 5, vec![lease(1, 0, None)]);
    assert_eq!(holders(&bench), [None; 4]);
    assert_eq!(holders(&other), [None; 4]);
}

/// What members and slices say in the first steps of a run of two workers.
fn words() -> Vec<Event> {
    let beat = |number, step| {
        let says = WorkerSays::Heartbeat {
            generation: None,
            step: Some(Step(step)),
            samples_per_s: 10.0,
            linked: true,
        };
        Event::Member(Member::Said(worker(number), says))
    };
    let progress = |slice, step, covered: &[u32]| {
        Event::Shard(ShardReport::Progress {
            slice: SliceId(slice),
            timeline: timeline(),
            step: Step(step),
            covered: covered.iter().map(|p| PartitionId(*p)).collect(),
            pinned: None,
            cutting: None,
            resting: false,
            behind: None,
            kept: Step(0),
            voted: false,
        })
    };
    let drain = || Event::Member(Member::Said(worker(2), WorkerSays::Drain));
    vec![
        beat(1, 0),
        progress(0, 0, &[0, 1]),
        progress(1, 0, &[2]),
        beat(2, 0),
        progress(0, 1, &[]),
        progress(1, 1, &[]),
        drain(),
        beat(2, 1),
        progress(0, 1, &[0, 1, 2, 3]),
        progress(1, 2, &[]),
        progress(0, 2, &[]),
        beat(1, 2),
    ]
}

/// What counts at the end, whatever came twice or in another order.
fn end(bench: &Bench) -> (Step, Vec<Option<u32>>, u64, u64, u64) {
    let status = bench.job.status(bench.now);
    let Settings { members, .. } = settings();
    assert_eq!(members, Members::default());
    (
        status.step,
        holders(bench),
        status.joined,
        status.lost,
        status.drained,
    )
}

#[test]
fn words_that_come_twice_or_in_another_order_change_nothing() {
    let run = |words: Vec<Event>| {
        let mut bench = Bench::with_workers(2);
        words.into_iter().for_each(|event| drop(bench.event(event)));
        // What was not taken in for coming too early is said again.
        bench.said(2, WorkerSays::Drain);
        for (slice, step) in [(0, 3), (1, 3), (0, 4), (1, 4)] {
            bench.progress(slice, step, &[]);
        }
        end(&bench)
    };
    let expected = (Step(4), vec![Some(1); 4], 2, 0, 1);
    assert_eq!(run(words()), expected);
    let twice = words().into_iter().flat_map(|event| [event.clone(), event]);
    assert_eq!(run(twice.collect()), expected, "each twice");
    for at in 1..words().len() {
        let mut swapped = words();
        swapped.swap(at - 1, at);
        assert_eq!(run(swapped), expected, "{at} before {}", at - 1);
        let mut late = words();
        let event = late.remove(at - 1);
        late.push(event);
        assert_eq!(run(late), expected, "{} last", at - 1);
    }
    for seed in 0..50 {
        let mut stream = Key::new(seed, Purpose::Synthetic).stream();
        let mut mixed: Vec<Event> = words().into_iter().chain(words()).collect();
        for at in 1..mixed.len() {
            mixed.swap(at, stream.below(at as u32 + 1) as usize);
        }
        assert_eq!(run(mixed), expected, "seed {seed}");
    }
}
