//! A bit that flips in a gradient changes the weights for good; an audited leaf names who did it.

use resilin_chaos::jobs::Spec;
use resilin_chaos::oracle::Oracle;
use resilin_chaos::replay::check;
use resilin_chaos::schedule::{Fault, Leg, Schedule, When};
use resilin_core::Step;
use resilin_core::machine::job::Outcome;

fn job(audit_rate: f64) -> Oracle {
    let spec = Spec {
        audit_rate,
        ..Spec::tiny()
    };
    Oracle::of(&spec.task())
}

#[test]
fn every_flip_in_an_audited_leaf_names_its_maker_and_nobody_else() {
    let oracle = job(1.0);
    for seed in 0..24 {
        let workers = 2 + (seed % 3) as u32;
        let leg = Leg { workers, shards: 2 };
        let pick = (seed % 5) as u32;
        let flips = vec![(When::Reached(Step(4 + seed / 3)), Fault::FlipBit(pick, 1))];
        let schedule = Schedule::scripted(seed, leg, flips);
        let ended = check(&oracle, &schedule, "a flip");
        assert_eq!(ended.outcome, Outcome::Finished, "seed {seed}");
        let told = (ended.stats.flips, ended.stats.named);
        assert_eq!(told, (1, 1), "seed {seed}, {workers} workers");
    }
}

#[test]
fn without_audits_nobody_notices() {
    let oracle = job(0.0);
    let leg = Leg {
        workers: 3,
        shards: 2,
    };
    let flips = vec![(When::Reached(Step(4)), Fault::FlipBit(1, 1))];
    let ended = check(&oracle, &Schedule::scripted(5, leg, flips), "a flip");
    assert_eq!((ended.stats.flips, ended.stats.named), (1, 0));
    assert!(
        ended.store.chain().into_values().ne(oracle.chain),
        "the weights differ"
    );
}

/// Three workers become slow, each in its own measure, so that the fastest evaluates as well what the
/// others are late with, and these come with it all the same.
#[test]
fn a_flip_in_one_of_two_copies_is_noticed_and_nothing_else_is() {
    let spec = Spec {
        lease: 0.05,
        cut_every: None,
        ..Spec::tiny()
    };
    let oracle = Oracle::of(&spec.task());
    let differing = |flips| {
        let of = |seed: u64| {
            let leg = Leg {
                workers: 3,
                shards: 2,
            };
            let at = |fault| (When::Reached(Step(8)), fault);
            let slow = [20, 30, 100].into_iter().zip(0..);
            let mut faults: Vec<_> = slow.map(|(times, w)| at(Fault::Slow(w, times))).collect();
            faults.push(at(Fault::FlipBit((seed % 3) as u32, flips)));
            let ended = check(&oracle, &Schedule::scripted(seed, leg, faults), "copies");
            assert_eq!(ended.outcome, Outcome::Finished, "seed {seed}");
            ended.stats.differing
        };
        (0..6).map(of).collect::<Vec<u64>>()
    };
    assert_eq!(differing(0), [0; 6]);
    let noticed = differing(9);
    assert!(noticed.iter().any(|count| *count > 0), "{noticed:?}");
}
