//! Versions that are scored: which one a slice keeps, and when it may go on.

use super::follow_test::{backup_of, root};
use super::lead_test::{alone, applied, apply, long, view, vote};
use super::tests::{Bench, rules};
use super::*;
use crate::message::ShardOrder;
use crate::vote::VoteRules;

/// Versions 2, 4 and 6, the last, are scored.
fn every_second(rules: Rules) -> Rules {
    Rules {
        evaluate_every: Some(2),
        votes: VoteRules {
            total_steps: 6,
            ..rules.votes
        },
        ..rules
    }
}

fn over(version: u64) -> ShardOrder {
    let version = Step(version);
    ShardOrder::Evaluated { version }
}

fn combines(effects: &[Effect], of: u64) -> bool {
    let combine =
        |effect: &Effect| matches!(effect, Effect::Combine { step, .. } if *step == Step(of));
    effects.iter().any(combine)
}

#[test]
fn a_slice_stays_at_the_next_version_to_score_until_the_one_before_is() {
    let mut bench = Bench::with(every_second(rules(1)));
    bench.commit();
    assert!(bench.commit().contains(&Effect::Pin(Step(2))));
    bench.commit();
    let at_next = bench.commit();
    assert!(!at_next.contains(&Effect::Pin(Step(4))), "{at_next:?}");
    let taken = bench.push(4, 2, 0, 100);
    assert!(!combines(&taken, 4), "contributions are taken: {taken:?}");
    let withheld = bench.order(ShardOrder::Withhold { step: Step(4) });
    assert_eq!(withheld, vec![], "no vote leaves it either");
    let freed = bench.order(over(2));
    assert_eq!(freed[..2], [Effect::Unpin(Step(2)), Effect::Pin(Step(4))]);
    assert!(combines(&freed, 4), "{freed:?}");
}

#[test]
fn a_version_that_was_scored_before_is_neither_kept_nor_waited_at() {
    let mut bench = Bench::with(every_second(rules(1)));
    (0..2).for_each(|_| drop(bench.commit()));
    // It is scored although this slice never heard of earlier ones.
    assert_eq!(bench.order(over(2)), vec![Effect::Unpin(Step(2))]);
    assert_eq!(bench.order(over(2)), vec![], "said again");
    assert!(combines(&bench.push(2, 2, 0, 100), 2));
}

#[test]
fn a_backup_keeps_what_its_primary_left_even_if_it_did_not_hear_why() {
    let mut bench = backup_of(every_second(long()));
    let follow = |bench: &mut Bench, step| {
        bench.pledge(vote(step, 0, Flags::default()));
        bench.event(root(step));
        bench.record(step)
    };
    for step in 0..2 {
        follow(&mut bench, step);
        let kept = bench.event(applied(step));
        let pins = kept.contains(&Effect::Pin(Step(step + 1)));
        assert_eq!(pins, step == 1, "{kept:?}");
    }
    for step in 2..4 {
        follow(&mut bench, step);
        bench.event(applied(step));
    }
    let left = follow(&mut bench, 4);
    let place = |wanted: &Effect| left.iter().position(|effect| effect == wanted);
    let unpinned = place(&Effect::Unpin(Step(2)));
    let (pinned, applied) = (place(&Effect::Pin(Step(4))), place(&apply(4)));
    assert!(unpinned.is_some() && unpinned < pinned, "{left:?}");
    assert!(pinned < applied, "{left:?}");
}

#[test]
fn a_backup_that_is_promoted_with_a_vote_keeps_the_version_that_it_leaves() {
    let mut bench = backup_of(every_second(long()));
    for step in 0..4 {
        bench.pledge(vote(step, 0, Flags::default()));
        bench.event(root(step));
        bench.record(step);
        bench.event(applied(step));
    }
    bench.pledge(vote(4, 0, Flags::default()));
    bench.event(root(4));
    let (view, duty) = (view(2), alone());
    let promoted = bench.event(Event::View { view, duty });
    assert!(promoted.contains(&Effect::Unpin(Step(2))), "{promoted:?}");
    assert!(promoted.contains(&Effect::Pin(Step(4))), "{promoted:?}");
}

#[test]
fn a_version_that_was_scored_is_kept_again_unless_another_came_after_it() {
    let mut bench = Bench::with(every_second(rules(1)));
    (0..2).for_each(|_| drop(bench.commit()));
    bench.order(over(2));
    let pin = ShardOrder::Pin { version: Step(2) };
    assert_eq!(bench.order(pin)[0], Effect::Pin(Step(2)));
    assert_eq!(bench.order(pin), vec![], "said again");
    bench.order(over(2));
    bench.commit();
    assert_eq!(bench.order(pin), vec![], "it is gone");
}

#[test]
fn a_backup_does_not_keep_again_what_it_may_not_have() {
    let mut bench = backup_of(every_second(long()));
    for step in 0..2 {
        bench.pledge(vote(step, 0, Flags::default()));
        bench.event(root(step));
        bench.record(step);
        bench.event(applied(step));
    }
    assert_eq!(bench.order(over(2)), vec![Effect::Unpin(Step(2))]);
    let pin = ShardOrder::Pin { version: Step(2) };
    assert_eq!(bench.order(pin), vec![]);
}
