//! Leaves that are evaluated for comparison (PROTOCOL 33).

use super::*;
use crate::machine::audit::AuditRules;
use crate::message::{Opinion, Question};

/// A worker that holds partitions 0 and 1 and audits 2, every leaf of the run being drawn.
fn auditor() -> Bench {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    bench.worker.rules.audit = AuditRules {
        rate: 1.0,
        seed: 1,
        versions: 2,
    };
    bench.audits = vec![2];
    bench.assign(&[lease(0, 0, None), lease(1, 0, None)]);
    bench
}

/// One message about leaves of a step: each with its evaluations and their digest.
fn told(step: u64, leaves: &[(u32, u32, Option<u8>)]) -> Effect {
    let opinion = |(partition, evaluations, byte): &(u32, u32, Option<u8>)| Opinion {
        timeline: timeline(),
        step: Step(step),
        partition: PartitionId(*partition),
        evaluations: *evaluations,
        digest: byte.map(|byte| [byte; 32]),
    };
    Effect::Say(WorkerSays::Audited(leaves.iter().map(opinion).collect()))
}

fn opinion(step: u64, partition: u32, evaluations: u32, byte: Option<u8>) -> Effect {
    told(step, &[(partition, evaluations, byte)])
}

fn audit(step: u64, partition: u32) -> Effect {
    Effect::Audit {
        timeline: timeline(),
        step: Step(step),
        leaves: vec![PartitionId(partition)],
    }
}

fn place(effects: &[Effect], wanted: &Effect) -> usize {
    let found = effects.iter().position(|effect| effect == wanted);
    found.unwrap_or_else(|| panic!("no {wanted:?} in {effects:?}"))
}

impl Bench {
    fn both_weights(&mut self, step: u64) -> Vec<Effect> {
        self.weights(0, step);
        self.weights(1, step)
    }

    fn evaluated(&mut self, step: u64, partition: u32, byte: u8) -> Vec<Effect> {
        self.event(Event::Audited {
            timeline: timeline(),
            step: Step(step),
            partition: PartitionId(partition),
            digest: [byte; 32],
        })
    }

    fn asked(&mut self, step: u64, partition: u32, known: u32) -> Vec<Effect> {
        self.event(Event::Told(CoordinatorSays::Audit(vec![Question {
            timeline: timeline(),
            step: Step(step),
            partition: PartitionId(partition),
            known,
        }])))
    }

    /// Its own sum of a step, all that it was asked for.
    fn summed(&mut self, step: u64, audited: &[(u32, u8)]) -> Vec<Effect> {
        let audited = audited.iter();
        let computed = Computed {
            audited: audited.map(|(p, b)| (PartitionId(*p), [*b; 32])).collect(),
            ..computed(1, 0, 1)
        };
        self.event(Event::Computed {
            timeline: timeline(),
            step: Step(step),
            computed,
            last: true,
        })
    }
}

#[test]
fn what_it_audits_is_asked_for_after_its_own_work_on_kept_weights() {
    let mut bench = auditor();
    let effects = bench.both_weights(0);
    let is_own = |effect: &Effect| matches!(effect, Effect::Compute { .. });
    let own = effects.iter().position(is_own).unwrap();
    let kept = place(&effects, &Effect::Retain(Step(0)));
    let other = place(&effects, &audit(0, 2));
    assert!(own < kept && kept < other, "{effects:?}");
    // The step goes on without waiting, and the answer still counts.
    bench.both_weights(1);
    assert_eq!(bench.worker.open_step(), Some(Step(1)));
    bench.summed(0, &[]);
    assert_eq!(bench.evaluated(0, 2, 7), [opinion(0, 2, 1, Some(7))]);
}

