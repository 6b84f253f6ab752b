use super::repeat::REPEATED;
use super::*;
use crate::RunId;
use crate::layout::SliceMap;
use crate::message::{Contributor, ShardOrder, ShardReport, ShardSays, Verdict};
use crate::sampling::{Sampling, Shuffle};
use crate::time::Span;
use crate::tree::Tree;
use crate::vote::{Action, VoteRules};

pub(super) const LINK: LinkId = LinkId(1);

pub(super) fn rules(slices: u16) -> Rules {
    Rules {
        run: RunId(1),
        sampling: Sampling::new(40, 4, 2, Shuffle::Global, 1),
        tree: Tree::new(4),
        slices: SliceMap::new(4, slices),
        bits: crate::job::Bits::On,
        votes: VoteRules {
            clip_norm: None,
            non_finite: crate::job::NonFinite::Halt,
            total_steps: 3,
            cut_every: None,
        },
        evaluate_every: None,
        evaluation_tasks: 0,
        lease: Span::from_millis(1000),
        audit: crate::machine::audit::AuditRules::OFF,
        grace: Span::from_millis(1000),
        cut_interval: None,
    }
}

/// A shard with one worker linked, and what it did last.
pub(super) struct Bench {
    pub(super) shard: Shard,
    effects: Vec<Effect>,
}

impl Bench {
    fn new(slices: u16) -> Self {
        Self::with(rules(slices))
    }

    pub(super) fn with(rules: Rules) -> Self {
        Self::begun(rules, Assigned::Primary { backup: None })
    }

    pub(super) fn begun(rules: Rules, duty: Assigned) -> Self {
        let origin = Origin {
            slice: SliceId(0),
            timeline: Timeline::first(1),
            map: MapNumber(1),
            view: View::first(1),
            step: Step(0),
        };
        let shard = Shard::begin(rules, origin, duty, &mut Vec::new());
        let mut bench = Self {
            shard,
            effects: Vec::new(),
        };
        bench.event(Event::LinkUp(LINK));
        bench
    }

    /// Everything but progress reports, which repeat what the other effects say.
    pub(super) fn event(&mut self, event: Event) -> Vec<Effect> {
        self.effects.clear();
        self.shard.step(Time(0), event, &mut self.effects);
        let report = |e: &Effect| matches!(e, Effect::Report(ShardReport::Progress { .. }));
        self.effects
            .iter()
            .filter(|effect| !report(effect))
            .cloned()
            .collect()
    }

    pub(super) fn push(&mut self, step: u64, level: u8, index: u32, tensor: u64) -> Vec<Effect> {
        self.event(Event::Pushed(
            LINK,
            contribution(step, level, index, tensor),
        ))
    }

    pub(super) fn pull(&mut self, step: u64) -> Vec<Effect> {
        self.pull_for(step, Use::Train, None)
    }

    fn pull_for(&mut self, step: u64, purpose: Use, holds: Option<Step>) -> Vec<Effect> {
        let pull = WorkerAsks::Pull {
            timeline: Timeline::first(1),
            map: MapNumber(1),
            view: View::first(1),
            step: Step(step),
            purpose,
            holds,
        };
        self.event(Event::Asked(LINK, pull))
    }

    /// Takes the open step through root, votes and apply.
    pub(super) fn commit(&mut self) -> Vec<Effect> {
        let step = self.shard.version();
        self.push(step.0, 2, 0, 100 + step.0);
        self.combined();
        let digests = vec![[7; 32]];
        self.event(Event::Applied {
            step,
            digests,
            finite: true,
        })
    }

    pub(super) fn combined(&mut self) -> Vec<Effect> {
        let step = self.shard.version();
        self.event(Event::Combined {
            step,
            squares: vec![1.0],
            non_finite: vec![],
        })
    }

    pub(super) fn order(&mut self, order: ShardOrder) -> Vec<Effect> {
        self.event(Event::Order(order))
    }

