//! Slices in processes of their own: killed with and without copies, left alone by their
//! coordinator, and dealt anew.

use std::collections::BTreeSet;

use resilin_actors::coordinator::RunStatus;
use resilin_checkpoint::{History, LEDGER, RealFiles};
use resilin_core::machine::job::HostStatus;
use rustix::process::Signal;

use crate::scene::{JOB, Running, Scene, assert_code, assert_success, signal, stderr};

/// The job on three shard processes.
fn job(replicas: u8) -> String {
    let more = format!("shards = 3\nshard_processes = 3\nreplicas = {replicas}");
    JOB.replace("shards = 3", &more)
}

fn train(scene: &Scene) -> Running {
    scene.start(&[
        "train",
        "job.toml",
        "--workers",
        "2",
        "--hash-chain",
        "train.chain",
        "--report",
        "train.json",
    ])
}

/// Steps that were committed and made again.
fn redone(scene: &Scene) -> usize {
    let runs = std::fs::read_dir(scene.path("resilin-runs")).expect("the state directory");
    let ledgers = runs.map(|entry| entry.expect("readable").path().join(LEDGER));
    let ledger = ledgers.into_iter().find(|path| path.is_file());
    let path = ledger.expect("the run has a ledger");
    let history = History::read(&RealFiles, &path).expect("a ledger");
    history.superseded().len()
}

/// Ends the scene: the bits are those of the reference, and nobody is left.
fn assert_reference(scene: &Scene, train: Running, chain: &str) {
    assert_success(&train.output());
    scene.assert_empty();
    assert_eq!(scene.read("train.chain"), chain);
}

fn pid(host: &HostStatus) -> u32 {
    let (_, pid) = host.name.rsplit_once(':').expect("host and process id");
    pid.parse().expect("a process id")
}

/// The process of the first slice's primary.
fn first_primary(status: &RunStatus) -> u32 {
    let primary = status.job.slices[0].primary;
    let hosts = &status.job.hosts;
    let host = hosts.iter().find(|host| host.incarnation == primary);
    pid(host.expect("the primary is a host"))
}

/// Whether all slices are served and, where there shall be copies, have one that is whole.
fn settled(status: &RunStatus, slices: usize, replicas: u8) -> bool {
    let served = status
        .job
        .slices
        .iter()
        .all(|slice| slice.state == "serving" && (replicas == 0 || slice.in_sync));
    served && status.job.slices.len() == slices
}

#[test]
fn shard_processes_make_the_same_bits() {
    let scene = Scene::new(&job(0));
    let (chain, _) = scene.reference();
    let train = train(&scene);
    let status = scene.until("all slices are served", |status| {
        settled(status, 3, 0) && status.job.step.0 >= 20
    });
    let serving: BTreeSet<u32> = status.job.hosts.iter().map(pid).collect();
    let living: BTreeSet<u32> = scene.until_processes("shard", 3).into_iter().collect();
    assert_eq!(serving, living);
    let each = status.job.hosts.iter().map(|host| host.primaries);
    assert_eq!(each.collect::<Vec<_>>(), [1, 1, 1]);
    assert_reference(&scene, train, &chain);
    assert_eq!(redone(&scene), 0);
}

