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

fn opinion(step: u64, partition: u32, evaluations: u32, byte: Option<u8>) -> Effect {
    Effect::Say(WorkerSays::Audited(Opinion {
        timeline: timeline(),
        step: Step(step),
        partition: PartitionId(partition),
        evaluations,
        digest: byte.map(|byte| [byte; 32]),
    }))
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
        self.event(Event::Told(CoordinatorSays::Audit(Question {
            timeline: timeline(),
            step: Step(step),
            partition: PartitionId(partition),
            known,
        })))
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
    assert_eq!(bench.evaluated(0, 2, 7), [opinion(0, 2, 1, Some(7))]);
}

#[test]
fn its_own_leaves_are_reported_as_they_went_into_the_sum() {
    let mut bench = auditor();
    bench.both_weights(0);
    let sum = Computed {
        audited: vec![(PartitionId(0), [5; 32]), (PartitionId(1), [6; 32])],
        ..computed(1, 0, 1)
    };
    let effects = bench.event(Event::Computed {
        timeline: timeline(),
        step: Step(0),
        computed: sum,
        last: true,
    });
    assert_eq!(
        effects[..2],
        [opinion(0, 0, 1, Some(5)), opinion(0, 1, 1, Some(6))]
    );
}

#[test]
fn a_leaf_of_a_step_that_is_over_is_reported_too() {
    let mut bench = auditor();
    bench.both_weights(0);
    bench.both_weights(1);
    assert_eq!(bench.worker.open_step(), Some(Step(1)));
    let late = Computed {
        audited: vec![(PartitionId(0), [5; 32])],
        ..computed(1, 0, 1)
    };
    let tensor = late.tensor;
    let effects = bench.event(Event::Computed {
        timeline: timeline(),
        step: Step(0),
        computed: late,
        last: false,
    });
    assert_eq!(effects, [opinion(0, 0, 1, Some(5)), Effect::Free(tensor)]);
}

#[test]
fn a_question_is_answered_from_memory_anew_or_with_gone() {
    let mut bench = auditor();
    bench.both_weights(0);
    bench.evaluated(0, 2, 7);
    assert_eq!(bench.asked(0, 2, 0), [opinion(0, 2, 1, Some(7))], "known");
    assert_eq!(bench.asked(0, 2, 1), [audit(0, 2)], "once more");
    assert_eq!(bench.asked(0, 2, 1), [], "it is under way");
    assert_eq!(bench.evaluated(0, 2, 8), [opinion(0, 2, 2, Some(8))]);
    assert_eq!(bench.asked(0, 3, 0), [audit(0, 3)], "a third opinion");
    bench.both_weights(1);
    bench.event(Event::Computed {
        timeline: timeline(),
        step: Step(0),
        computed: computed(1, 0, 1),
        last: true,
    });
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