    /// Everything but progress reports, `millis` after the start.
    pub(super) fn tick(&mut self, millis: u64) -> Vec<Effect> {
        let (now, mut effects) = (Time(0) + Span::from_millis(millis), Vec::new());
        self.shard.step(now, Event::Tick, &mut effects);
        effects.retain(|e| !matches!(e, Effect::Report(ShardReport::Progress { .. })));
        effects
    }
}

pub(super) fn contribution(step: u64, level: u8, index: u32, tensor: u64) -> Push {
    let samples = 2u64.checked_shl(level.into()).unwrap_or(0);
    Push {
        timeline: Timeline::first(1),
        map: MapNumber(1),
        view: View::first(1),
        step: Step(step),
        node: Node { level, index },
        incarnation: incarnation(),
        tensor: Tensor(tensor),
        samples,
        weight: samples as f64,
        loss_sum: 0.5,
    }
}

pub(super) fn incarnation() -> Incarnation {
    Incarnation::first(1)
}

pub(super) fn answer(step: u64, level: u8, index: u32, verdict: Verdict) -> Effect {
    let (timeline, step, node) = (Timeline::first(1), Step(step), Node { level, index });
    Effect::Say(
        LINK,
        ShardSays::Answer {
            timeline,
            step,
            node,
            verdict,
        },
    )
}

#[test]
fn the_first_copy_counts_and_a_parent_replaces_its_children() {
    let mut bench = Bench::new(1);
    assert_eq!(
        bench.push(0, 0, 1, 11),
        vec![answer(0, 0, 1, Verdict::Stored)]
    );
    assert_eq!(
        bench.push(0, 0, 1, 12),
        vec![Effect::Free(Tensor(12)), answer(0, 0, 1, Verdict::Covered)]
    );
    assert_eq!(
        bench.push(0, 1, 0, 13),
        vec![Effect::Free(Tensor(11)), answer(0, 1, 0, Verdict::Stored)]
    );
    assert_eq!(
        bench.push(1, 0, 2, 14),
        vec![
            Effect::Free(Tensor(14)),
            answer(1, 0, 2, Verdict::StaleStep)
        ]
    );
    let nodes = vec![
        (Node { level: 1, index: 0 }, Tensor(13)),
        (Node { level: 1, index: 1 }, Tensor(15)),
    ];
    assert_eq!(
        bench.push(0, 1, 1, 15),
        vec![
            answer(0, 1, 1, Verdict::Stored),
            Effect::Combine {
                step: Step(0),
                nodes,
                weight: 8.0
            }
        ]
    );
}

#[test]
fn a_contribution_of_another_timeline_or_shape_is_refused() {
    let mut bench = Bench::new(1);
    bench.shard.origin.timeline = Timeline::first(2);
    assert_eq!(
        bench.push(0, 0, 0, 1)[1],
        answer(0, 0, 0, Verdict::Superseded)
    );
    bench.shard.origin.timeline = Timeline::first(1);
    assert_eq!(
        bench.push(0, 3, 0, 2)[1],
        answer(0, 3, 0, Verdict::Malformed)
    );
    assert_eq!(
        bench.push(0, 0, 9, 3)[1],
        answer(0, 0, 9, Verdict::Malformed)
    );
}

#[test]
fn a_hostile_contribution_does_no_harm() {
    let mut bench = Bench::new(1);
    for (level, index) in [(200, 1), (0, u32::MAX), (255, u32::MAX)] {
        assert_eq!(
            bench.push(0, level, index, 1),
            vec![
                Effect::Free(Tensor(1)),
                answer(0, level, index, Verdict::Malformed)
            ]
        );
    }
    for weight in [f64::NAN, f64::INFINITY, -1.0] {
        let push = Push {
            weight,
            ..contribution(0, 0, 0, 1)
        };
        let verdict = answer(0, 0, 0, Verdict::Malformed);
        let refused = bench.event(Event::Pushed(LINK, push));
        assert_eq!(refused[1], verdict, "weight {weight}");
    }
    let above_the_root = Push {
        samples: 8,
        ..contribution(0, 3, 0, 1)
    };
    assert_eq!(
        bench.event(Event::Pushed(LINK, above_the_root))[1],
        answer(0, 3, 0, Verdict::Malformed)
    );
    let push = Push {
        samples: u64::MAX,
        ..contribution(0, 0, 0, 1)
    };
    bench.event(Event::Pushed(LINK, push));
    bench.event(Event::Pushed(LINK, push));
    assert_eq!(bench.shard.discarded, u64::MAX);
}