#[test]
fn a_quiet_run_warns_of_nothing() {
    // Nobody is late on a machine that has much else to do.
    let scene = Scene::new(&job(1).replace("[failure]", "[failure]\nlease = 60"));
    let mut command = scene.command(&["train", "job.toml"]);
    command.env("RESILIN_LOG", "info");
    let output = scene.start_command(command, &["train"]).output();
    assert_success(&output);
    scene.assert_empty();
    let said = stderr(&output);
    let placed = said
        .lines()
        .filter(|line| line.ends_with("step=0") && line.contains(": placed"));
    assert_eq!(placed.count(), 3, "the log is heard: {said}");
    let loud = said
        .lines()
        .filter(|line| line.contains(" WARN ") || line.contains(" ERROR "));
    assert_eq!(loud.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn a_killed_primary_with_a_copy_costs_no_step() {
    let scene = Scene::new(&job(1));
    let (chain, _) = scene.reference();
    let train = train(&scene);
    let before = scene.until("all slices have copies", |status| {
        settled(status, 3, 1) && status.job.step.0 >= 30
    });
    signal(first_primary(&before), Signal::KILL);
    let after = scene.until("another process serves the first slice", |status| {
        settled(status, 3, 0) && status.job.slices[0].view > before.job.slices[0].view
    });
    assert_ne!(after.job.slices[0].primary, before.job.slices[0].primary);
    assert_eq!(after.job.timeline, before.job.timeline);
    assert_reference(&scene, train, &chain);
    assert_eq!(redone(&scene), 0);
}

#[test]
fn a_killed_shard_without_a_copy_is_replayed_from_the_checkpoint() {
    // Checkpoints lie far apart: on a slow disk the next one may be durable before the kill is seen,
    // and then there is nothing to make again.
    let job = job(0).replace("every_steps = 50", "every_steps = 250");
    let scene = Scene::new(&job.replace("steps = 300", "steps = 600"));
    let (chain, _) = scene.reference();
    let train = train(&scene);
    let before = scene.until("a checkpoint is durable", |status| {
        status.job.durable_step.is_some_and(|step| step.0 >= 250) && status.job.step.0 >= 260
    });
    signal(first_primary(&before), Signal::KILL);
    scene.until("all slices are served again", |status| {
        settled(status, 3, 0) && status.job.timeline > before.job.timeline
    });
    assert_reference(&scene, train, &chain);
    assert!(redone(&scene) > 0, "the killed slice had steps of its own");
}

#[test]
fn drained_shard_processes_hand_over_and_are_replaced() {
    // Whoever cannot hand over within its grace leaves all the same, and steps are made again: on a
    // machine with too much to do a few seconds are not enough.
    let scene = Scene::new(&job(0).replace("drain_grace = 5", "drain_grace = 60"));
    let (chain, _) = scene.reference();
    let train = train(&scene);
    let before = scene.until("all slices are served", |status| {
        settled(status, 3, 0) && status.job.step.0 >= 30
    });
    let old: BTreeSet<_> = before.job.hosts.iter().map(|h| h.incarnation).collect();
    signal(first_primary(&before), Signal::TERM);
    scene.until("another process takes its place", |status| {
        let new = status.job.hosts.iter().map(|host| host.incarnation);
        let hosts: BTreeSet<_> = new.collect();
        settled(status, 3, 0) && hosts.len() == 3 && hosts != old
    });
    assert_reference(&scene, train, &chain);
    assert_eq!(redone(&scene), 0);
}

#[test]
fn a_killed_coordinator_loses_no_step_and_no_worker() {
    let scene = Scene::new(&job(0));
    let (chain, _) = scene.reference();
    let train = train(&scene);
    let before = scene.until("steps without a checkpoint", |status| {
        settled(status, 3, 0) && status.job.step.0 >= 60
    });
    let members = |scene: &Scene| [scene.processes("worker"), scene.processes("shard")];
    let living = members(&scene);
    assert_eq!(living.each_ref().map(Vec::len), [2, 3]);
    signal(scene.until_processes("coordinator", 1)[0], Signal::KILL);
    let after = scene.until("another reign", |status| {
        status.job.generation.reign > before.job.generation.reign
            && settled(status, 3, 0)
            && status.job.step > before.job.step
    });
    assert_eq!(after.job.timeline, before.job.timeline);
    assert_eq!(members(&scene), living, "nobody ended");
    assert_reference(&scene, train, &chain);
    assert_eq!(redone(&scene), 0);
}

#[test]
fn shards_are_dealt_anew_while_the_run_goes_on() {
    // A version is dealt anew once no earlier one is being written: there are steps enough for that.
    let scene = Scene::new(&job(0).replace("steps = 300", "steps = 1500"));
    let (chain, _) = scene.reference();
    let train = train(&scene);
    scene.until_step(10);
    for (shards, at) in [(5, "120"), (2, "400")] {
        let wanted = shards.to_string();
        assert_success(&scene.run(&["scale", "--shards", &wanted, "--at", at]));
        scene.until("the parameters are dealt anew", |status| {
            settled(status, shards, 0)
        });
    }
    let late = scene.run(&["scale", "--shards", "3", "--at", "400"]);
    assert_code(late.status, 1, &late);
    let said = stderr(&late);
    assert!(said.contains("name a later step than 400"), "{said}");
    assert_reference(&scene, train, &chain);
    assert_eq!(
        redone(&scene),
        0,
        "a change of the layout makes no step again"
    );
}

/// Without workers a stop waits for its grace; the coordinator that was asked is killed meanwhile.
#[test]
fn a_stop_is_done_though_the_coordinator_that_was_asked_is_killed() {
    let scene = Scene::new(&job(0).replace("workers = 2", "workers = 0"));
    let train = scene.start(&["train", "job.toml"]);
    let asked = scene.until("all slices are served", |status| settled(status, 3, 0));
    assert_success(&scene.run(&["stop"]));
    signal(scene.until_processes("coordinator", 1)[0], Signal::KILL);
    scene.until("another reign", |status| {
        status.job.generation.reign > asked.job.generation.reign
    });
    let stopped = train.output();
    assert_code(stopped.status, 6, &stopped);
    let said = stderr(&stopped);
    assert!(said.contains("asked for a stop"), "{said}");
    scene.assert_empty();
    let again = scene.run(&["train", "job.toml", "--workers", "2"]);
    assert_success(&again);
    scene.assert_empty();
}

#[test]
fn a_coordinator_that_no_shard_has_joined_ends_at_the_first_signal() {
    let scene = Scene::new(&job(1));
    let coordinator = scene.start(&["coordinator", "job.toml"]);
    scene.until("it answers", |_| true);
    coordinator.signal(Signal::TERM);
    let ended = coordinator.output();
    assert_code(ended.status, 6, &ended);
    let said = stderr(&ended);
    let line = "stopped before the first step; the same command line begins there";
    assert!(said.contains(line), "{said}");
    scene.assert_empty();
    // Nothing is lost: the same run goes on, and ends.
    assert_success(&scene.run(&["train", "job.toml"]));
}
