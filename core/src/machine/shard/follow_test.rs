//! What a backup keeps, acknowledges and applies, and what it makes of its promotion at each point
//! of a step.

use super::lead_test::{
    alone, applied, apply, committed, lacks, long, pledge, record, tell, view, vote,
};
use super::tests::{Bench, LINK, contribution, sent};
use super::*;
use crate::message::{ReplicaSays, ShardOrder, ShardReport, ShardSays, Verdict};

const TENSOR: Tensor = Tensor(900);

fn backup() -> Bench {
    backup_of(long())
}

/// A backup that was copied at version 0 under view 1.
pub(super) fn backup_of(rules: Rules) -> Bench {
    let mut bench = Bench::begun(rules, Assigned::Backup);
    assert_eq!(bench.shard.holds(), None);
    let copy = ReplicaSays::Copy {
        view: view(1),
        step: Step(0),
        tensors: 1,
        votes: vec![],
    };
    let step = Step(0);
    assert_eq!(
        bench.event(Event::Replica(copy)),
        vec![Effect::TakeCopy(step)]
    );
    let effects = bench.event(Event::Copied { step });
    let says = ReplicaSays::Lacks {
        view: view(1),
        step: Some(step),
    };
    assert_eq!(effects, vec![Effect::Mirror(says)]);
    assert_eq!(bench.shard.holds(), Some(step));
    bench
}

pub(super) fn root(step: u64) -> Event {
    Event::Root {
        view: view(1),
        step: Step(step),
        tensor: TENSOR,
    }
}

fn promotion() -> Event {
    Event::View {
        view: view(2),
        duty: alone(),
    }
}

fn says(effects: &[Effect]) -> Vec<ReplicaSays> {
    let says = |effect: &Effect| match effect {
        Effect::Mirror(says) => Some(says.clone()),
        _ => None,
    };
    effects.iter().filter_map(says).collect()
}

fn pledged(step: u64) -> ReplicaSays {
    ReplicaSays::Pledged {
        view: view(1),
        step: Step(step),
    }
}

fn recorded(step: u64) -> ReplicaSays {
    ReplicaSays::Recorded {
        view: view(1),
        step: Step(step),
    }
}

fn load(step: u64) -> Effect {
    let (step, tensor) = (Step(step), TENSOR);
    Effect::Load { step, tensor }
}

fn ask(step: u64) -> Effect {
    let ask = SliceSays::AskVote {
        from: SliceId(0),
        timeline: Timeline::first(1),
        step: Step(step),
    };
    Effect::Tell(SliceId(1), ask)
}

impl Bench {
    pub(super) fn pledge(&mut self, vote: Vote) -> Vec<Effect> {
        self.event(Event::Replica(pledge(view(1), vote)))
    }

    /// What a worker that knows of the promotion sends.
    fn contribute(&mut self, step: u64) -> Vec<Effect> {
        let push = Push {
            view: view(2),
            ..contribution(step, 2, 0, 100)
        };
        self.event(Event::Pushed(LINK, push))
    }

    pub(super) fn record(&mut self, step: u64) -> Vec<Effect> {
        self.event(Event::Replica(record(view(1), step)))
    }
}

#[test]
fn a_backup_acknowledges_what_it_keeps_and_applies_it() {
    let mut bench = backup();
    let own = vote(0, 0, Flags::default());
    assert_eq!(says(&bench.pledge(own.clone())), vec![pledged(0)]);
    assert_eq!(bench.record(0), vec![], "the root is not here");
    let effects = bench.event(root(0));
    let kept = Effect::Mirror(recorded(0));
    assert_eq!(effects, vec![kept.clone(), load(0), apply(0)]);
    assert_eq!(bench.record(0), vec![kept], "said again");
    assert_eq!(bench.event(applied(0)), vec![Effect::Free(TENSOR)]);
    assert_eq!(bench.shard.holds(), Some(Step(1)));
    assert_eq!(bench.event(root(0)), vec![Effect::Free(TENSOR)], "late");
    assert_eq!(bench.pledge(own), vec![Effect::Mirror(recorded(0))], "late");
}

#[test]
fn a_backup_stops_acknowledging_when_it_applies_too_slowly() {
    let mut bench = backup();
    let mut acknowledged = Vec::new();
    for step in 0..3 {
        bench.pledge(vote(step, 0, Flags::default()));
        bench.event(root(step));
        acknowledged.extend(says(&bench.record(step)));
    }
    assert_eq!(acknowledged, vec![recorded(0), recorded(1)]);
    assert_eq!(says(&bench.event(applied(0))), vec![recorded(2)]);
}

