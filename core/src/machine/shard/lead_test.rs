//! What a primary shows its backup and waits for, one rule at a time. All at once are run by seeds in
//! `tests/replicas`.

use super::mirror::BEHIND;
use super::tests::{Bench, incarnation, rules, sent};
use super::*;
use crate::message::{Contributor, ReplicaSays, ShardOrder, ShardReport, ShardSays, Verdict};
use crate::vote::Action;

const BACKUP: Incarnation = Incarnation {
    reign: 1,
    number: 8,
};

pub(super) fn view(number: u32) -> View {
    View { reign: 1, number }
}

fn primary(sync: Sync) -> Assigned {
    let backup = Some(Follower {
        incarnation: BACKUP,
        sync,
    });
    Assigned::Primary { backup }
}

pub(super) fn alone() -> Assigned {
    Assigned::Primary { backup: None }
}

pub(super) fn vote(step: u64, slice: u16, flags: Flags) -> Vote {
    Vote {
        timeline: Timeline::first(1),
        step: Step(step),
        slice: SliceId(slice),
        squares: vec![1.0],
        non_finite: vec![],
        flags,
    }
}

pub(super) fn pledge(view: View, vote: Vote) -> ReplicaSays {
    ReplicaSays::Pledge {
        view,
        vote,
        nodes: vec![Contributor {
            node: Node { level: 2, index: 0 },
            incarnation: incarnation(),
            samples: 8,
        }],
        weight: 8.0,
        loss_sum: 0.5,
        discarded: 0,
    }
}

pub(super) fn record(view: View, step: u64) -> ReplicaSays {
    let votes = [0, 1].map(|slice| vote(step, slice, Flags::default()));
    ReplicaSays::Record {
        view,
        step: Step(step),
        votes: votes.into(),
    }
}

fn pledged(view: View, step: u64) -> Event {
    let step = Step(step);
    Event::Replica(ReplicaSays::Pledged { view, step })
}

fn recorded(view: View, step: u64) -> Event {
    let step = Step(step);
    Event::Replica(ReplicaSays::Recorded { view, step })
}

pub(super) fn lacks(view: View, step: Option<u64>) -> Event {
    let step = step.map(Step);
    Event::Replica(ReplicaSays::Lacks { view, step })
}

pub(super) fn tell(vote: Vote) -> Effect {
    Effect::Tell(SliceId(1), SliceSays::Vote(vote))
}

pub(super) fn apply(step: u64) -> Effect {
    Effect::Apply {
        step: Step(step),
        action: Action::Apply { scale: 1.0 },
        loss: 0.0625,
    }
}

pub(super) fn applied(step: u64) -> Event {
    Event::Applied {
        step: Step(step),
        digests: vec![[7; 32]],
        finite: true,
    }
}

pub(super) fn committed(effects: &[Effect]) -> Vec<Step> {
    let step = |effect: &Effect| match effect {
        Effect::Report(ShardReport::Committed(record)) => Some(record.step),
        _ => None,
    };
    effects.iter().filter_map(step).collect()
}

pub(super) fn long() -> Rules {
    let mut rules = rules(2);
    rules.votes.total_steps = 30;
    rules
}

/// A primary whose backup is in sync at version 0 under view 2.
fn in_sync() -> Bench {
    let mut bench = copying();
    let told = bench.event(lacks(view(1), Some(0)));
    assert_eq!(told.last(), Some(&Effect::InSync(view(1))));
    bench.event(Event::View {
        view: view(2),
        duty: primary(Sync::InSync),
    });
    bench
}

/// A primary that made a copy of version 0 for its backup, under view 1.
fn copying() -> Bench {
    let mut bench = Bench::begun(long(), primary(Sync::Copying));
    let effects = bench.event(lacks(view(1), None));
    let copy = Effect::SendCopy {
        view: view(1),
        step: Step(0),
        votes: vec![],
    };
    let before = Step(0);
    assert_eq!(effects, vec![Effect::DropRoots { before }, copy]);
    bench
}

impl Bench {
    /// Contributions and root of the open step.
    fn root(&mut self) -> Vec<Effect> {
        let step = self.shard.version().0;
        self.push(step, 2, 0, 100 + step);
        self.combined()
    }

    fn other_votes(&mut self, step: u64) -> Vec<Effect> {
        self.event(Event::Slice(SliceSays::Vote(vote(
            step,
            1,
            Flags::default(),
        ))))
    }
}

#[test]
fn a_vote_counts_once_the_backup_stands_by_it() {
    let mut bench = in_sync();
    let own = vote(0, 0, Flags::default());
    let shown = vec![
        Effect::Mirror(pledge(view(2), own.clone())),
        Effect::SendRoot(Step(0)),
    ];
    assert_eq!(bench.root(), shown);
    assert_eq!(
        bench.event(pledged(view(1), 0)),
        vec![],
        "of an earlier view"
    );
    assert_eq!(bench.event(pledged(view(2), 0)), vec![tell(own)]);
}

#[test]
fn a_version_is_seen_once_the_backup_has_what_it_is_made_of() {
    let mut bench = in_sync();
    bench.root();
    bench.event(pledged(view(2), 0));
    let effects = bench.other_votes(0);
    assert_eq!(effects, vec![Effect::Mirror(record(view(2), 0)), apply(0)]);
    assert_eq!(bench.event(applied(0)), vec![]);
    assert_eq!(bench.shard.version(), Step(0));
    assert_eq!(bench.pull(1), vec![], "held");
    let effects = bench.event(recorded(view(2), 0));
    assert_eq!(committed(&effects), vec![Step(0)]);
    assert!(effects.contains(&sent(1, Use::Train, None)));
    assert_eq!(bench.shard.version(), Step(1));
}

