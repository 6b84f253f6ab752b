//! Slow and stuck workers cost time, not bits, and not much time.

use resilin_chaos::jobs::Spec;
use resilin_chaos::oracle::Oracle;
use resilin_chaos::replay::check;
use resilin_chaos::schedule::{Fault, Leg, Schedule, When};
use resilin_core::Step;
use resilin_core::machine::job::Outcome;
use resilin_core::time::Span;

const SEED: u64 = 5;

fn job(lease: f64) -> Oracle {
    let spec = Spec {
        lease,
        steps: 200,
        cut_every: None,
        ..Spec::matrix("sgd", 16)
    };
    Oracle::of(&spec.task())
}

/// The virtual time of a run that must have the serial chain.
fn took(oracle: &Oracle, workers: u32, faults: Vec<(When, Fault)>, what: &str) -> Span {
    let leg = Leg { workers, shards: 2 };
    let ended = check(oracle, &Schedule::scripted(SEED, leg, faults), what);
    assert_eq!(ended.outcome, Outcome::Finished, "{what}");
    let chain: Vec<_> = ended.store.chain().into_values().collect();
    assert!(chain == oracle.chain, "{what}: another chain");
    ended.took
}

fn at(step: u64, fault: Fault) -> (When, Fault) {
    (When::Reached(Step(step)), fault)
}

#[test]
fn one_of_four_that_is_ten_times_slower_costs_less_than_half_as_much_again() {
    let oracle = job(0.1);
    let healthy = took(&oracle, 3, vec![], "three healthy workers");
    let slow = vec![at(0, Fault::Slow(2, 10))];
    let with_slow = took(&oracle, 4, slow, "one of four ten times slower");
    assert!(
        with_slow.0 * 2 < healthy.0 * 3,
        "{with_slow} with a slow worker, {healthy} with three healthy ones"
    );
}

#[test]
fn a_stuck_worker_holds_the_run_up_for_a_few_leases() {
    let oracle = job(0.1);
    let healthy = took(&oracle, 3, vec![], "three healthy workers");
    // It keeps its lease, and what it evaluates comes after the end of the run.
    let stuck = vec![at(50, Fault::Slow(1, 1_000_000))];
    let with_stuck = took(&oracle, 3, stuck, "one of three stuck");
    let lost = Span(with_stuck.0.saturating_sub(healthy.0));
    assert!(lost > Span::from_millis(100), "it was not stuck: {lost}");
    // Half as much again for one worker less, and a lease or so for each of a few late steps.
    let bound = Span(healthy.0 / 2 + Span::from_millis(100).times(12).0);
    assert!(lost < bound, "a stuck worker cost {lost}, at most {bound}");
}
