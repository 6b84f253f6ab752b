//! Processes that are killed in the middle of a run.

use rustix::process::Signal;

use crate::scene::{JOB, Running, Scene, assert_success, signal};

fn train(scene: &Scene) -> Running {
    scene.start(&[
        "train",
        "job.toml",
        "--workers",
        "3",
        "--hash-chain",
        "train.chain",
        "--report",
        "train.json",
    ])
}

#[test]
fn a_killed_worker_changes_no_bit() {
    let scene = Scene::new(JOB);
    let (chain, reference) = scene.reference();
    let train = train(&scene);
    for (losses, step) in [(1, 30), (2, 90)] {
        scene.until_step(step);
        let workers = scene.until_workers(3);
        signal(workers[1], Signal::KILL);
        scene.until("the loss is noticed", |status| status.job.lost == losses);
    }
    assert_success(&train.output());
    scene.assert_empty();
    assert_eq!(scene.read("train.chain"), chain);
    let report = scene.report("train.json");
    assert_eq!(report.weights_sha256, reference.weights_sha256);
    assert_eq!(
        (report.workers_lost, report.samples),
        (2, reference.samples)
    );
    assert!(report.workers_joined >= 4, "{report:?}");
}

#[test]
fn a_killed_coordinator_goes_on_from_its_checkpoint() {
    let scene = Scene::new(JOB);
    let (chain, reference) = scene.reference();
    let train = train(&scene);
    let before = scene.until("a checkpoint is durable", |status| {
        status.job.durable_step.is_some_and(|step| step.0 >= 50) && status.job.step.0 >= 60
    });
    signal(scene.until_processes("coordinator", 1)[0], Signal::KILL);
    scene.until("another reign", |status| {
        status.job.timeline > before.job.timeline && status.job.step.0 > 100
    });
    assert_success(&train.output());
    scene.assert_empty();
    assert_eq!(scene.read("train.chain"), chain);
    let report = scene.report("train.json");
    assert_eq!(report.weights_sha256, reference.weights_sha256);
    assert!(report.resumed_from_step >= Some(50), "{report:?}");
}

#[test]
fn a_killed_supervisor_takes_its_processes_with_it() {
    let scene = Scene::new(JOB);
    let train = train(&scene);
    scene.until_step(10);
    train.signal(Signal::KILL);
    drop(train.output());
    scene.assert_empty();
}

#[test]
fn workers_killed_while_their_sums_are_on_the_way_change_no_bit() {
    // Large enough for sums to be sent in portions while they are made.
    let job = JOB
        .replace("hidden = [24]", "hidden = [512, 512]")
        .replace("block = 256", "block = 4096")
        .replace("steps = 300", "steps = 200");
    let scene = Scene::new(&job);
    let (chain, reference) = scene.reference();
    let train = train(&scene);
    for (losses, victim, step) in [(1, 0, 10), (2, 1, 50), (3, 2, 80)] {
        scene.until_step(step);
        let workers = scene.until_workers(3);
        signal(workers[victim], Signal::KILL);
        scene.until("the loss is noticed", |status| status.job.lost == losses);
    }
    assert_success(&train.output());
    scene.assert_empty();
    assert_eq!(scene.read("train.chain"), chain);
    let report = scene.report("train.json");
    assert_eq!(report.weights_sha256, reference.weights_sha256);
    assert_eq!(
        (report.workers_lost, report.samples),
        (3, reference.samples)
    );
}