#[test]
fn a_backup_serves_nobody() {
    let mut bench = backup();
    assert_eq!(bench.pull(0), vec![], "held, it may be promoted");
    let effects = bench.push(0, 2, 0, 100);
    let Some(Effect::Say(_, ShardSays::Answer { verdict, .. })) = effects.last() else {
        panic!("an answer, not {effects:?}")
    };
    assert_eq!(*verdict, Verdict::Superseded);
    let vote = SliceSays::Vote(vote(0, 1, Flags::default()));
    assert_eq!(bench.event(Event::Slice(vote)), vec![]);
    let Effect::Tell(_, ask) = ask(0) else {
        unreachable!("made above")
    };
    assert_eq!(bench.event(Event::Slice(ask)), vec![]);
    let step = Step(0);
    assert_eq!(bench.order(ShardOrder::CutHere { step }), vec![]);
    assert_eq!(bench.event(lacks(view(1), None)), vec![], "not its words");
}

#[test]
fn a_backup_asks_for_what_does_not_come() {
    let mut bench = Bench::begun(long(), Assigned::Backup);
    let lacks = |step: Option<u64>| {
        let (view, step) = (view(1), step.map(Step));
        vec![Effect::Mirror(ReplicaSays::Lacks { view, step })]
    };
    assert_eq!(bench.event(Event::PeerUp), lacks(None));
    assert_eq!(bench.tick(500), lacks(None));
    let mut bench = backup();
    bench.pledge(vote(0, 0, Flags::default()));
    bench.tick(500);
    assert_eq!(bench.tick(1_000), lacks(Some(0)), "the root");
    bench.event(root(0));
    assert_eq!(bench.tick(1_500), vec![], "the votes are others' to cast");
}

#[test]
fn words_of_another_view_are_not_heard() {
    let mut bench = backup();
    let own = vote(0, 0, Flags::default());
    let later = Event::Replica(pledge(view(2), own));
    assert_eq!(bench.event(later), vec![]);
    bench.event(Event::View {
        view: view(2),
        duty: Assigned::Backup,
    });
    assert_eq!(bench.event(root(0)), vec![Effect::Free(TENSOR)]);
    assert_eq!(bench.record(0), vec![]);
}

#[test]
fn promoted_before_a_pledge_it_collects_and_votes_for_itself() {
    let mut bench = backup();
    bench.order(ShardOrder::RequestCut);
    let effects = bench.event(promotion());
    let timeline = Timeline::first(1);
    let coverage = ShardSays::Coverage {
        timeline,
        step: Step(0),
        covered: PartitionSet::default(),
    };
    assert_eq!(effects, vec![ask(0), Effect::Say(LINK, coverage)]);
    bench.contribute(0);
    let flags = Flags {
        cut: true,
        ..Flags::default()
    };
    assert_eq!(bench.combined(), vec![tell(vote(0, 0, flags))]);
}

#[test]
fn promoted_after_a_pledge_it_casts_that_vote_when_the_root_is_there() {
    let flags = Flags {
        cut: true,
        stop: true,
        busy: true,
        withheld: false,
    };
    let mut bench = backup();
    bench.pledge(vote(0, 0, flags));
    assert_eq!(bench.event(promotion())[0], ask(0));
    // Others may have heard it: neither an order nor a seal changes it.
    assert_eq!(bench.order(ShardOrder::Withhold { step: Step(0) }), vec![]);
    bench.order(ShardOrder::Seal);
    bench.contribute(0);
    assert_eq!(bench.combined(), vec![tell(vote(0, 0, flags))]);
}

#[test]
fn promoted_after_the_root_it_votes_at_once_and_needs_no_contribution() {
    let mut bench = backup();
    let own = vote(0, 0, Flags::default());
    bench.pledge(own.clone());
    bench.event(root(0));
    let effects = bench.event(promotion());
    assert_eq!(effects[..3], [load(0), tell(own), ask(0)]);
    let Effect::Say(LINK, ShardSays::Coverage { covered, .. }) = &effects[3] else {
        panic!("what need not be sent, not {:?}", effects[3])
    };
    assert_eq!(covered.len(), 4);
    let votes = SliceSays::Vote(vote(0, 1, Flags::default()));
    assert_eq!(bench.event(Event::Slice(votes)), vec![apply(0)]);
    let effects = bench.event(applied(0));
    let Effect::Report(ShardReport::Committed(made)) = &effects[0] else {
        panic!("a record, not {:?}", effects[0])
    };
    assert_eq!((made.samples, made.weight, made.loss_sum), (8, 8.0, 0.5));
    assert!(effects.contains(&Effect::Free(TENSOR)));
}

#[test]
fn promoted_with_a_withheld_pledge_it_casts_that() {
    let flags = Flags {
        withheld: true,
        ..Flags::default()
    };
    let mut bench = backup();
    bench.pledge(vote(0, 0, flags));
    let effects = bench.event(promotion());
    assert_eq!(effects[..2], [tell(vote(0, 0, flags)), ask(0)]);
}

#[test]
fn promoted_after_the_record_it_makes_the_version_first() {
    let mut bench = backup();
    bench.pledge(vote(0, 0, Flags::default()));
    bench.event(root(0));
    bench.record(0);
    assert_eq!(bench.pull(1), vec![], "held");
    assert_eq!(bench.event(promotion()), vec![], "a version is being made");
    let effects = bench.event(applied(0));
    assert_eq!(committed(&effects), vec![Step(0)]);
    assert!(effects.contains(&sent(1, Use::Train, None)));
    // Its vote for the step is still answered, as others may lack it.
    let asked = Event::Slice(SliceSays::AskVote {
        from: SliceId(1),
        timeline: Timeline::first(1),
        step: Step(0),
    });
    assert_eq!(bench.event(asked), vec![tell(vote(0, 0, Flags::default()))]);
}

