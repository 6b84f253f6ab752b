//! Commits and branches: a branch supersedes no line of a version that may be announced.

use super::hosts::{Hosted, LEASE, host, hosted};
use super::*;
use crate::machine::fleet::HostNews;
use crate::message::HostSays;

/// Version 1 is durable and version 3 is being committed when the primary of slice 0 is lost, of
/// which there is no other copy.
fn lost_while_committing() -> Hosted {
    let mut run = Hosted::new(hosted(2, 0));
    (1..=2).for_each(|number| drop(run.ready(number)));
    (0..3).for_each(|step| drop(run.commit(step)));
    run.event(Event::Durable(Step(1)));
    let asked = run.bench.event(Event::Commit(Step(3)));
    assert_eq!(asked, vec![Effect::Commit(Step(3))]);
    run.unlinked(1);
    let lost = HostNews::Down(host(1), Cause::LeaseExpired);
    assert_eq!(bases(&run.bench.event(Event::Host(lost))), []);
    run
}

fn bases(effects: &[Effect]) -> Vec<Step> {
    let bases = effects.iter().filter_map(|effect| match effect {
        Effect::KeepBranch(branch) => Some(branch.base),
        _ => None,
    });
    bases.collect()
}

#[test]
fn a_rollback_waits_for_a_commit_and_begins_at_its_version() {
    let mut run = lost_while_committing();
    // However long it takes: the store does one after the other.
    run.bench.now = run.bench.now + Span::from_millis(10 * LEASE);
    assert_eq!(bases(&run.bench.event(Event::Tick)), []);
    let mut effects = run.bench.event(Event::Durable(Step(3)));
    let told = Effect::Tell(Fact::Durable { version: Step(3) });
    assert!(effects.contains(&told), "{effects:?}");
    assert_eq!(bases(&effects), [Step(3)]);
    let kept = run.bench.job.hosting.last_timeline;
    effects = run.event(Event::BranchKept(kept));
    assert_eq!(bases(&effects), []);
    let rolled_back = |effect: &Effect| matches!(effect, Effect::Tell(Fact::Rollback { base: Step(3), cause }) if cause.contains("was lost"));
    assert!(effects.iter().any(rolled_back), "{effects:?}");
}

#[test]
fn a_rollback_begins_at_the_version_before_when_a_commit_fails() {
    let mut run = lost_while_committing();
    // That it takes long is no outcome.
    let slow = Event::Degraded("took longer than 60.000 s".into());
    assert_eq!(bases(&run.bench.event(slow)), []);
    let failed = run.bench.event(Event::NotCommitted(Step(3)));
    assert_eq!(bases(&failed), [Step(1)]);
}

#[test]
fn a_rollback_whose_base_rotted_waits_for_a_commit_that_came_after_it() {
    let mut run = Hosted::new(hosted(2, 0));
    (1..=2).for_each(|number| drop(run.ready(number)));
    (0..3).for_each(|step| drop(run.commit(step)));
    run.event(Event::Durable(Step(1)));
    let failed = HostSays::Failed {
        slice: SliceId(0),
        timeline: timeline(),
        cause: "no good checkpoint of step 1 is left".into(),
    };
    let said = Event::Host(HostNews::Said(host(1), failed));
    assert_eq!(bases(&run.bench.event(said)), [Step(1)]);
    run.bench.event(Event::Commit(Step(3)));
    assert_eq!(bases(&run.bench.event(Event::BaseDamaged(None))), []);
    let durable = run.bench.event(Event::Durable(Step(3)));
    assert_eq!(bases(&durable), [Step(3)]);
}
