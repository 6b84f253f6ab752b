//! What an operator asked of a coordinator that is killed before it is done: the next one does it.

use resilin_chaos::jobs::Spec;
use resilin_chaos::oracle::Oracle;
use resilin_chaos::replay::check;
use resilin_chaos::schedule::{Fault, HostFault, Hosting, Leg, Schedule, When};
use resilin_chaos::sim::Ended;
use resilin_core::Step;
use resilin_core::machine::job::{Outcome, Wishes, Workers};
use resilin_core::time::Span;

const SEED: u64 = 3;
const STEPS: u64 = 40;

fn job() -> Oracle {
    let spec = Spec {
        steps: STEPS,
        ..Spec::tiny()
    };
    Oracle::of(&spec.task())
}

fn after(millis: u64, fault: Fault) -> (When, Fault) {
    (When::At(Span::from_millis(millis)), fault)
}

fn hosting(replicas: u8) -> Hosting {
    Hosting {
        processes: 3,
        replicas,
    }
}

fn kill() -> Fault {
    Fault::KillCoordinator(Span::from_millis(20))
}

fn has_serial_chain(ended: &Ended, oracle: &Oracle, what: &str) {
    let chain: Vec<_> = ended.store.chain().into_values().collect();
    assert!(chain == oracle.chain, "{what}: another chain");
}

#[test]
fn slices_are_dealt_anew_though_the_coordinator_that_was_asked_is_gone() {
    let oracle = job();
    for (replicas, killed) in [(0, 15), (0, 18), (1, 15), (1, 18)] {
        let what = format!("asked at 8 for 20, killed at {killed}, {replicas} replicas");
        let faults = vec![
            (
                When::Reached(Step(8)),
                Fault::Host(HostFault::Reshard(5, 12)),
            ),
            (When::Reached(Step(killed)), kill()),
        ];
        let leg = Leg {
            workers: 3,
            shards: 3,
        };
        let schedule = Schedule::hosted(SEED, leg, hosting(replicas), faults);
        let ended = check(&oracle, &schedule, &what);
        assert_eq!(ended.outcome, Outcome::Finished, "{what}");
        assert_eq!(
            (ended.stats.crashes, ended.stats.reshards),
            (1, 1),
            "{what}"
        );
        has_serial_chain(&ended, &oracle, &what);
    }
}

/// Without a worker the stop waits for a step; it is killed meanwhile, and workers come.
#[test]
fn a_run_stops_though_the_coordinator_that_was_asked_is_gone() {
    let oracle = job();
    for hosting in [None, Some(hosting(0)), Some(hosting(1))] {
        for legs in 1..=2 {
            let what = format!("stop before the first step, {hosting:?}, {legs} legs");
            let idle = Leg {
                workers: 0,
                shards: 3,
            };
            let busy = Leg { workers: 3, ..idle };
            let schedule = Schedule {
                legs: [idle, busy][..legs].to_vec(),
                hosting,
                ..Schedule::scripted(
                    SEED,
                    idle,
                    vec![
                        after(60, Fault::Stop),
                        after(90, kill()),
                        after(250, Fault::JoinStorm(3)),
                    ],
                )
            };
            let ended = check(&oracle, &schedule, &what);
            assert_eq!(ended.stats.crashes, 1, "{what}");
            if legs == 1 {
                assert_eq!(ended.outcome, Outcome::Stopped(Step(1)), "{what}");
            } else {
                assert_eq!(ended.outcome, Outcome::Finished, "{what}");
                has_serial_chain(&ended, &oracle, &what);
            }
        }
    }
}

/// Whoever coordinates in the simulator is started for 100 workers. The kills come when the store
/// has taken the number, which is when whoever asks for it is answered.
#[test]
fn as_many_workers_are_wanted_though_the_coordinator_that_was_asked_is_gone() {
    let oracle = job();
    let five = Wishes {
        workers: Some(Workers {
            wanted: 5,
            instead_of: 100,
        }),
        ..Wishes::default()
    };
    for hosting in [None, Some(hosting(1))] {
        let what = format!("5 workers asked for at 8, killed at 16 and 28, {hosting:?}");
        let leg = Leg {
            workers: 3,
            shards: 3,
        };
        let faults = vec![
            (When::Reached(Step(8)), Fault::Scale(5)),
            (When::Reached(Step(16)), kill()),
            (When::Reached(Step(28)), kill()),
        ];
        let schedule = Schedule {
            hosting,
            ..Schedule::scripted(SEED, leg, faults)
        };
        let ended = check(&oracle, &schedule, &what);
        assert_eq!(ended.outcome, Outcome::Finished, "{what}");
        assert_eq!(ended.stats.crashes, 2, "{what}");
        assert_eq!(ended.stats.wishes, [five, five], "{what}");
        has_serial_chain(&ended, &oracle, &what);
    }
}
