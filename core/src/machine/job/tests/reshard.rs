//! Another number of slices while the run goes on.

use super::hosts::{Hosted, hosted, served};
use super::*;
use crate::message::HostTold;

fn running() -> Hosted {
    let mut running = Hosted::new(hosted(2, 0));
    running.bench.join(1);
    (1..=2).for_each(|number| drop(running.ready(number)));
    running.commit(0);
    running
}

fn reshard(shards: u16, at: Option<u64>) -> Event {
    let at = at.map(Step);
    Event::Command(Command::Reshard { shards, at })
}

/// What the slices were ordered, once each.
fn ordered(effects: &[Effect]) -> Vec<ShardOrder> {
    let mut orders: Vec<ShardOrder> = Vec::new();
    for effect in effects {
        if let Effect::Host(_, HostTold::Order { order, .. }) = effect
            && orders.last() != Some(order)
        {
            orders.push(*order);
        }
    }
    orders
}

fn facts(effects: &[Effect]) -> Vec<Fact> {
    let facts = effects.iter().filter_map(|effect| match effect {
        Effect::Tell(fact @ (Fact::Resharded { .. } | Fact::NotResharded { .. })) => Some(fact),
        _ => None,
    });
    facts.cloned().collect()
}

#[test]
fn slices_rest_at_the_named_step_and_go_on_in_the_new_layout() {
    let mut run = running();
    let asked = run.event(reshard(4, Some(3)));
    assert_eq!(ordered(&asked), [ShardOrder::RestAt { step: Step(3) }]);
    let again = run.tick(500);
    assert_eq!(ordered(&again), [ShardOrder::RestAt { step: Step(3) }]);
    run.commit(1);
    run.commit(2);
    run.at(0, 3, true);
    let rest = run.at(1, 3, true);
    assert_eq!(ordered(&rest), [], "{rest:?}");
    let effects = run.event(Event::Durable(Step(3)));
    let branch = Branch {
        timeline: timeline().next(),
        map: MapNumber(2),
        shards: 4,
        base: Step(3),
    };
    assert_eq!(run.bench.job.branch, branch);
    assert!(effects.contains(&Effect::KeepBranch(branch)), "{effects:?}");
    let base = Step(3);
    assert_eq!(facts(&effects), [Fact::Resharded { base, shards: 4 }]);
    let begun = Effect::Saver(saver::Event::Branch(4, base));
    assert!(effects.contains(&begun), "{effects:?}");
    let plan = vec![
        (3, 1, None, false),
        (4, 1, None, false),
        (5, 2, None, false),
        (6, 2, None, false),
    ];
    assert_eq!(served(&effects), vec![(1, plan.clone()), (2, plan)]);
    assert_eq!(run.bench.job.slices.len(), 4);
    let over = |effect: &Effect| matches!(effect, Effect::Close(_));
    assert!(!effects.iter().any(over), "the run goes on: {effects:?}");
    assert_eq!(ordered(&run.tick(500)), []);
}

#[test]
fn a_version_that_cannot_be_saved_is_left_in_the_old_layout() {
    let mut run = running();
    run.event(reshard(1, None));
    (0..2).for_each(|slice| drop(run.at(slice, 1, true)));
    run.event(Event::Degraded("the disk is full".into()));
    let effects = run.tick(2000);
    let cause = "step 1 could not be saved: the disk is full; ask again later".to_owned();
    assert_eq!(facts(&effects), [Fact::NotResharded { cause }]);
    let go_on = ShardOrder::GoOn { step: Step(1) };
    assert_eq!(ordered(&effects), [go_on]);
    assert_eq!(ordered(&run.tick(500)), [go_on], "one may not have heard");
    (0..2).for_each(|slice| drop(run.at(slice, 1, false)));
    run.commit(1);
    assert_eq!(ordered(&run.tick(500)), []);
    assert_eq!(run.bench.job.branch, branch());
    assert_eq!(run.bench.job.at_last, None);
}

#[test]
fn a_stop_goes_before_a_new_layout() {
    let mut run = running();
    run.event(reshard(1, Some(4)));
    run.event(Event::Command(Command::Stop));
    (0..2).for_each(|slice| drop(run.at(slice, 1, true)));
    let effects = run.event(Event::Durable(Step(1)));
    let stopped = Effect::Close(Outcome::Stopped(Step(1)));
    assert!(effects.contains(&stopped), "{effects:?}");
    assert_eq!(run.bench.job.branch, branch());
}

#[test]
fn what_cannot_be_is_refused_in_one_line() {
    let run = running();
    let refused = |shards, at: Option<u64>| {
        let at = at.map(Step);
        let may = run.bench.job.may(&Command::Reshard { shards, at });
        may.expect_err("refused")
    };
    assert_eq!(
        refused(0, None),
        "0 shards hold nothing; ask for at least 1"
    );
    assert_eq!(refused(2, None), "there are 2 shards already");
    let most = run.bench.job.rules.slices.with_slices(u16::MAX).slices();
    assert_eq!(
        refused(256, None),
        format!(
            "256 shards are more than the parameters have blocks ([run] block); ask for at most \
             {most}"
        )
    );
    assert_eq!(
        refused(3, Some(1)),
        "the run is at step 1: name a later step than 1, or leave --at out"
    );
    assert_eq!(refused(3, Some(6)), "the run ends at step 6, before step 6");
    let mut inside = Bench::with_workers(1);
    let effects = inside.event(reshard(3, None));
    let cause = "shards live in the coordinator; set [cluster] shard_processes and start again to \
                 change their number while the run goes on"
        .to_owned();
    assert_eq!(effects, vec![Effect::Tell(Fact::NotResharded { cause })]);
}
