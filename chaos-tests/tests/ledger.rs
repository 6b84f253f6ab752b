//! The ledger tells exactly which samples were applied, and work thrown away apart from it.

use std::collections::BTreeMap;

use resilin_chaos::jobs::Spec;
use resilin_chaos::oracle::Oracle;
use resilin_chaos::replay::check;
use resilin_chaos::schedule::{Fault, Leg, Schedule, When};
use resilin_core::ledger::{Record, StepRecord};
use resilin_core::machine::job::Outcome;
use resilin_core::time::Span;
use resilin_core::{PartitionId, Step};
use resilin_learn::task::Task;

/// 10 epochs of 4 steps.
fn spec() -> Spec {
    Spec {
        steps: 40,
        ..Spec::tiny()
    }
}

fn at(step: u64, fault: Fault) -> (When, Fault) {
    (When::Reached(Step(step)), fault)
}

/// 3 joins, 3 kills and 2 drains.
fn script() -> Vec<(When, Fault)> {
    vec![
        at(3, Fault::Join(1)),
        at(6, Fault::Kill(0)),
        at(9, Fault::Join(2)),
        at(12, Fault::Drain(1)),
        at(16, Fault::Kill(1)),
        at(20, Fault::Join(1)),
        at(24, Fault::Terminate(0)),
        at(29, Fault::Kill(0)),
    ]
}

/// The steps of the branch that counts: a rollback supersedes what came after its base.
fn applied(ledger: &[Record]) -> BTreeMap<Step, &StepRecord> {
    let mut steps = BTreeMap::new();
    for record in ledger {
        match record {
            Record::Rollback { base, .. } => drop(steps.split_off(base)),
            Record::Step(step) => {
                let before = steps.insert(step.step, step);
                assert!(before.is_none(), "step {} twice in a branch", step.step);
            }
            Record::Start { .. }
            | Record::Job { .. }
            | Record::Initial { .. }
            | Record::Members(_)
            | Record::Evaluation { .. } => {}
        }
    }
    steps
}

/// How often each row of each epoch was applied, from the nodes that the ledger names.
fn counts(task: &Task, steps: &BTreeMap<Step, &StepRecord>) -> BTreeMap<(u64, u32), u32> {
    let mut counts = BTreeMap::new();
    for (step, record) in steps {
        let epoch = task.sampling.position(*step).epoch;
        let order = task.sampling.order(epoch);
        let mut samples = 0;
        for part in &record.nodes {
            let end = part.node.end().min(task.sampling.partitions());
            for partition in (part.node.first()..end).map(PartitionId) {
                for position in task.sampling.positions(*step, partition) {
                    *counts.entry((epoch, order[position as usize])).or_default() += 1;
                    samples += 1;
                }
            }
        }
        assert_eq!(samples, record.samples, "step {step}");
    }
    counts
}

fn every_sample_once(faults: Vec<(When, Fault)>, what: &str) -> u64 {
    let task = spec().task();
    let oracle = Oracle::of(&task);
    let leg = Leg {
        workers: 4,
        shards: 3,
    };
    let ended = check(&oracle, &Schedule::scripted(5, leg, faults), what);
    assert_eq!(ended.outcome, Outcome::Finished);
    assert_eq!((ended.stats.kills, ended.stats.joins), (3, 3));
    assert_eq!(ended.stats.drained, 2);
    let steps = applied(&ended.store.ledger);
    assert_eq!(steps.len() as u64, task.total_steps);
    let counts = counts(&task, &steps);
    let epochs = task.total_steps / task.sampling.steps_per_epoch();
    assert_eq!(counts.len() as u64, epochs * task.sampling.rows());
    assert!(counts.values().all(|count| *count == 1), "{counts:?}");
    steps.values().map(|record| record.discarded).sum()
}

#[test]
fn every_sample_is_applied_once_and_discarded_work_is_counted_apart() {
    let discarded = every_sample_once(script(), "3 joins, 3 kills, 2 drains");
    assert!(discarded > 0, "a kill makes work be done twice");
}

#[test]
fn every_sample_is_applied_once_in_the_branch_that_counts() {
    let mut faults = script();
    faults.push(at(33, Fault::KillCoordinator(Span::from_millis(20))));
    every_sample_once(faults, "the same with a restart of the coordinator");
}
