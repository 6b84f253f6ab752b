//! The first model of the documentation, with its worker processes killed on the way.

#[path = "../../../tests/processes/scene.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of resilin, which use all of it"
)]
mod scene;

use rustix::process::Signal;
use scene::{Scene, assert_success, signal, stdout};

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_first-model");

/// The last line has the weights' hash.
fn last_line(scene: &Scene, kills: u64) -> String {
    let run = scene.start(&[]);
    for kill in 1..=kills {
        scene.until_step(100 * kill);
        let workers = scene.until_workers(3);
        signal(workers[1], Signal::KILL);
        scene.until("the loss is noticed", |status| status.job.lost == kill);
    }
    let output = run.output();
    assert_success(&output);
    scene.assert_empty();
    let text = stdout(&output);
    let last = text.lines().last().expect("it says something");
    assert!(last.contains(": [1, 0], weights "), "{last}");
    assert_eq!(text.matches("Scored {").count(), 10, "{text}");
    let changes = text.matches("Members {").count();
    assert!(changes > usize::from(kills > 0), "{text}");
    last.to_owned()
}

#[test]
fn kills_change_no_bit_of_a_first_model() {
    let quiet = last_line(&Scene::new(""), 0);
    assert_eq!(last_line(&Scene::new(""), 2), quiet);
}