#[test]
fn promoted_after_it_applied_it_has_the_unacknowledged_records() {
    let mut bench = backup();
    for step in 0..2 {
        bench.pledge(vote(step, 0, Flags::default()));
        bench.event(root(step));
        bench.record(step);
        bench.event(applied(step));
    }
    let before = Step(1);
    bench.order(ShardOrder::Recorded { before });
    assert_eq!(committed(&bench.event(promotion())), vec![Step(1)]);
    assert_eq!(bench.shard.version(), Step(2));
    assert_eq!(committed(&bench.tick(500)), vec![Step(1)]);
}

#[test]
fn a_promoted_backup_rests_where_the_votes_say_so() {
    let flags = Flags {
        stop: true,
        ..Flags::default()
    };
    let stopped = || {
        let mut bench = backup();
        bench.pledge(vote(0, 0, flags));
        bench.event(root(0));
        let votes = vec![vote(0, 0, flags), vote(0, 1, Flags::default())];
        bench.event(Event::Replica(ReplicaSays::Record {
            view: view(1),
            step: Step(0),
            votes,
        }));
        bench.event(applied(0));
        bench
    };
    let pushed = |mut bench: Bench| {
        bench.event(promotion());
        let effects = bench.contribute(1);
        effects
            .iter()
            .any(|effect| matches!(effect, Effect::Combine { .. }))
    };
    assert!(!pushed(stopped()));
    let mut gone_on = stopped();
    gone_on.order(ShardOrder::GoOn { step: Step(1) });
    assert!(pushed(gone_on));
}

#[test]
fn frames_of_views_before_the_promotion_are_superseded_and_later_ones_are_not() {
    let mut bench = backup();
    bench.event(promotion());
    let verdict = |bench: &mut Bench, number| {
        let push = Push {
            view: view(number),
            ..contribution(0, 0, number, 100)
        };
        let effects = bench.event(Event::Pushed(LINK, push));
        effects.iter().find_map(|effect| match effect {
            Effect::Say(_, ShardSays::Answer { verdict, .. }) => Some(*verdict),
            _ => None,
        })
    };
    assert_eq!(verdict(&mut bench, 1), Some(Verdict::Superseded));
    assert_eq!(verdict(&mut bench, 2), Some(Verdict::Stored));
    bench.event(Event::View {
        view: view(3),
        duty: alone(),
    });
    assert_eq!(verdict(&mut bench, 2), Some(Verdict::Covered));
    assert_eq!(verdict(&mut bench, 3), Some(Verdict::Stored));
}

/// A backup of a run whose evaluations are not the same twice.
fn unlike() -> Bench {
    let mut bench = backup();
    bench.shard.rules.bits = crate::job::Bits::Off;
    bench
}

#[test]
fn where_evaluations_differ_a_pledge_is_acknowledged_with_its_root() {
    let own = vote(0, 0, Flags::default());
    let mut bench = unlike();
    assert_eq!(
        says(&bench.pledge(own.clone())),
        vec![],
        "the root is to come"
    );
    assert_eq!(says(&bench.event(root(0))), vec![pledged(0)]);
    assert_eq!(says(&bench.pledge(own.clone())), vec![pledged(0)], "again");
    let mut bench = unlike();
    assert_eq!(says(&bench.event(root(0))), vec![], "the pledge is to come");
    assert_eq!(says(&bench.pledge(own)), vec![pledged(0)]);
    // A withheld step has no root to wait for.
    let withheld = Flags {
        withheld: true,
        ..Flags::default()
    };
    let mut bench = unlike();
    let effects = bench.pledge(vote(0, 0, withheld));
    assert_eq!(says(&effects), vec![pledged(0)]);
}

#[test]
fn where_evaluations_differ_a_vote_without_its_root_is_forgotten_with_the_primary() {
    let own = vote(0, 0, Flags::default());
    for (bits, promised) in [(crate::job::Bits::On, true), (crate::job::Bits::Off, false)] {
        let mut bench = backup();
        bench.shard.rules.bits = bits;
        bench.pledge(own.clone());
        bench.event(promotion());
        assert_eq!(bench.shard.promised.is_some(), promised, "{bits:?}");
    }
}

#[test]
fn a_backup_that_was_sealed_rests_when_it_is_promoted() {
    let mut bench = backup();
    bench.order(ShardOrder::Seal);
    bench.event(promotion());
    assert_eq!(bench.shard.phase, Phase::Resting);
    let says = bench.contribute(0);
    let late = |effect: &Effect| match effect {
        Effect::Say(_, ShardSays::Answer { verdict, .. }) => *verdict == Verdict::StaleStep,
        _ => false,
    };
    assert!(says.iter().any(late), "{says:?}");
}