#[test]
fn a_step_is_told_in_one_message_once_nothing_of_it_is_under_way() {
    let all = [(0, 1, Some(5)), (1, 1, Some(6)), (2, 1, Some(7))];
    let mut bench = auditor();
    bench.both_weights(0);
    let said = |effects: Vec<Effect>| {
        let says = |effect: &Effect| matches!(effect, Effect::Say(WorkerSays::Audited(_)));
        effects.into_iter().filter(says).collect::<Vec<_>>()
    };
    assert_eq!(said(bench.summed(0, &[(0, 5), (1, 6)])), [], "2 is to come");
    assert_eq!(bench.evaluated(0, 2, 7), [told(0, &all)]);
    let mut bench = auditor();
    bench.both_weights(0);
    assert_eq!(bench.evaluated(0, 2, 7), [], "its own are to come");
    let other_order = [all[2], all[0], all[1]];
    let effects = bench.summed(0, &[(0, 5), (1, 6)]);
    assert_eq!(said(effects), [told(0, &other_order)]);
}

#[test]
fn a_leaf_of_a_step_that_is_over_is_reported_too() {
    let mut bench = auditor();
    bench.both_weights(0);
    bench.both_weights(1);
    assert_eq!(bench.worker.open_step(), Some(Step(1)));
    bench.evaluated(0, 2, 7);
    let effects = bench.summed(0, &[(0, 5)]);
    let both = told(0, &[(2, 1, Some(7)), (0, 1, Some(5))]);
    assert_eq!(
        effects.iter().filter(|e| **e == both).count(),
        1,
        "{effects:?}"
    );
}

#[test]
fn what_is_late_is_told_before_the_weights_are_let_go() {
    let mut bench = auditor();
    bench.both_weights(0);
    bench.summed(0, &[(0, 5), (1, 6)]);
    bench.both_weights(1);
    let effects = bench.both_weights(2);
    let told = place(&effects, &told(0, &[(0, 1, Some(5)), (1, 1, Some(6))]));
    assert!(
        told < place(&effects, &Effect::Release(Step(1))),
        "{effects:?}"
    );
}

#[test]
fn a_question_is_answered_from_memory_anew_or_with_gone() {
    let mut bench = auditor();
    bench.both_weights(0);
    bench.summed(0, &[]);
    bench.evaluated(0, 2, 7);
    assert_eq!(bench.asked(0, 2, 0), [opinion(0, 2, 1, Some(7))], "known");
    assert_eq!(bench.asked(0, 2, 1), [audit(0, 2)], "once more");
    assert_eq!(bench.asked(0, 2, 1), [], "it is under way");
    assert_eq!(bench.evaluated(0, 2, 8), [opinion(0, 2, 2, Some(8))]);
    assert_eq!(bench.asked(0, 3, 0), [audit(0, 3)], "a third opinion");
    bench.both_weights(1);
    bench.summed(1, &[]);
    let effects = bench.both_weights(2);
    place(&effects, &Effect::Release(Step(1)));
    assert_eq!(bench.asked(0, 2, 2), [opinion(0, 2, 2, None)], "gone");
    assert_eq!(bench.evaluated(0, 3, 9), [], "nobody can compare it now");
    assert_eq!(bench.asked(9, 2, 0), [], "not there yet: it is asked again");
}

#[test]
fn without_a_rate_nothing_is_kept() {
    let mut bench = Bench::new(&[lease(0, 0, None)]);
    let effects = bench.both_weights(0);
    let keeps = |effect: &Effect| matches!(effect, Effect::Retain(_) | Effect::Audit { .. });
    assert!(!effects.iter().any(keeps), "{effects:?}");
}

#[test]
fn what_an_earlier_life_evaluated_is_not_told_as_another_members_opinion() {
    let mut bench = auditor();
    bench.both_weights(0);
    bench.summed(0, &[(0, 5), (1, 6)]);
    let told = bench.evaluated(0, 2, 7);
    assert_eq!(told.len(), 1, "{told:?}");
    bench.both_weights(1);
    bench.evaluated(1, 2, 8);
    bench.event(Event::Orphaned);
    let between = bench.summed(1, &[(0, 5), (1, 6)]);
    let says = |effect: &Effect| matches!(effect, Effect::Say(_));
    assert!(!between.iter().any(says), "{between:?}");
    bench.event(Event::Welcomed(Incarnation::first(2)));
    assert_eq!(bench.asked(0, 2, 0), [audit(0, 2)], "evaluated anew");
    assert_eq!(bench.evaluated(0, 2, 9), [opinion(0, 2, 1, Some(9))]);
    assert_eq!(bench.asked(1, 0, 0), [audit(1, 0)], "evaluated anew");
}