#[test]
fn an_acknowledgement_may_come_before_the_version_is_made() {
    let mut bench = in_sync();
    bench.root();
    bench.event(pledged(view(2), 0));
    bench.other_votes(0);
    bench.event(recorded(view(2), 0));
    assert_eq!(committed(&bench.event(applied(0))), vec![Step(0)]);
}

#[test]
fn what_waited_for_a_backup_is_committed_once_a_view_has_none() {
    let change = Event::View {
        view: view(3),
        duty: alone(),
    };
    let mut bench = in_sync();
    bench.root();
    let effects = bench.event(change.clone());
    assert!(effects.contains(&tell(vote(0, 0, Flags::default()))));
    let mut bench = in_sync();
    bench.root();
    bench.event(pledged(view(2), 0));
    bench.other_votes(0);
    bench.event(applied(0));
    assert_eq!(committed(&bench.event(change.clone())), vec![Step(0)]);
    assert_eq!(bench.event(change), vec![], "told again");
}

#[test]
fn a_copy_is_made_while_training_goes_on_and_only_between_versions() {
    let mut bench = Bench::begun(long(), primary(Sync::Copying));
    bench.root();
    bench.other_votes(0);
    assert_eq!(
        bench.event(lacks(view(1), None)),
        vec![],
        "a version is being made"
    );
    let effects = bench.event(applied(0));
    let copy = effects.iter().find_map(|effect| match effect {
        Effect::SendCopy { step, votes, .. } => Some((*step, votes.len())),
        _ => None,
    });
    assert_eq!(copy, Some((Step(1), 2)));
    // Nobody waits for it.
    let own = vote(1, 0, Flags::default());
    assert_eq!(bench.root().last(), Some(&tell(own)));
    bench.other_votes(1);
    assert_eq!(committed(&bench.event(applied(1))), vec![Step(1)]);
}

#[test]
fn a_backup_is_in_sync_once_it_stands_by_the_vote_that_is_out() {
    let mut bench = copying();
    assert_eq!(
        bench.root().last(),
        Some(&tell(vote(0, 0, Flags::default())))
    );
    let effects = bench.event(lacks(view(1), Some(0)));
    assert!(!effects.contains(&Effect::InSync(view(1))));
    assert_eq!(
        bench.event(pledged(view(1), 0)),
        vec![Effect::InSync(view(1))]
    );
    // Said again until a view says so.
    let again = bench.tick(500);
    assert!(again.contains(&Effect::InSync(view(1))));
}

#[test]
fn a_backup_is_in_sync_once_the_ledger_has_what_only_the_primary_keeps() {
    let mut bench = Bench::begun(long(), primary(Sync::Copying));
    bench.root();
    bench.other_votes(0);
    bench.event(applied(0));
    bench.event(lacks(view(1), None));
    assert_eq!(
        bench.event(lacks(view(1), Some(1))),
        vec![Effect::DropRoots { before: Step(1) }]
    );
    let before = Step(1);
    bench.order(ShardOrder::Recorded { before });
    assert!(bench.tick(500).contains(&Effect::InSync(view(1))));
}

#[test]
fn a_primary_pauses_once_when_its_backup_falls_behind() {
    let mut bench = copying();
    for step in 0..BEHIND as u64 {
        bench.root();
        bench.other_votes(step);
        assert_eq!(committed(&bench.event(applied(step))), vec![Step(step)]);
    }
    let open = BEHIND as u64;
    let stored = bench.push(open, 2, 0, 100);
    assert_eq!(stored.len(), 1, "no sum is begun: {stored:?}");
    let Effect::Say(_, ShardSays::Answer { verdict, .. }) = &stored[0] else {
        panic!("an answer, not {stored:?}")
    };
    assert_eq!(*verdict, Verdict::Stored);
    // It goes on when the backup has all of it, not one step after the other.
    let effects = bench.event(recorded(view(1), open - 2));
    assert!(
        !effects
            .iter()
            .any(|effect| matches!(effect, Effect::Combine { .. }))
    );
    let before = Step(open);
    bench.order(ShardOrder::Recorded { before });
    let effects = bench.event(recorded(view(1), open - 1));
    assert!(effects.contains(&Effect::InSync(view(1))));
    assert!(matches!(effects.last(), Some(Effect::Combine { .. })));
}

#[test]
fn what_a_backup_lacks_is_sent_again() {
    let mut bench = in_sync();
    bench.root();
    let shown = vec![
        Effect::Mirror(pledge(view(2), vote(0, 0, Flags::default()))),
        Effect::SendRoot(Step(0)),
    ];
    assert_eq!(bench.event(lacks(view(2), Some(0))), shown);
    assert_eq!(bench.event(Event::PeerUp), shown);
    assert_eq!(
        bench.event(lacks(view(1), Some(0))),
        vec![],
        "of an earlier view"
    );
    bench.event(Event::PeerDown);
    // By timer only the words: a root is lost only with its link.
    assert_eq!(bench.tick(500), shown[..1]);
}
