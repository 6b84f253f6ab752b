//! Slices in shard processes: replicas take over, the coordinator comes back to hosts that live on,
//! slices are dealt anew, and no bit changes.

use resilin_chaos::jobs::Spec;
use resilin_chaos::oracle::Oracle;
use resilin_chaos::replay::check;
use resilin_chaos::schedule::{Apart, Fault, HostFault, Hosting, Leg, Schedule, When};
use resilin_chaos::sim::Ended;
use resilin_core::machine::job::Outcome;
use resilin_core::time::Span;
use resilin_core::{SliceId, Step};

const SEED: u64 = 3;
const STEPS: u64 = 40;

fn job() -> Oracle {
    let spec = Spec {
        steps: STEPS,
        ..Spec::tiny()
    };
    Oracle::of(&spec.task())
}

fn hosting(processes: u16, replicas: u8) -> Hosting {
    Hosting {
        processes,
        replicas,
    }
}

fn at(step: u64, fault: Fault) -> (When, Fault) {
    (When::Reached(Step(step)), fault)
}

fn host(step: u64, fault: HostFault) -> (When, Fault) {
    at(step, Fault::Host(fault))
}

/// A run to its end with the serial chain.
fn run(
    oracle: &Oracle,
    shards: u16,
    hosting: Hosting,
    faults: Vec<(When, Fault)>,
    what: &str,
) -> Ended {
    let leg = Leg { workers: 3, shards };
    let schedule = Schedule::hosted(SEED, leg, hosting, faults);
    let ended = check(oracle, &schedule, what);
    assert_eq!(ended.outcome, Outcome::Finished, "{what}");
    let chain: Vec<_> = ended.store.chain().into_values().collect();
    assert!(chain == oracle.chain, "{what}: another chain");
    ended
}

#[test]
fn a_quiet_run_has_the_serial_chain() {
    let oracle = job();
    for (processes, replicas) in [(1, 0), (2, 0), (2, 1), (5, 1)] {
        let what = format!("{processes} processes, {replicas} replicas");
        let ended = run(&oracle, 3, hosting(processes, replicas), vec![], &what);
        assert_eq!(ended.stats.recorded, STEPS, "{what}: no step is redone");
        assert_eq!(ended.stats.branches, 0, "{what}");
    }
}

#[test]
fn a_primary_that_is_killed_has_its_place_taken_and_no_step_is_redone() {
    let oracle = job();
    for step in [6, 7, 13, 20, 31, 39] {
        for slice in 0..3 {
            let what = format!("slice {slice}'s primary killed at step {step}");
            let faults = vec![host(step, HostFault::KillPrimary(SliceId(slice)))];
            let ended = run(&oracle, 3, hosting(3, 1), faults, &what);
            assert_eq!(ended.stats.shards_killed, 1, "{what}");
            assert_eq!(ended.stats.recorded, STEPS, "{what}: steps were redone");
            assert_eq!(ended.stats.rollbacks, 0, "{what}");
        }
    }
}

#[test]
fn a_backup_that_is_killed_costs_nothing() {
    let oracle = job();
    // At the first steps it is being copied.
    for step in [1, 2, 3, 20] {
        let what = format!("slice 0's backup killed at step {step}");
        let faults = vec![host(step, HostFault::KillBackup(SliceId(0)))];
        let ended = run(&oracle, 3, hosting(3, 1), faults, &what);
        assert_eq!(ended.stats.shards_killed, 1, "{what}");
        assert_eq!(ended.stats.recorded, STEPS, "{what}: steps were redone");
    }
}

#[test]
fn a_coordinator_that_comes_back_finds_its_hosts_and_no_step_is_redone() {
    let oracle = job();
    for (step, replicas) in [(8, 0), (8, 1), (13, 0), (21, 1), (33, 0), (38, 1)] {
        let what = format!("coordinator killed at step {step}, {replicas} replicas");
        let down = Span::from_millis(20);
        let faults = vec![at(step, Fault::KillCoordinator(down))];
        let ended = run(&oracle, 3, hosting(3, replicas), faults, &what);
        assert_eq!(ended.stats.crashes, 1, "{what}");
        assert_eq!(ended.stats.branches, 0, "{what}: nothing begins anew");
    }
}

