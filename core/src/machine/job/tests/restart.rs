//! A coordinator that comes back to hosts which went on without it.

use super::hosts::{Hosted, Short, assigned, host, hosted, is_kept, served, view};
use super::*;
use crate::machine::job::leases::Held;
use crate::message::{Duty, Holding, HostSays, HostTold};

/// The reign after the one that hosts were numbered in.
const REIGN: u64 = 8;
const PLAN: [Short; 2] = [(3, 1, Some(2), true), (4, 2, None, false)];

fn restarted() -> Hosted {
    let views = (0..).zip(PLAN).map(|(slice, short)| view(slice, short));
    let settings = Settings {
        reign: REIGN,
        views: views.clone().collect(),
        recorded: Step(2),
        durable: Some(Step(1)),
        chain: SortedMap::from([(Step(2), [2; 32])]),
        ..hosted(2, 1)
    };
    let mut restarted = Hosted::new(settings);
    restarted.durable = views.map(|view| (view.slice, view)).collect();
    restarted.bench.join(1);
    restarted
}

fn holding(slice: u16, duty: Duty, step: u64) -> Holding {
    Holding {
        slice: SliceId(slice),
        duty,
        branch: branch(),
        view: View::first(7),
        step: Step(step),
    }
}

fn back(restarted: &mut Hosted, number: u32) -> Vec<Effect> {
    let holdings = match number {
        1 => vec![holding(0, Duty::Primary, 4)],
        _ => vec![holding(0, Duty::Backup, 4), holding(1, Duty::Primary, 3)],
    };
    restarted.ready_with(number, &holdings)
}

#[test]
fn with_all_hosts_back_the_run_goes_on_where_it_is() {
    let mut run = restarted();
    assert_eq!(assigned(&back(&mut run, 1)), Vec::<Vec<Short>>::new());
    let effects = back(&mut run, 2);
    assert_eq!(served(&effects)[0], (2, PLAN.to_vec()));
    assert_eq!(run.bench.job.low(), Step(3));
    // Only slice 1 gets the backup that it lacked.
    assert_eq!(run.views(), [PLAN[0], (1, 2, Some(1), false)]);
    // The worker says nothing of leases, so others have a lease to say that they hold them.
    let planned = run.tick(1000);
    let first = planned.iter().find_map(|effect| match effect {
        Effect::Say(_, CoordinatorSays::Assign(assignment)) => Some(assignment.leases[0].from),
        _ => None,
    });
    assert_eq!(first, Some(Step(3)), "nothing is evaluated again");
    let changed = planned.iter().any(is_kept);
    assert!(!changed, "{:?}", run.views());
    assert_eq!(run.bench.job.branch, branch());
    // Records that the ledger lacks come from the hosts.
    let mut effects = Vec::new();
    for (number, slice) in [(1, 0), (2, 1)] {
        let record = ShardReport::Committed(record(slice, 2));
        effects.extend(run.says(number, HostSays::Report(record)));
    }
    let line = |effect: &&Effect| matches!(effect, Effect::Append(Record::Step(_)));
    assert_eq!(effects.iter().filter(line).count(), 1);
}

/// The slices may have gone on beyond what members were told last, and the next plan, which tidies
/// up, may have to wait.
#[test]
fn a_lease_that_was_over_before_the_slices_were_heard_is_none() {
    let mut run = restarted();
    back(&mut run, 1);
    back(&mut run, 2);
    let job = &mut run.bench.job;
    assert_eq!(job.low(), Step(3));
    let brought = |number, from, until| Held {
        holder: worker(number),
        from: Step(from),
        until,
        given: Time(0),
    };
    job.leases.alter(PartitionId(1), |held| {
        *held = vec![brought(2, 0, Some(Step(2))), brought(3, 2, None)];
    });
    job.begin_leases_at_low();
    let held = job.leases.get(PartitionId(1)).iter();
    let held: Vec<_> = held.map(|l| (l.holder, l.from, l.until)).collect();
    assert_eq!(held, [(worker(3), Step(3), None)]);
}

/// A host takes up what it is told under a generation that it has not seen.
#[test]
fn what_follows_after_a_restart_is_told_under_another_generation() {
    let mut run = restarted();
    let mut told = SortedMap::new();
    let mut effects = back(&mut run, 1);
    effects.extend(back(&mut run, 2));
    effects.extend(run.expired(2));
    effects.extend(run.tick(1000));
    for effect in effects {
        if let Effect::Host(
            _,
            HostTold::Serve {
                generation,
                branch,
                views,
            },
        ) = effect
        {
            let first = told
                .entry(generation)
                .or_insert_with(|| (branch, views.clone()));
            assert_eq!(*first, (branch, views), "{generation:?} is told twice");
        }
    }
    assert!(told.len() > 2, "{told:?}");
}

