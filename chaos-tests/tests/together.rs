//! The coordinator and a shard process killed together, again and again. A coordinator that begins
//! promotes and rolls back nobody for a lease (PROTOCOL 5), and nobody's word shortens it: so kills
//! that come faster than a lease hold the run up while they last, and no longer.

use resilin_chaos::jobs::Spec;
use resilin_chaos::oracle::Oracle;
use resilin_chaos::replay::check;
use resilin_chaos::schedule::{Fault, HostFault, Hosting, Leg, Schedule, When};
use resilin_chaos::sim::Ended;
use resilin_core::machine::job::Outcome;
use resilin_core::time::Span;

const SEED: u64 = 7;
const STEPS: u64 = 40;
/// How often both are killed, unless the run ends before.
const KILLS: u64 = 12;
/// The lease of the job, in milliseconds.
const LEASE: u64 = 100;
/// When both are killed first, in milliseconds.
const FIRST: u64 = 30;

/// The job on three shard processes, of which one and the coordinator are killed at these times;
/// both are there again soon. It ends with the serial chain.
fn run(oracle: &Oracle, replicas: u8, kills: impl Iterator<Item = u64>, what: &str) -> Ended {
    let kill = |at: u64| {
        let pick = u32::try_from(at).expect("a short run");
        let (at, soon) = (When::At(Span::from_millis(at)), Span::from_millis(5));
        [
            (at, Fault::Host(HostFault::Restart(pick, soon))),
            (at, Fault::KillCoordinator(soon)),
        ]
    };
    let leg = Leg {
        workers: 3,
        shards: 3,
    };
    let hosting = Hosting {
        processes: 3,
        replicas,
    };
    let schedule = Schedule::hosted(SEED, leg, hosting, kills.flat_map(kill).collect());
    let what = format!("{what}, {replicas} replicas");
    let ended = check(oracle, &schedule, &what);
    assert_eq!(ended.outcome, Outcome::Finished, "{what}");
    let chain: Vec<_> = ended.store.chain().into_values().collect();
    assert!(chain == oracle.chain, "{what}: another chain");
    ended
}

#[test]
fn kills_of_both_hold_a_run_up_no_longer_than_they_last() {
    let spec = Spec {
        steps: STEPS,
        ..Spec::tiny()
    };
    let oracle = Oracle::of(&spec.task());
    for replicas in [0, 1] {
        let quiet = run(&oracle, replicas, 0..0, "quiet").took;
        let each = |gap: u64| (0..KILLS).map(move |number| FIRST + number * gap);

        let faster = LEASE * 7 / 10;
        let ended = run(&oracle, replicas, each(faster), "faster than a lease");
        assert_eq!(ended.stats.crashes, KILLS, "it went on while they came");
        assert_eq!(ended.stats.rollbacks, 1, "once, after the last");
        let last = each(faster).max().unwrap_or_default();
        let bound = Span(Span::from_millis(last + 2 * LEASE).0 + quiet.0);
        assert!(ended.took < bound, "{:?}, not below {bound:?}", ended.took);

        let ended = run(&oracle, replicas, each(4 * LEASE), "slower than a lease");
        let crashes = ended.stats.crashes;
        assert!(
            (1..KILLS).contains(&crashes),
            "{crashes}: it ends meanwhile"
        );
    }
}