#[test]
fn a_slice_that_is_none_of_the_run_has_no_vote() {
    let mut bench = Bench::new(2);
    let (timeline, step, slice) = (Timeline::first(1), Step(0), SliceId(9));
    let vote = Vote {
        timeline,
        step,
        slice,
        squares: vec![0.0],
        non_finite: vec![],
        flags: Flags::default(),
    };
    bench.event(Event::Slice(SliceSays::Vote(vote)));
    bench.push(0, 2, 0, 1);
    let own = bench.combined();
    assert!(
        matches!(&own[..], [Effect::Tell(SliceId(1), SliceSays::Vote(_))]),
        "slice 1 has not voted: {own:?}"
    );
    let ask = SliceSays::AskVote {
        from: slice,
        timeline,
        step,
    };
    assert_eq!(bench.event(Event::Slice(ask)), vec![]);
}

#[test]
fn a_step_needs_every_vote_and_its_record_stays_until_it_is_in_the_ledger() {
    let mut bench = Bench::new(2);
    bench.push(0, 2, 0, 1);
    let sent = bench.combined();
    let [Effect::Tell(SliceId(1), SliceSays::Vote(own))] = &sent[..] else {
        panic!("{sent:?}")
    };
    let vote = Vote {
        slice: SliceId(1),
        squares: vec![2.0],
        ..own.clone()
    };
    let late = Vote {
        step: Step(2),
        ..vote.clone()
    };
    assert_eq!(bench.event(Event::Slice(SliceSays::Vote(late))), vec![]);
    let apply = Effect::Apply {
        step: Step(0),
        action: Action::Apply { scale: 1.0 },
        loss: 0.0625,
    };
    assert_eq!(
        bench.event(Event::Slice(SliceSays::Vote(vote))),
        vec![apply]
    );

    let digests = vec![[7; 32]];
    let done = bench.event(Event::Applied {
        step: Step(0),
        digests,
        finite: true,
    });
    let node = Node { level: 2, index: 0 };
    let [
        Effect::Report(ShardReport::Committed(record)),
        Effect::Free(Tensor(1)),
    ] = &done[..]
    else {
        panic!("{done:?}")
    };
    assert_eq!(
        record.nodes,
        vec![Contributor {
            node,
            incarnation: incarnation(),
            samples: 8
        }]
    );
    assert_eq!(
        (record.samples, record.loss_sum, record.weight),
        (8, 0.5, 8.0)
    );
    bench.effects.clear();
    bench.shard.step(
        Time(0) + Span::from_millis(500),
        Event::Tick,
        &mut bench.effects,
    );
    let repeated = Effect::Report(ShardReport::Committed(record.clone()));
    assert!(
        bench.effects.contains(&repeated),
        "an unacknowledged record is repeated"
    );
    bench.order(ShardOrder::Recorded { before: Step(1) });
    assert!(bench.shard.records.is_empty());

    // The vote of step 0 is kept: the other slice may still lack it.
    let ask = SliceSays::AskVote {
        from: SliceId(1),
        timeline: Timeline::first(1),
        step: Step(0),
    };
    let kept = Effect::Tell(SliceId(1), SliceSays::Vote(own.clone()));
    assert_eq!(bench.event(Event::Slice(ask)), vec![kept]);
}