#[test]
fn a_host_that_is_lost_while_the_coordinator_is_down_is_replaced_or_rolled_back() {
    let oracle = job();
    for replicas in [0, 1] {
        let what = format!("both killed, {replicas} replicas");
        let faults = vec![
            host(14, HostFault::KillPrimary(SliceId(1))),
            at(14, Fault::KillCoordinator(Span::from_millis(20))),
        ];
        let ended = run(&oracle, 3, hosting(3, replicas), faults, &what);
        assert_eq!(
            (ended.stats.crashes, ended.stats.shards_killed),
            (1, 1),
            "{what}"
        );
        assert_eq!(ended.stats.rollbacks, u64::from(replicas == 0), "{what}");
    }
}

#[test]
fn a_primary_without_a_replica_is_rolled_back_to_the_newest_checkpoint() {
    let oracle = job();
    let faults = vec![host(18, HostFault::KillPrimary(SliceId(1)))];
    let ended = run(&oracle, 3, hosting(3, 0), faults, "no replica");
    assert_eq!((ended.stats.rollbacks, ended.stats.branches), (1, 1));
    assert!(ended.stats.recorded > STEPS, "{:?}", ended.stats);
}

#[test]
fn an_old_primary_that_lost_only_the_coordinator_cannot_go_on() {
    let oracle = job();
    for replicas in [0, 1] {
        let what = format!("cut from the coordinator only, {replicas} replicas");
        let lasts = Span::from_millis(450);
        let cut = HostFault::CutPrimary(SliceId(0), Apart::Coordinator, lasts);
        let ended = run(&oracle, 3, hosting(3, replicas), vec![host(10, cut)], &what);
        assert_eq!(ended.stats.rollbacks, u64::from(replicas == 0), "{what}");
    }
}

#[test]
fn slices_are_dealt_anew_while_the_run_goes_on() {
    let oracle = job();
    for replicas in [0, 1] {
        let what = format!("3 to 5 to 2 slices, {replicas} replicas");
        let faults = vec![
            host(8, HostFault::Reshard(5, 3)),
            host(22, HostFault::Reshard(2, 3)),
        ];
        let ended = run(&oracle, 3, hosting(3, replicas), faults, &what);
        assert_eq!(ended.stats.reshards, 2, "{what}");
        assert_eq!(ended.stats.recorded, STEPS, "{what}: steps were redone");
    }
}

#[test]
fn a_kill_in_the_middle_of_a_change_of_the_layout_changes_no_bit() {
    let oracle = job();
    for replicas in [0, 1] {
        for step in [11, 12] {
            let what = format!("killed at step {step} of a change, {replicas} replicas");
            let faults = vec![
                host(8, HostFault::Reshard(5, 4)),
                host(step, HostFault::KillPrimary(SliceId(2))),
                at(step, Fault::KillCoordinator(Span::from_millis(10))),
            ];
            run(&oracle, 3, hosting(3, replicas), faults, &what);
        }
    }
}

/// What the schedule remembers goes to backups, to restored slices and to slices dealt anew.
#[test]
fn a_rate_that_follows_the_loss_falls_at_the_same_steps() {
    let spec = Spec {
        steps: STEPS,
        schedule: "name = \"plateau\"\nevery_steps = 2\npatience = 0\nthreshold = 0.3",
        ..Spec::tiny()
    };
    let oracle = Oracle::of(&spec.task());
    assert_ne!(oracle.chain.last(), job().chain.last(), "it never fell");
    for replicas in [0, 1] {
        for step in [7, 18, 31] {
            let what = format!("plateau, primary killed at step {step}, {replicas} replicas");
            let faults = vec![
                host(step, HostFault::KillPrimary(SliceId(1))),
                host(step + 4, HostFault::Reshard(5, 3)),
            ];
            run(&oracle, 3, hosting(3, replicas), faults, &what);
        }
    }
}
