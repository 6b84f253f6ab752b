//! A NaN in one partition: the run halts and names it, or leaves the step out, as the serial run
//! does.

use resilin_chaos::jobs::Spec;
use resilin_chaos::oracle::Oracle;
use resilin_chaos::replay::check;
use resilin_chaos::schedule::{Fault, Leg, Schedule, When};
use resilin_core::Step;
use resilin_core::ledger::Record;
use resilin_core::machine::job::Outcome;

const LEGS: [Leg; 4] = [leg(1, 1), leg(1, 3), leg(3, 1), leg(5, 3)];

const fn leg(workers: u32, shards: u16) -> Leg {
    Leg { workers, shards }
}

fn poisoned(non_finite: &'static str) -> Oracle {
    let spec = Spec {
        poison: Some(7),
        non_finite,
        ..Spec::tiny()
    };
    Oracle::of(&spec.task())
}

#[test]
fn a_halt_names_step_and_partition() {
    let oracle = poisoned("halt");
    let halt = oracle.halt.as_ref().expect("the serial run halts");
    let made = oracle.chain.len() as u64 - 1;
    for (seed, leg) in (0..).zip(LEGS) {
        let ended = check(&oracle, &Schedule::quiet(seed, leg), &format!("{leg:?}"));
        let Outcome::Halted { step, cause } = ended.outcome else {
            panic!("{leg:?}: {:?}", ended.outcome)
        };
        assert_eq!(step, Step(made), "{leg:?}");
        let named = cause.split(';').next().expect("there is a first part");
        assert!(halt.starts_with(named), "{leg:?}: {cause}; serial: {halt}");
        assert!(named.contains("partition"), "{named}");
    }
}

#[test]
fn a_skip_leaves_the_weights_and_is_written_down() {
    let oracle = poisoned("skip");
    assert!(!oracle.skipped.is_empty(), "the row is met");
    let step = *oracle.skipped.first().expect("just seen");
    assert_eq!(
        oracle.chain[step.0 as usize],
        oracle.chain[step.next().0 as usize]
    );
    for (seed, leg) in (0..).zip(LEGS) {
        let at = When::Reached(step);
        let faults = vec![(at, Fault::Kill(0)), (at, Fault::Join(1))];
        let what = format!("{leg:?} with a kill");
        let ended = check(&oracle, &Schedule::scripted(seed, leg, faults), &what);
        assert_eq!(ended.outcome, Outcome::Finished, "{what}");
        let chain: Vec<_> = ended.store.chain().into_values().collect();
        assert!(chain == oracle.chain, "{what}: another chain");
        let skipped = ended.store.ledger.iter().filter_map(|record| match record {
            Record::Step(step) => step.skipped.then_some(step.step),
            Record::Start { .. }
            | Record::Job { .. }
            | Record::Initial { .. }
            | Record::Members(_)
            | Record::Rollback { .. }
            | Record::Evaluation { .. } => None,
        });
        assert!(skipped.eq(oracle.skipped.iter().copied()), "{what}");
    }
}
