//! A run stopped at any step and resumed with other workers and shards ends with the same chain.

use resilin_chaos::jobs::Spec;
use resilin_chaos::oracle::Oracle;
use resilin_chaos::replay::check;
use resilin_chaos::schedule::{Fault, Leg, Schedule, When};
use resilin_core::Step;
use resilin_core::ledger::Record;
use resilin_core::machine::job::Outcome;
use resilin_core::time::Span;

fn spec() -> Spec {
    Spec {
        optimizer: "adam",
        steps: 60,
        // Only stops and the end make checkpoints.
        cut_every: None,
        ..Spec::tiny()
    }
}

/// The versions that the coordinators of a run began with.
fn bases(ledger: &[Record]) -> Vec<Step> {
    let base = |record: &Record| match record {
        Record::Rollback { base, .. } => Some(*base),
        Record::Start { .. }
        | Record::Job { .. }
        | Record::Initial { .. }
        | Record::Members(_)
        | Record::Step(_)
        | Record::Evaluation { .. } => None,
    };
    ledger.iter().filter_map(base).collect()
}

#[test]
fn a_stop_at_every_step_changes_nothing() {
    let oracle = Oracle::of(&spec().task());
    assert_eq!(oracle.chain.len(), 61);
    for stop in 0..60 {
        let first = Leg {
            workers: 1 + (stop % 4) as u32,
            shards: 1 + (stop % 3) as u16,
        };
        let second = Leg {
            workers: 1 + (stop / 4 % 5) as u32,
            shards: 1 + (stop / 3 % 5) as u16,
        };
        let faults = vec![(When::Reached(Step(stop)), Fault::Stop)];
        let schedule = Schedule {
            legs: vec![first, second],
            hosting: None,
            ..Schedule::scripted(stop, first, faults)
        };
        let what = format!("stopped at {stop}, {first:?} then {second:?}");
        let ended = check(&oracle, &schedule, &what);
        assert_eq!(ended.outcome, Outcome::Finished, "{what}");
        let chain: Vec<_> = ended.store.chain().into_values().collect();
        assert!(chain == oracle.chain, "{what}: another chain");
        // The open step may be voted on already when the stop comes; then the next one is the last.
        let resumed = bases(&ended.store.ledger)[1..].to_vec();
        let right = match resumed[..] {
            [] => stop == 59,
            [base] => base.0 == stop + 1 || base.0 == stop + 2,
            _ => false,
        };
        assert!(right, "{what}: resumed at {resumed:?}");
    }
}

#[test]
fn a_stop_without_workers_ends_with_a_checkpoint_after_the_grace() {
    let oracle = Oracle::of(&spec().task());
    let leg = Leg {
        workers: 1,
        shards: 3,
    };
    let at = When::Reached(Step(7));
    let faults = vec![(at, Fault::Kill(0)), (at, Fault::Stop)];
    let alone = Schedule::scripted(1, leg, faults);
    let ended = check(&oracle, &alone, "a stop without workers");
    let Outcome::Stopped(step) = ended.outcome else {
        panic!("{:?}", ended.outcome)
    };
    assert!(step == Step(7) || step == Step(8), "{step}");
    assert_eq!(ended.store.checkpoints.iter().collect::<Vec<_>>(), [&step]);
    assert!(ended.took >= Span::from_secs_f64(spec().grace));

    let resumed = Schedule {
        legs: vec![leg; 2],
        hosting: None,
        ..alone
    };
    let ended = check(&oracle, &resumed, "resumed after a stop without workers");
    assert_eq!(ended.outcome, Outcome::Finished);
    let chain: Vec<_> = ended.store.chain().into_values().collect();
    assert!(chain == oracle.chain, "another chain");
    assert_eq!(bases(&ended.store.ledger), [Step(0), step]);
}