pub(super) fn sent(step: u64, purpose: Use, based_on: Option<Step>) -> Effect {
    Effect::SendWeights {
        link: LINK,
        step: Step(step),
        purpose,
        based_on,
    }
}

#[test]
fn a_pull_is_served_held_or_gone() {
    let mut bench = Bench::new(1);
    let send = |step| sent(step, Use::Train, None);
    assert_eq!(bench.pull(0), vec![send(0)]);
    assert_eq!(bench.pull(1), vec![]);
    assert!(
        bench.commit().contains(&send(1)),
        "a held pull is served when the version exists"
    );
    assert_eq!(bench.pull(0), vec![send(0)], "the previous version is kept");
    bench.commit();
    let (timeline, purpose) = (Timeline::first(1), Use::Train);
    let gone = ShardSays::Gone {
        timeline,
        step: Step(0),
        at: Step(2),
        purpose,
    };
    assert_eq!(bench.pull(0), vec![Effect::Say(LINK, gone)]);
    assert_eq!(bench.pull(1), vec![send(1)]);
}

#[test]
fn changes_are_sent_of_what_both_ends_keep() {
    let mut bench = Bench::new(1);
    let pull = |bench: &mut Bench, step, holds| bench.pull_for(step, Use::Train, holds);
    assert_eq!(pull(&mut bench, 1, Some(Step(0))), vec![]);
    let next = sent(1, Use::Train, Some(Step(0)));
    assert!(bench.commit().contains(&next), "a held pull remembers");
    bench.commit();
    bench.commit();
    let newest = sent(3, Use::Train, Some(Step(2)));
    assert_eq!(pull(&mut bench, 3, Some(Step(2))), vec![newest]);
    let whole = |step| vec![sent(step, Use::Train, None)];
    assert_eq!(pull(&mut bench, 3, Some(Step(1))), whole(3), "two before");
    assert_eq!(pull(&mut bench, 3, Some(Step(3))), whole(3), "not before");
    assert_eq!(pull(&mut bench, 2, Some(Step(1))), whole(2), "freed here");
}

#[test]
fn a_version_kept_for_scoring_is_not_trained_on() {
    let mut bench = Bench::with(Rules {
        evaluate_every: Some(2),
        votes: VoteRules {
            total_steps: 6,
            ..rules(1).votes
        },
        ..rules(1)
    });
    (0..4).for_each(|_| drop(bench.commit()));
    let kept = sent(2, Use::Evaluate, None);
    assert_eq!(bench.pull_for(2, Use::Evaluate, None), vec![kept]);
    assert!(matches!(
        bench.pull(2)[..],
        [Effect::Say(LINK, ShardSays::Gone { at: Step(4), .. })]
    ));
}

#[test]
fn the_previous_version_is_not_served_while_the_next_one_takes_its_place() {
    let mut bench = Bench::new(1);
    bench.commit();
    bench.push(1, 2, 0, 5);
    bench.combined();
    assert!(matches!(
        bench.pull(0)[..],
        [Effect::Say(LINK, ShardSays::Gone { .. })]
    ));
}

#[test]
fn a_requested_cut_comes_with_the_next_version_and_the_last_version_is_always_cut() {
    let mut bench = Bench::new(1);
    bench.order(ShardOrder::RequestCut);
    assert!(bench.commit().contains(&Effect::Cut(Step(1))));
    let busy = |effect: &Effect| {
        let Effect::Report(ShardReport::Progress { cutting, .. }) = effect else {
            return false;
        };
        *cutting == Some(Step(1))
    };
    bench.commit();
    assert!(bench.effects.iter().any(busy), "{:?}", bench.effects);
    let last = bench.commit();
    assert!(
        !last.contains(&Effect::Cut(Step(3))),
        "the cut of version 1 is not over"
    );
    assert_eq!(bench.order(ShardOrder::CutHere { step: Step(3) }), vec![]);
    bench.order(ShardOrder::CutOver { step: Step(1) });
    assert_eq!(
        bench.order(ShardOrder::CutHere { step: Step(3) }),
        vec![Effect::Cut(Step(3))]
    );
}

