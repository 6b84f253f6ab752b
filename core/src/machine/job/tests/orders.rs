//! What is ordered until it is done reaches a primary that was promoted in between.

use super::hosts::{Hosted, host, hosted};
use super::*;
use crate::message::HostTold;

fn order(number: u32, slice: u16, order: ShardOrder) -> Effect {
    let (slice, timeline) = (SliceId(slice), timeline());
    let told = HostTold::Order {
        slice,
        timeline,
        order,
    };
    Effect::Host(host(number), told)
}

/// Where an effect is, and where the host is told of the new views.
fn places(effects: &[Effect], wanted: &Effect, number: u32) -> (Option<usize>, Option<usize>) {
    let serves = |effect: &Effect| matches!(effect, Effect::Host(to, HostTold::Serve { .. }) if *to == host(number));
    let wanted = effects.iter().position(|effect| effect == wanted);
    (wanted, effects.iter().position(serves))
}

#[test]
fn a_promoted_primary_is_sealed_before_it_serves() {
    let mut hosted = Hosted::in_sync();
    hosted.event(Event::Command(Command::Stop));
    let sealed = hosted.tick(2000);
    let seals = [(1, 0), (2, 0), (2, 1), (1, 1)].map(|(h, s)| order(h, s, ShardOrder::Seal));
    assert!(seals.iter().all(|seal| sealed.contains(seal)), "{sealed:?}");
    // Unsealed it could vote, and leave a version that the others rest at and cut.
    let promoted = hosted.unlinked(1);
    let (seal, serve) = places(&promoted, &seals[1], 2);
    assert!(seal.is_some() && seal < serve, "{promoted:?}");
    assert!(hosted.tick(500).contains(&seals[1]), "and again");
}

#[test]
fn a_promoted_primary_is_told_to_withhold_once_it_serves() {
    let mut hosted = Hosted::in_sync();
    let (step, partition) = (Step(0), PartitionId(3));
    let report = |evaluations| WorkerSays::NonFinite {
        timeline: timeline(),
        step,
        partition,
        digest: [1; 32],
        evaluations,
    };
    let mut said = |evaluations| {
        let said = Member::Said(worker(1), report(evaluations));
        hosted.event(Event::Member(said))
    };
    said(1);
    let withhold = ShardOrder::Withhold { step };
    let withheld = said(2);
    assert!(withheld.contains(&order(1, 0, withhold)), "{withheld:?}");
    let promoted = hosted.unlinked(1);
    let (order, serve) = places(&promoted, &order(2, 0, withhold), 2);
    assert!(serve.is_some() && serve < order, "{promoted:?}");
}

#[test]
fn a_promotion_without_anything_ordered_orders_nothing() {
    let mut hosted = Hosted::in_sync();
    let effects = hosted.unlinked(1);
    let ordered = |e: &&Effect| matches!(e, Effect::Host(_, HostTold::Order { .. }));
    assert_eq!(effects.iter().find(ordered), None);
}

#[test]
fn a_coordinator_that_is_outranked_ends_at_once_and_tells_nobody() {
    let mut hosted = Hosted::new(hosted(2, 1));
    hosted.bench.join(1);
    let effects = hosted.event(Event::Outranked(8));
    let cause = "a later coordinator (reign 8) leads this run, and this one (reign 7) commands nobody \
                 any more: go on with the state directory of the later one";
    let outcome = Outcome::Outranked {
        cause: cause.into(),
    };
    let over = [Effect::Saver(saver::Event::Over), Effect::Over(outcome)];
    assert_eq!(effects[..2], over, "{effects:?}");
    let told = |e: &&Effect| {
        let finished = |says: &CoordinatorSays| matches!(says, CoordinatorSays::Finished);
        matches!(e, Effect::Say(_, says) if finished(says)) || matches!(e, Effect::Close(_))
    };
    let later = [effects, hosted.bench.join(2), hosted.tick(5000)].concat();
    assert_eq!(later.iter().find(told), None);
}
