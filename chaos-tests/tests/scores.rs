//! Every version that is due is scored, however long that takes: training waits for the one before
//! at the next one, and nowhere else.

use resilin_chaos::jobs::Spec;
use resilin_chaos::oracle::Oracle;
use resilin_chaos::replay::check;
use resilin_chaos::schedule::{Fault, HostFault, Hosting, Leg, Schedule, When};
use resilin_core::machine::job::Outcome;
use resilin_core::{SliceId, Step};

const SEED: u64 = 4;
/// Of four steps each.
const EPOCHS: u64 = 10;

/// A version takes longer to score than four steps take.
fn job() -> Oracle {
    let spec = Spec {
        steps: 4 * EPOCHS,
        test_rows: 30_000,
        cut_every: None,
        ..Spec::tiny()
    };
    Oracle::of(&spec.task())
}

/// A run in which each epoch's version has the serial run's score (E1) and none is left out.
fn scores_all(oracle: &Oracle, schedule: &Schedule, what: &str) {
    let ended = check(oracle, schedule, what);
    assert_eq!(ended.outcome, Outcome::Finished, "{what}");
    let (scored, unscored) = (ended.stats.scored, ended.stats.unscored);
    assert_eq!((scored, unscored), (EPOCHS, 0), "{what}, seed {SEED}");
    let chain: Vec<_> = ended.store.chain().into_values().collect();
    assert!(chain == oracle.chain, "{what}: another chain");
}

#[test]
fn no_version_is_left_out_whoever_is_killed_or_stuck() {
    let oracle = job();
    let leg = Leg {
        workers: 3,
        shards: 2,
    };
    let at = |step, fault| (When::Reached(Step(step)), fault);
    for (what, faults) in [
        ("a quiet run", vec![]),
        ("a worker killed", vec![at(9, Fault::Kill(1))]),
        ("a worker stuck", vec![at(9, Fault::Slow(1, 1_000_000))]),
    ] {
        scores_all(&oracle, &Schedule::scripted(SEED, leg, faults), what);
    }
}

#[test]
fn no_version_is_left_out_while_slices_are_dealt_anew_or_promoted() {
    let oracle = job();
    let leg = Leg {
        workers: 3,
        shards: 3,
    };
    let hosting = Hosting {
        processes: 5,
        replicas: 1,
    };
    let at = |step, fault| (When::Reached(Step(step)), Fault::Host(fault));
    let reshard = |shards, step| HostFault::Reshard(shards, step);
    for (what, faults) in [
        (
            "slices dealt anew",
            vec![at(2, reshard(5, 3)), at(15, reshard(2, 3))],
        ),
        (
            "primaries killed",
            [9, 25]
                .map(|step| at(step, HostFault::KillPrimary(SliceId(0))))
                .to_vec(),
        ),
    ] {
        let schedule = Schedule::hosted(SEED, leg, hosting, faults);
        scores_all(&oracle, &schedule, what);
    }
}