#[test]
fn a_version_kept_from_before_the_restart_is_scored_once_all_slices_are_heard() {
    let mut run = restarted();
    let mut effects = back(&mut run, 1);
    effects.extend(back(&mut run, 2));
    effects.extend(run.bench.shard(0, 4, &[], Some(2), false));
    let begun = |effect: &Effect| match effect {
        Effect::Say(_, CoordinatorSays::Evaluate { version, .. }) => Some(*version),
        _ => None,
    };
    assert_eq!(effects.iter().find_map(begun), None);
    effects.extend(run.bench.shard(1, 3, &[], Some(2), false));
    assert_eq!(effects.iter().find_map(begun), Some(Step(2)));
    let missed = Effect::Tell(Fact::NotEvaluated { version: Step(2) });
    assert!(!effects.contains(&missed), "{effects:?}");
}

#[test]
fn a_missing_primary_with_a_backup_in_sync_is_replaced_after_the_grace() {
    let mut run = restarted();
    back(&mut run, 2);
    assert_eq!(
        run.bench.job.status(run.bench.now).slices[0].state,
        "returning"
    );
    assert_eq!(served(&run.tick(999)), vec![]);
    let plan = vec![(1, 2, None, false), PLAN[1]];
    assert_eq!(served(&run.tick(1)), vec![(2, plan)]);
    assert_eq!(run.bench.job.branch, branch());
}

#[test]
fn a_missing_primary_without_a_backup_in_sync_rolls_all_back_after_the_grace() {
    let mut run = restarted();
    back(&mut run, 1);
    run.tick(999);
    assert_eq!(run.bench.job.branch, branch());
    let effects = run.tick(1);
    let next = Branch {
        timeline: Timeline::first(REIGN),
        base: Step(1),
        ..branch()
    };
    assert!(effects.contains(&Effect::KeepBranch(next)), "{effects:?}");
    assert_eq!(
        run.bench.job.settings.superseded,
        SortedMap::from([(Step(2), [2; 32])])
    );
    run.ready(3);
    assert_eq!(
        run.views(),
        [(1, 1, Some(3), false), (2, 3, Some(1), false)]
    );
}

#[test]
fn a_stop_that_was_asked_for_ends_a_run_whose_hosts_are_all_dead() {
    let mut run = restarted();
    let stop = |effects: &[Effect]| {
        let ends = effects.iter().filter_map(|effect| match effect {
            Effect::Close(outcome) => Some(outcome.clone()),
            _ => None,
        });
        ends.collect::<Vec<_>>()
    };
    let asked = run.event(Event::Command(Command::Stop));
    assert_eq!(stop(&asked), [], "they may come back");
    assert_eq!(stop(&run.tick(999)), []);
    let late = run.tick(1);
    assert_eq!(stop(&late), [Outcome::Stopped(Step(1))], "{late:?}");
}

#[test]
fn the_view_of_a_new_reign_is_above_all_before() {
    let mut run = restarted();
    back(&mut run, 1);
    let effects = back(&mut run, 2);
    let views = effects.iter().find_map(|effect| match effect {
        Effect::KeepViews(views) => Some(views.iter().map(|view| view.view).collect()),
        _ => None,
    });
    let first = View {
        reign: REIGN,
        number: 1,
    };
    assert_eq!(views, Some(vec![first]));
}

#[test]
fn a_branch_without_views_is_placed_like_a_first_start() {
    let settings = Settings {
        reign: REIGN,
        ..hosted(1, 0)
    };
    let mut run = Hosted::new(settings);
    let told = run.ready(1);
    assert_eq!(
        served(&told),
        vec![(1, vec![(1, 1, None, false), (2, 1, None, false)])]
    );
    assert_eq!(run.bench.job.branch, branch());
}