#[test]
fn a_stop_rests_at_the_next_version_and_takes_nothing_more() {
    let mut bench = Bench::new(1);
    bench.order(ShardOrder::RequestStop);
    assert!(bench.commit().contains(&Effect::Cut(Step(1))));
    assert_eq!(
        bench.push(1, 0, 0, 9)[1],
        answer(1, 0, 0, Verdict::StaleStep)
    );
    assert_eq!(bench.shard.version(), Step(1));
}

#[test]
fn a_seal_lets_only_a_voted_step_finish() {
    let mut unvoted = Bench::new(2);
    unvoted.push(0, 2, 0, 1);
    unvoted.order(ShardOrder::Seal);
    assert_eq!(unvoted.combined(), vec![], "what has not voted never does");
    assert_eq!(
        unvoted.order(ShardOrder::CutHere { step: Step(0) }),
        vec![Effect::Cut(Step(0))]
    );

    let mut voted = Bench::new(1);
    voted.push(0, 2, 0, 1);
    voted.combined();
    voted.order(ShardOrder::Seal);
    let digests = vec![[7; 32]];
    voted.event(Event::Applied {
        step: Step(0),
        digests,
        finite: true,
    });
    assert_eq!(
        voted.push(1, 0, 0, 9)[1],
        answer(1, 0, 0, Verdict::StaleStep)
    );
}

#[test]
fn non_finite_sums_halt_before_the_step_and_non_finite_weights_too() {
    let mut bench = Bench::new(1);
    bench.push(0, 2, 0, 1);
    let step = Step(0);
    let halted = |blocks| {
        let (slice, timeline) = (SliceId(0), Timeline::first(1));
        vec![Effect::Report(ShardReport::Halted {
            slice,
            timeline,
            step,
            blocks,
        })]
    };
    let event = Event::Combined {
        step,
        squares: vec![f64::NAN],
        non_finite: vec![0],
    };
    assert_eq!(bench.event(event), halted(vec![0]));

    let mut bench = Bench::new(1);
    bench.push(0, 2, 0, 1);
    bench.combined();
    let event = Event::Applied {
        step,
        digests: vec![[7; 32]],
        finite: false,
    };
    assert_eq!(bench.event(event), halted(vec![]));
    assert_eq!(bench.tick(500), halted(vec![]), "the report may be lost");
}

#[test]
fn the_ledgers_backlog_is_bounded_and_repeated_in_parts() {
    let mut rules = rules(1);
    rules.votes.non_finite = crate::job::NonFinite::Skip;
    rules.votes.total_steps = 5000;
    let mut bench = Bench::with(rules);
    let withhold = |bench: &mut Bench| {
        let step = bench.shard.version();
        bench.order(ShardOrder::Withhold { step })
    };
    for step in (0..RECORDS as u64).map(Step) {
        assert_eq!(withhold(&mut bench).len(), 1, "step {step} is skipped");
        let digests = vec![[7; 32]];
        bench.event(Event::Applied {
            step,
            digests,
            finite: true,
        });
    }
    assert_eq!(withhold(&mut bench), vec![], "the ledger has no room");
    assert_eq!(bench.tick(500).len(), REPEATED);
    let early = bench.order(ShardOrder::Recorded { before: Step(1) });
    assert_eq!(early, vec![], "the rest of the part is on its way");
    assert_eq!(withhold(&mut bench).len(), 1);
    let next = bench.order(ShardOrder::Recorded {
        before: Step(REPEATED as u64),
    });
    assert_eq!(
        next.len(),
        REPEATED,
        "the next part does not wait for the timer"
    );
}

#[test]
fn a_new_coordinator_is_told_at_once() {
    let mut bench = Bench::new(1);
    bench.commit();
    assert_eq!(bench.tick(500).len(), 1);
    let again = bench.event(Event::CoordinatorUp);
    let committed = |effect: &Effect| matches!(effect, Effect::Report(ShardReport::Committed(_)));
    assert!(matches!(&again[..], [one] if committed(one)), "{again:?}");
}

