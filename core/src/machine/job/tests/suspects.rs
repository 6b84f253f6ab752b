//! Leaves that are not finite are believed once a second evaluation says the same (PROTOCOL 16).

use super::*;

#[test]
fn a_non_finite_leaf_is_believed_only_twice() {
    let mut bench = Bench::with_workers(2);
    // Both hold something from step 1 on.
    bench.advance(1);
    let (timeline, step, partition) = (timeline(), Step(1), PartitionId(3));
    let report = |digest, evaluations| WorkerSays::NonFinite {
        timeline,
        step,
        partition,
        digest,
        evaluations,
    };
    let asked = |number| {
        Effect::Say(
            worker(number),
            CoordinatorSays::Reevaluate {
                timeline,
                step,
                partition,
            },
        )
    };
    assert_eq!(bench.said(2, report([1; 32], 1)), vec![asked(1)]);
    assert_eq!(
        bench.said(2, report([1; 32], 1)),
        vec![],
        "the same worker confirms nothing"
    );
    let differs = bench.said(1, report([2; 32], 1));
    assert_eq!(
        differs,
        vec![
            Effect::Tell(Fact::Differs {
                step,
                partition,
                member: worker(2)
            }),
            asked(2)
        ]
    );
    assert_eq!(
        bench.said(2, report([2; 32], 2)),
        vec![
            Effect::Tell(Fact::NonFinite { step, partition }),
            Effect::Order(ShardOrder::Withhold { step })
        ]
    );
}

#[test]
fn a_second_evaluation_is_made_on_another_machine_where_there_is_one() {
    let mut bench = Bench::new(settings());
    for (number, name) in [(1, "a:1"), (2, "a:2"), (3, "b:7"), (4, "a:3")] {
        bench.join_as(number, name);
    }
    bench.advance(1);
    let (timeline, step, partition) = (timeline(), Step(1), PartitionId(3));
    let report = |byte| WorkerSays::NonFinite {
        timeline,
        step,
        partition,
        digest: [byte; 32],
        evaluations: 1,
    };
    let again = CoordinatorSays::Reevaluate {
        timeline,
        step,
        partition,
    };
    let asked = |number| Effect::Say(worker(number), again.clone());
    assert_eq!(bench.said(2, report(1)), vec![asked(3)]);
    assert!(bench.down(3).contains(&asked(1)), "the next best");
}

#[test]
fn members_do_not_accuse_each_other_by_repeating_themselves() {
    let mut bench = Bench::with_workers(2);
    bench.advance(1);
    let (timeline, step, partition) = (timeline(), Step(1), PartitionId(3));
    let report = |digest, evaluations| WorkerSays::NonFinite {
        timeline,
        step,
        partition,
        digest: [digest; 32],
        evaluations,
    };
    let asked = Effect::Say(
        worker(1),
        CoordinatorSays::Reevaluate {
            timeline,
            step,
            partition,
        },
    );
    bench.said(1, report(1, 1));
    let differs = bench.said(2, report(2, 1));
    assert_eq!(
        differs,
        vec![
            Effect::Tell(Fact::Differs {
                step,
                partition,
                member: worker(1)
            }),
            asked
        ]
    );
    for _ in 0..3 {
        assert_eq!(bench.said(1, report(1, 1)), vec![]);
        assert_eq!(bench.said(2, report(2, 1)), vec![]);
    }
    assert_eq!(
        bench.said(1, report(2, 2)),
        vec![
            Effect::Tell(Fact::NonFinite { step, partition }),
            Effect::Order(ShardOrder::Withhold { step })
        ]
    );
}

#[test]
fn two_evaluations_are_enough_where_bits_are_not_promised() {
    let mut bench = Bench::new(settings());
    bench.job.rules.bits = Bits::Off;
    bench.join(1);
    let (timeline, step, partition) = (timeline(), Step(0), PartitionId(3));
    let report = |digest, evaluations| WorkerSays::NonFinite {
        timeline,
        step,
        partition,
        digest: [digest; 32],
        evaluations,
    };
    bench.said(1, report(1, 1));
    assert_eq!(
        bench.said(1, report(2, 2)),
        vec![
            Effect::Tell(Fact::NonFinite { step, partition }),
            Effect::Order(ShardOrder::Withhold { step })
        ]
    );
}

#[test]
fn a_partition_of_no_run_is_no_suspect() {
    let mut bench = Bench::with_workers(2);
    for number in [1, 2] {
        let says = WorkerSays::NonFinite {
            timeline: timeline(),
            step: Step(0),
            partition: PartitionId(u32::MAX),
            digest: [1; 32],
            evaluations: 1,
        };
        assert_eq!(bench.said(number, says), vec![]);
    }
    assert!(bench.job.suspects.is_empty());
}

#[test]
fn whoever_drains_is_asked_if_nobody_else_works_on_the_step() {
    let mut bench = Bench::with_workers(1);
    bench.advance(1);
    bench.join(2);
    bench.said(1, WorkerSays::Drain);
    let (timeline, step, partition) = (timeline(), Step(1), PartitionId(3));
    assert!(
        bench.leases(2).iter().all(|lease| lease.from > step),
        "the joiner begins later"
    );
    let effects = bench.said(
        1,
        WorkerSays::NonFinite {
            timeline,
            step,
            partition,
            digest: [1; 32],
            evaluations: 1,
        },
    );
    let again = CoordinatorSays::Reevaluate {
        timeline,
        step,
        partition,
    };
    assert_eq!(effects, vec![Effect::Say(worker(1), again)]);
}