#[test]
fn slices_that_rest_for_what_a_lost_coordinator_was_asked_go_on() {
    let mut run = restarted();
    (1..=2).for_each(|number| drop(back(&mut run, number)));
    run.at(0, 4, true);
    let effects = run.at(1, 4, true);
    let go_on = ShardOrder::GoOn { step: Step(4) };
    let told = |effects: &[Effect]| -> Vec<(Incarnation, SliceId)> {
        let told = effects.iter().filter_map(|effect| match effect {
            Effect::Host(host, HostTold::Order { slice, order, .. }) if *order == go_on => {
                Some((*host, *slice))
            }
            _ => None,
        });
        told.collect()
    };
    let replicas = [
        (host(1), SliceId(0)),
        (host(2), SliceId(0)),
        (host(2), SliceId(1)),
        (host(1), SliceId(1)),
    ];
    assert_eq!(told(&effects), replicas, "{effects:?}");
    assert_eq!(told(&run.tick(500)), replicas, "one may not have heard");
    let cause = "the coordinator that had the shards rest at step 4 is gone; ask again for what \
                 was asked of it"
        .to_owned();
    let fact = Effect::Tell(Fact::NotResharded { cause });
    assert!(effects.contains(&fact), "{effects:?}");
    let durable = run.event(Event::Durable(Step(4)));
    let over = |effect: &Effect| matches!(effect, Effect::Close(_));
    assert!(!durable.iter().any(over), "the run goes on: {durable:?}");
    run.at(0, 5, false);
    run.at(1, 5, false);
    assert_eq!(told(&run.tick(500)), []);
    let again = run.event(Event::Command(Command::Reshard {
        shards: 1,
        at: None,
    }));
    assert!(
        !again
            .iter()
            .any(|e| matches!(e, Effect::Tell(Fact::NotResharded { .. }))),
        "{again:?}"
    );
}

/// What is ordered of slices, each order once.
fn orders(effects: &[Effect]) -> Vec<ShardOrder> {
    let order = |effect: &Effect| match effect {
        Effect::Host(_, HostTold::Order { order, slice, .. }) if slice.0 == 0 => Some(*order),
        _ => None,
    };
    let mut orders: Vec<ShardOrder> = effects.iter().filter_map(order).collect();
    orders.dedup();
    orders
}

#[test]
fn hosts_keep_a_version_until_its_score_is_in_the_store() {
    let mut run = restarted();
    (1..=2).for_each(|number| drop(back(&mut run, number)));
    for (slice, step) in [(0, 4), (1, 3)] {
        run.bench.shard(slice, step, &[], Some(2), false);
    }
    let over = ShardOrder::Evaluated { version: Step(2) };
    for task in 0..3 {
        let effects = run.bench.scored_by(1, 2, task, TaskScore::default());
        assert_eq!(orders(&effects), [], "task {task}");
    }
    assert!(run.bench.job.metrics.contains_key(&Step(2)));
    let again = run.bench.shard(0, 4, &[], Some(2), false);
    assert_eq!(orders(&again), [], "its record is on the way");
    let old = Event::ScoreTaken(Timeline::first(1), Step(2));
    assert_eq!(
        orders(&run.bench.event(old)),
        [],
        "of a branch that is left"
    );
    let taken = Event::ScoreTaken(timeline(), Step(2));
    assert_eq!(orders(&run.bench.event(taken)), [over]);
    let lost = run.bench.shard(0, 4, &[], Some(2), false);
    assert_eq!(
        orders(&lost),
        [over],
        "said again to whoever did not hear it"
    );
}

#[test]
fn the_last_version_is_scored_although_hosts_let_go_of_it_for_a_score_that_is_lost() {
    let mut run = restarted();
    (1..=2).for_each(|number| drop(back(&mut run, number)));
    run.bench.advance(6);
    let mut said = Vec::new();
    for (slice, pinned) in [(0, None), (1, Some(6))] {
        said.extend(run.bench.shard(slice, 6, &[], pinned, true));
    }
    said.extend(run.bench.after(500));
    let pin = ShardOrder::Pin { version: Step(6) };
    assert!(orders(&said).contains(&pin), "{said:?}");
    let begun = run.bench.shard(0, 6, &[], Some(6), true);
    let evaluated = |effect: &Effect| matches!(effect, Effect::Say(_, CoordinatorSays::Evaluate { version, .. }) if *version == Step(6));
    assert!(begun.iter().any(evaluated), "{begun:?}");
    assert!(
        !orders(&run.bench.after(500)).contains(&pin),
        "it is scored"
    );
}

#[test]
fn whoever_repeats_a_record_is_answered_alone() {
    let mut run = restarted();
    (1..=2).for_each(|number| drop(back(&mut run, number)));
    let told = |effects: &[Effect]| {
        let told = effects.iter().filter_map(|effect| match effect {
            Effect::Host(to, HostTold::Order { slice, order, .. }) => Some((*to, slice.0, *order)),
            _ => None,
        });
        told.collect::<Vec<_>>()
    };
    let recorded = ShardOrder::Recorded { before: Step(2) };
    let again = run.bench.committed(1, 1);
    let replicas = [(host(2), 1, recorded), (host(1), 1, recorded)];
    assert_eq!(told(&again), replicas, "and not those of slice 0");
    run.bench.advance(3);
    assert_eq!(told(&run.bench.committed(1, 2)), [], "not in the store yet");
}
