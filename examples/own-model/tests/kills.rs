//! The own model on its own rows, with workers killed on the way.

#[path = "../../../tests/processes/scene.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of resilin, which use all of it"
)]
mod scene;

use rustix::process::Signal;
use scene::{Scene, assert_success, signal};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_own-model");

#[test]
fn kills_change_no_bit_of_an_own_model() {
    let scene = Scene::new(include_str!("../spirals.toml"));
    let (chain, reference) = scene.reference();
    let train = scene.start(&[
        "train",
        "job.toml",
        "--workers",
        "3",
        "--hash-chain",
        "train.chain",
        "--report",
        "train.json",
    ]);
    for (losses, step) in [(1, 50), (2, 200)] {
        scene.until_step(step);
        let workers = scene.until_processes("worker", 3);
        signal(workers[0], Signal::KILL);
        scene.until("the loss is noticed", |status| status.job.lost == losses);
    }
    assert_success(&train.output());
    scene.assert_empty();
    assert_eq!(scene.read("train.chain"), chain);
    let report = scene.report("train.json");
    assert_eq!(report.weights_sha256, reference.weights_sha256);
    assert!(report.test_accuracy >= Some(0.95), "{report:?}");
}
