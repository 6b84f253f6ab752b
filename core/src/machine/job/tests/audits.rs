//! Audits: a difference is settled by a third evaluation, and the wrong member named (PROTOCOL 33).

use super::*;
use crate::fact::Touched;
use crate::machine::audit::AuditRules;
use crate::message::{Opinion, Question};

fn audited(workers: u32) -> Bench {
    let mut bench = Bench::new(settings());
    bench.job.rules.audit = AuditRules {
        rate: 1.0,
        seed: 1,
        versions: 2,
    };
    (1..=workers).for_each(|number| drop(bench.join(number)));
    bench
}

const LEAF: PartitionId = PartitionId(3);

impl Bench {
    fn audits(&self, number: u32) -> Vec<PartitionId> {
        self.job.audits_of(worker(number))
    }

    fn opinion(&mut self, number: u32, evaluations: u32, byte: u8) -> Vec<Effect> {
        self.opinion_of(0, number, evaluations, Some(byte))
    }

    fn opinion_of(
        &mut self,
        step: u64,
        number: u32,
        evaluations: u32,
        byte: Option<u8>,
    ) -> Vec<Effect> {
        self.said(
            number,
            WorkerSays::Audited(vec![Opinion {
                timeline: timeline(),
                step: Step(step),
                partition: LEAF,
                evaluations,
                digest: byte.map(|byte| [byte; 32]),
            }]),
        )
    }

    fn counts(&self) -> (u64, u64, u64) {
        let counts = self.job.audits.counts;
        (counts.agreed, counts.unaudited, counts.differing)
    }
}

fn ask(number: u32, known: u32) -> Effect {
    let question = Question {
        timeline: timeline(),
        step: Step(0),
        partition: LEAF,
        known,
    };
    Effect::Say(worker(number), CoordinatorSays::Audit(vec![question]))
}

/// What of the effects is about audits.
fn about(effects: Vec<Effect>) -> Vec<Effect> {
    let wanted = |effect: &Effect| {
        matches!(
            effect,
            Effect::Tell(
                Fact::AuditDiffers { .. } | Fact::AuditUnsettled { .. } | Fact::Wrong { .. }
            ) | Effect::Fence(..)
                | Effect::Say(_, CoordinatorSays::Audit(_))
        )
    };
    effects.into_iter().filter(wanted).collect()
}

fn differs(members: &[u32]) -> Effect {
    Effect::Tell(Fact::AuditDiffers {
        step: Step(0),
        partition: LEAF,
        members: members.iter().copied().map(worker).collect(),
    })
}

fn wrong(number: u32, touched: Option<Touched>) -> [Effect; 2] {
    let cause = "its gradient of partition 3 at step 0 has other bits than those of other members";
    let (member, step, partition) = (worker(number), Step(0), LEAF);
    [
        Effect::Tell(Fact::Wrong {
            step,
            partition,
            member,
            touched,
        }),
        Effect::Fence(member, cause.into()),
    ]
}

#[test]
fn every_partition_has_an_auditor_that_does_not_hold_it() {
    for workers in 1..=6 {
        let bench = audited(workers);
        let mut all = Vec::new();
        for number in 1..=workers {
            let audits = bench.audits(number);
            let mut leases = bench.leases(number);
            leases.retain(|lease| lease.until.is_none());
            assert!(
                leases
                    .iter()
                    .all(|lease| !audits.contains(&lease.partition))
            );
            all.extend(audits);
        }
        all.sort();
        let expected = if workers == 1 { 0 } else { PARTITIONS };
        assert_eq!(all, (0..expected).map(PartitionId).collect::<Vec<_>>());
    }
    let bench = Bench::with_workers(2);
    assert_eq!(bench.audits(1), [], "no rate, no audits");
}

#[test]
fn two_that_agree_are_counted_and_nothing_is_said() {
    let mut bench = audited(2);
    assert_eq!(about(bench.opinion(1, 1, 7)), []);
    assert_eq!(about(bench.opinion(2, 1, 7)), []);
    assert_eq!(bench.counts(), (1, 0, 0));
    assert_eq!(about(bench.opinion(2, 1, 7)), [], "a repeated report");
    assert_eq!(bench.counts(), (1, 0, 0));
}

#[test]
fn a_third_member_settles_a_difference_and_the_step_does_not_wait() {
    let mut bench = audited(3);
    bench.opinion(1, 1, 8);
    bench.advance(2);
    assert_eq!(about(bench.opinion(2, 1, 7)), [differs(&[1, 2]), ask(3, 0)]);
    assert!(about(bench.after(500)).contains(&ask(3, 0)), "asked again");
    let touched = Touched {
        first: Step(0),
        last: Step(1),
        steps: 2,
    };
    assert_eq!(about(bench.opinion(3, 1, 7)), wrong(1, Some(touched)));
    assert_eq!(bench.counts(), (0, 0, 1));
    assert_eq!(about(bench.opinion(3, 1, 7)), [], "named once");
}

