//! The own model on its own rows, by one, three and five workers, with one of them killed on the way.

#[path = "../../../tests/processes/scene.rs"]
#[allow(
    dead_code,
    reason = "shared with the tests of resilin, which use all of it"
)]
mod scene;

use scene::Scene;

/// The example's job.
const JOB: &str = include_str!("../spirals.toml");

/// The program under test.
const PROGRAM: &str = env!("CARGO_BIN_EXE_own-model");

/// Trains with so many workers, kills one, and gives the chain.
fn chain_under_a_kill(workers: usize) -> String {
    // It waits for its workers, so that the one that is killed was one of them.
    let scene = Scene::new(&format!("{JOB}\n[cluster]\nmin_workers = {workers}\n"));
    let (chain, report) = scene.train_under_a_kill(workers, 50);
    assert!(report.test_accuracy >= Some(0.95), "{report:?}");
    chain
}

#[test]
fn kills_change_no_bit_of_an_own_model() {
    let (chain, _) = Scene::new(JOB).reference();
    for workers in [1, 3, 5] {
        assert_eq!(chain_under_a_kill(workers), chain, "{workers} workers");
    }
}
