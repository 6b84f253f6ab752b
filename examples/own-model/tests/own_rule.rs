//! The example of an own update rule, with a worker killed and the run stopped on the way: its
//! vectors are in the checkpoint.

#[path = "../../../tests/processes/scene.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of resilin, which use all of it"
)]
mod scene;

use rustix::process::Signal;
use scene::{Scene, assert_code, assert_success, signal};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_own-rule");

#[test]
fn an_own_rule_survives_kills_and_stops() {
    // It waits for its workers, so that the one that is killed was one of them.
    let waits = "\n[cluster]\nmin_workers = 2\n";
    let scene = Scene::new(&(include_str!("../../s4-own-rule.toml").to_owned() + waits));
    let (chain, reference) = scene.reference();
    assert!(reference.test_accuracy >= Some(0.95), "{reference:?}");
    let arguments = [
        "train",
        "job.toml",
        "--workers",
        "2",
        "--hash-chain",
        "train.chain",
    ];
    let run = scene.start(&arguments);
    scene.until_step(20);
    let workers = scene.until_workers(2);
    signal(workers[0], Signal::KILL);
    scene.until("the loss is noticed", |status| status.job.lost == 1);
    scene.until_step(40);
    run.signal(Signal::TERM);
    let output = run.output();
    assert_code(output.status, 6, &output);
    assert_success(&scene.run(&arguments));
    scene.assert_empty();
    assert_eq!(scene.read("train.chain"), chain);
}
