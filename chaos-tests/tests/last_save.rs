//! The coordinator killed at every millisecond around the last save, while shard processes hold the
//! last version: whoever takes its place finishes the save that the killed one had begun or not.

use resilin_chaos::jobs::Spec;
use resilin_chaos::oracle::Oracle;
use resilin_chaos::replay::check;
use resilin_chaos::schedule::{Fault, Hosting, Leg, Schedule, When};
use resilin_chaos::sim::Ended;
use resilin_core::machine::job::Outcome;
use resilin_core::time::Span;

const SEED: u64 = 7;
/// How long before the end of a quiet run kills begin to be tried, in milliseconds.
const AROUND: u64 = 80;

fn run(oracle: &Oracle, replicas: u8, kill: Option<u64>) -> Ended {
    let what = format!("{replicas} replicas, killed at {kill:?} ms");
    let faults = kill.into_iter().map(|at| {
        let soon = Span::from_millis(5);
        (
            When::At(Span::from_millis(at)),
            Fault::KillCoordinator(soon),
        )
    });
    let leg = Leg {
        workers: 3,
        shards: 3,
    };
    let hosting = Hosting {
        processes: 3,
        replicas,
    };
    let schedule = Schedule::hosted(SEED, leg, hosting, faults.collect());
    let ended = check(oracle, &schedule, &what);
    assert_eq!(ended.outcome, Outcome::Finished, "{what}");
    assert_eq!(ended.stats.save_failed, 0, "{what}: nothing was wrong");
    let chain: Vec<_> = ended.store.chain().into_values().collect();
    assert!(chain == oracle.chain, "{what}: another chain");
    ended
}

#[test]
fn a_coordinator_killed_around_the_last_save_is_followed_by_one_that_saves() {
    let oracle = Oracle::of(&Spec::tiny().task());
    for replicas in [0, 1] {
        let quiet = run(&oracle, replicas, None).took.0 / 1_000_000;
        let times = quiet.saturating_sub(AROUND)..quiet;
        let crashes = times.map(|at| run(&oracle, replicas, Some(at)).stats.crashes);
        assert!(
            crashes.sum::<u64>() > AROUND / 2,
            "most come before the end"
        );
    }
}