#[test]
fn what_was_said_a_moment_ago_is_not_repeated_for_an_acknowledgement() {
    let mut rules = rules(1);
    rules.votes.non_finite = crate::job::NonFinite::Skip;
    let mut bench = Bench::with(rules);
    let skip = |bench: &mut Bench, step| {
        bench.order(ShardOrder::Withhold { step: Step(step) });
        let digests = vec![[7; 32]];
        bench.event(Event::Applied {
            step: Step(step),
            digests,
            finite: true,
        });
    };
    (0..2).for_each(|step| skip(&mut bench, step));
    let repeats = |effects: &[Effect]| {
        let record = |e: &&Effect| matches!(e, Effect::Report(ShardReport::Committed(_)));
        effects.iter().filter(record).count()
    };
    assert_eq!(repeats(&bench.tick(500)), 2);
    skip(&mut bench, 2);
    let heard = bench.order(ShardOrder::Recorded { before: Step(2) });
    assert_eq!(repeats(&heard), 0, "step 2 was said since");
    assert_eq!(repeats(&bench.tick(1000)), 1, "it may be lost all the same");
}

#[test]
fn a_withheld_leaf_is_decided_without_a_root() {
    let mut bench = Bench::new(1);
    bench.shard.rules.votes.non_finite = crate::job::NonFinite::Skip;
    bench.push(0, 0, 0, 1);
    let skip = Effect::Apply {
        step: Step(0),
        action: Action::Skip,
        loss: 0.25,
    };
    assert_eq!(
        bench.order(ShardOrder::Withhold { step: Step(0) }),
        vec![skip]
    );
    assert_eq!(
        bench.push(0, 0, 1, 2)[1],
        answer(0, 0, 1, Verdict::StaleStep)
    );
    let done = bench.event(Event::Applied {
        step: Step(0),
        digests: vec![[7; 32]],
        finite: true,
    });
    let [Effect::Report(ShardReport::Committed(record)), ..] = &done[..] else {
        panic!("{done:?}")
    };
    assert_eq!(
        (
            &record.nodes[..],
            record.samples,
            record.weight,
            record.loss_sum
        ),
        (&[][..], 0, 0.0, 0.0),
        "nothing is applied"
    );
    assert_eq!((record.skipped, record.discarded), (true, 4));
}

#[test]
fn the_last_version_is_kept_once_an_earlier_evaluation_is_over() {
    let mut bench = Bench::with(Rules {
        evaluate_every: Some(2),
        ..rules(1)
    });
    bench.commit();
    assert!(bench.commit().contains(&Effect::Pin(Step(2))));
    assert!(!bench.commit().contains(&Effect::Pin(Step(3))));
    assert_eq!(
        bench.order(ShardOrder::Evaluated { version: Step(2) }),
        vec![Effect::Unpin(Step(2)), Effect::Pin(Step(3))]
    );
    assert_eq!(
        bench.order(ShardOrder::Evaluated { version: Step(3) }),
        vec![Effect::Unpin(Step(3))]
    );
}

#[test]
fn what_was_refused_at_a_rest_is_asked_for_when_it_is_over() {
    let mut bench = Bench::new(1);
    bench.order(ShardOrder::RestAt { step: Step(1) });
    bench.push(0, 2, 0, 1);
    bench.combined();
    bench.event(Event::Applied {
        step: Step(0),
        digests: vec![[7; 32]],
        finite: true,
    });
    assert_eq!(bench.shard.phase, Phase::Resting);
    let effects = bench.order(ShardOrder::GoOn { step: Step(1) });
    assert_eq!(bench.shard.phase, Phase::Collecting);
    let asked = Effect::Say(LINK, bench.shard.coverage());
    assert!(effects.contains(&asked), "{effects:?}");
}
