//! Whatever happens to the workers and to the coordinator, and however many there are: one chain.

use resilin_chaos::jobs::{Net, Spec};
use resilin_chaos::oracle::Oracle;
use resilin_chaos::replay::check;
use resilin_chaos::schedule::{Fault, Leg, Schedule, When};
use resilin_core::Step;
use resilin_core::machine::job::Outcome;
use resilin_core::time::Span;

const WORKERS: [u32; 5] = [1, 2, 3, 5, 8];
const SHARDS: [u16; 2] = [1, 3];

fn at(step: u64, fault: Fault) -> (When, Fault) {
    (When::Reached(Step(step)), fault)
}

fn scenarios() -> [(&'static str, Vec<(When, Fault)>); 4] {
    [
        ("quiet", vec![]),
        (
            "kill and replacement",
            vec![at(4, Fault::Kill(1)), at(4, Fault::Join(1))],
        ),
        (
            "two joins and a drain",
            vec![
                at(3, Fault::Join(1)),
                at(5, Fault::Join(1)),
                at(7, Fault::Drain(0)),
            ],
        ),
        (
            "coordinator killed and restarted",
            vec![at(7, Fault::KillCoordinator(Span::from_millis(30)))],
        ),
    ]
}

fn every_run_has_the_serial_chain(optimizer: &'static str) {
    for partitions in [12, 16] {
        let oracle = Oracle::of(&Spec::matrix(optimizer, partitions).task());
        assert!(oracle.blocks[0].len() >= 3, "the shards share the model");
        let mut runs = 0;
        for (name, faults) in scenarios() {
            for (workers, shards) in WORKERS.into_iter().flat_map(|w| SHARDS.map(|s| (w, s))) {
                let what = format!("{optimizer}, P {partitions}, {name}, {workers} x {shards}");
                let leg = Leg { workers, shards };
                let schedule = Schedule::scripted(runs, leg, faults.clone());
                let ended = check(&oracle, &schedule, &what);
                assert_eq!(ended.outcome, Outcome::Finished, "{what}");
                let chain: Vec<_> = ended.store.chain().into_values().collect();
                assert!(chain == oracle.chain, "{what}: another chain");
                runs += 1;
            }
        }
        assert_eq!(runs, 40);
    }
}

#[test]
fn leases_of_any_length_change_no_bit() {
    for lease in [0.05, 0.3, 3600.0] {
        let spec = Spec {
            lease,
            ..Spec::matrix("adam", 12)
        };
        let oracle = Oracle::of(&spec.task());
        for (name, faults) in scenarios() {
            let leg = Leg {
                workers: 3,
                shards: 3,
            };
            let what = format!("lease {lease}, {name}");
            let ended = check(&oracle, &Schedule::scripted(3, leg, faults), &what);
            let chain: Vec<_> = ended.store.chain().into_values().collect();
            assert!(chain == oracle.chain, "{what}: another chain");
        }
    }
}

#[test]
fn sgd() {
    every_run_has_the_serial_chain("sgd");
}

#[test]
fn momentum() {
    every_run_has_the_serial_chain("momentum");
}

#[test]
fn adam() {
    every_run_has_the_serial_chain("adam");
}

/// The models whose layers are on the tape, one with running statistics, under a kill.
fn every_net_has_the_serial_chain(net: Net, width: u32) {
    let spec = Spec {
        net,
        width,
        block: 32,
        ..Spec::matrix("adamw", 6)
    };
    let [_, kill, ..] = scenarios();
    under_faults_the_serial_chain_comes_out(&spec, &format!("{net:?}"), kill);
}

fn under_faults_the_serial_chain_comes_out(
    spec: &Spec,
    job: &str,
    (name, faults): (&str, Vec<(When, Fault)>),
) {
    let oracle = Oracle::of(&spec.task());
    assert!(oracle.blocks[0].len() >= 3, "the shards share the model");
    for (seed, workers) in (0..).zip([1, 3, 5]) {
        let what = format!("{job}, {name}, {workers} workers");
        let leg = Leg { workers, shards: 3 };
        let schedule = Schedule::scripted(seed, leg, faults.clone());
        let ended = check(&oracle, &schedule, &what);
        assert_eq!(ended.outcome, Outcome::Finished, "{what}");
        let chain: Vec<_> = ended.store.chain().into_values().collect();
        assert!(chain == oracle.chain, "{what}: another chain");
    }
}

#[test]
fn cnn() {
    every_net_has_the_serial_chain(Net::Cnn, 16);
}

#[test]
fn transformer() {
    every_net_has_the_serial_chain(Net::Transformer, 6);
}

/// A schedule that remembers losses, over a kill, a restart of the coordinator and its checkpoints.
#[test]
fn plateau() {
    let spec = Spec {
        schedule: "name = \"plateau\"\nevery_steps = 1\npatience = 0\nthreshold = 0.3",
        ..Spec::matrix("momentum", 6)
    };
    let constant = Spec::matrix("momentum", 6);
    let last = |spec: &Spec| Oracle::of(&spec.task()).chain.last().copied();
    assert_ne!(last(&spec), last(&constant), "it never fell");
    let [_, scenarios @ ..] = scenarios();
    for faults in scenarios {
        under_faults_the_serial_chain_comes_out(&spec, "plateau", faults);
    }
}

#[test]
fn vae() {
    every_net_has_the_serial_chain(Net::Vae, 12);
}

#[test]
fn factorization() {
    every_net_has_the_serial_chain(Net::Factorization, 3);
}
