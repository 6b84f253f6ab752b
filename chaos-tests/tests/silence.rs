//! Links that fall silent without being reset, and speak again: what was sent meanwhile comes late,
//! for less or more than a lease, and no bit changes.

use resilin_chaos::jobs::Spec;
use resilin_chaos::oracle::Oracle;
use resilin_chaos::replay::check;
use resilin_chaos::schedule::{Apart, Fault, HostFault, Hosting, Leg, Schedule, When};
use resilin_core::machine::job::Outcome;
use resilin_core::time::Span;
use resilin_core::{SliceId, Step};

const SEED: u64 = 5;
const STEPS: u64 = 40;
const LEG: Leg = Leg {
    workers: 3,
    shards: 3,
};
const HOSTING: Hosting = Hosting {
    processes: 3,
    replicas: 1,
};

fn job() -> Oracle {
    let spec = Spec {
        steps: STEPS,
        ..Spec::tiny()
    };
    Oracle::of(&spec.task())
}

/// Less and more than the lease of a tenth of a second.
fn silences() -> [Span; 2] {
    [Span::from_millis(40), Span::from_millis(350)]
}

/// A run to its end with the serial chain; says how long it took beyond the quiet one.
fn late(oracle: &Oracle, hosting: Option<Hosting>, fault: Fault, what: &str) -> Span {
    let run = |faults, what: &str| {
        let schedule = Schedule {
            hosting,
            ..Schedule::scripted(SEED, LEG, faults)
        };
        let ended = check(oracle, &schedule, what);
        assert_eq!(ended.outcome, Outcome::Finished, "{what}");
        let chain: Vec<_> = ended.store.chain().into_values().collect();
        assert!(chain == oracle.chain, "{what}: another chain");
        ended.took
    };
    let quiet = run(Vec::new(), "quiet");
    let took = run(vec![(When::Reached(Step(9)), fault)], what);
    Span(took.0.saturating_sub(quiet.0))
}

#[test]
fn a_worker_whose_links_are_silent_for_a_while_changes_no_bit() {
    let oracle = job();
    for hosting in [None, Some(HOSTING)] {
        for lasts in silences() {
            for fault in [
                Fault::CutTo(0, lasts),
                Fault::CutFrom(1, lasts),
                Fault::Cut(2, lasts),
            ] {
                let what = format!("{fault:?}, {hosting:?}");
                let late = late(&oracle, hosting, fault, &what);
                assert!(late > Span::ZERO, "{what}: nobody missed it");
            }
        }
    }
}

#[test]
fn a_shard_process_whose_links_are_silent_for_a_while_changes_no_bit() {
    let oracle = job();
    for lasts in silences() {
        for from in [
            Apart::All,
            Apart::Coordinator,
            Apart::Worker(0),
            Apart::Host(1),
        ] {
            let fault = Fault::Host(HostFault::CutPrimary(SliceId(1), from, lasts));
            late(&oracle, Some(HOSTING), fault, &format!("{fault:?}"));
        }
    }
}