#[test]
fn of_two_members_the_one_that_gives_two_answers_is_wrong() {
    let mut bench = audited(2);
    bench.opinion(1, 1, 7);
    assert_eq!(
        about(bench.opinion(2, 1, 8)),
        [differs(&[1, 2]), ask(1, 1), ask(2, 1)]
    );
    assert_eq!(about(bench.opinion(1, 2, 7)), wrong(2, None));
}

#[test]
fn what_nobody_can_settle_is_said_and_fences_nobody() {
    let unsettled = Effect::Tell(Fact::AuditUnsettled {
        step: Step(0),
        partition: LEAF,
        members: vec![worker(1), worker(2)],
    });
    let mut bench = audited(2);
    bench.opinion(1, 1, 7);
    bench.opinion(2, 1, 8);
    assert_eq!(about(bench.opinion_of(0, 1, 1, None)), [], "the other may");
    assert_eq!(about(bench.opinion(2, 2, 8)), wrong(1, None), "two to one");
    let mut bench = audited(2);
    bench.opinion(1, 1, 7);
    bench.opinion(2, 1, 8);
    bench.opinion_of(0, 1, 1, None);
    let effects = about(bench.opinion_of(0, 2, 1, None));
    assert_eq!(effects, [unsettled]);
}

#[test]
fn whoever_was_asked_and_is_lost_is_replaced() {
    let mut bench = audited(4);
    bench.opinion(1, 1, 8);
    assert_eq!(about(bench.opinion(2, 1, 7)), [differs(&[1, 2]), ask(3, 0)]);
    assert_eq!(about(bench.down(3)), [ask(4, 0)]);
    assert_eq!(about(bench.opinion(4, 1, 8)), wrong(2, None));
}

#[test]
fn a_leaf_that_only_one_evaluated_is_asked_for_and_else_counted() {
    let mut bench = audited(2);
    bench.opinion(1, 1, 7);
    assert_eq!(about(bench.after(500)), [ask(2, 0)]);
    bench.opinion_of(0, 2, 0, None);
    bench.after(500);
    assert_eq!(bench.counts(), (0, 1, 0));
    let mut bench = audited(1);
    bench.opinion(1, 1, 7);
    bench.after(500);
    assert_eq!(bench.counts(), (0, 1, 0), "nobody else is there");
}

#[test]
fn an_opinion_that_does_not_come_is_asked_for_steps_later_not_by_the_clock() {
    let mut bench = audited(3);
    bench.opinion(1, 1, 7);
    let before = bench.now;
    bench.advance(3);
    let auditor = (2..=3).find(|number| bench.audits(*number).contains(&LEAF));
    bench.committed(0, 3);
    let effects = about(bench.committed(1, 3));
    assert_eq!(bench.now, before, "no time has passed");
    assert_eq!(effects, [ask(auditor.unwrap_or(2), 0)]);
    bench.committed(0, 4);
    assert_eq!(about(bench.committed(1, 4)), [], "once");
}

#[test]
fn a_member_is_asked_about_all_leaves_of_a_step_at_once() {
    let mut bench = audited(2);
    let opinion = |partition| Opinion {
        timeline: timeline(),
        step: Step(0),
        partition: PartitionId(partition),
        evaluations: 1,
        digest: Some([7; 32]),
    };
    bench.said(1, WorkerSays::Audited((0..3).map(opinion).collect()));
    let question = |partition| Question {
        timeline: timeline(),
        step: Step(0),
        partition: PartitionId(partition),
        known: 0,
    };
    let questions = CoordinatorSays::Audit((0..3).map(question).collect());
    assert_eq!(about(bench.after(500)), [Effect::Say(worker(2), questions)]);
}

#[test]
fn the_end_of_a_run_waits_a_moment_for_what_is_open() {
    let scored = |bench: &mut Bench| {
        let score = TaskScore {
            rows: 1,
            correct: Some(1),
            loss_sum: 1.0,
            ..TaskScore::default()
        };
        (0..3)
            .flat_map(|task| bench.scored(task, score))
            .collect::<Vec<_>>()
    };
    let close = Effect::Close(Outcome::Finished);
    let mut bench = audited(2);
    bench.at_last();
    bench.opinion_of(5, 1, 1, Some(8));
    assert!(
        !scored(&mut bench).contains(&close),
        "an opinion is missing"
    );
    let effects = bench.opinion_of(5, 2, 1, Some(8));
    assert!(effects.contains(&close), "{effects:?}");
    let mut bench = audited(2);
    bench.at_last();
    bench.opinion_of(5, 1, 1, Some(8));
    scored(&mut bench);
    let effects = [bench.after(500), bench.after(500)].concat();
    assert!(effects.contains(&close), "not for ever: {effects:?}");
}
