//! The models of `examples/foreign`, with the libraries that they are written for, where those are
//! installed: `RESILIN_EXAMPLES` names the ones to run, `RESILIN_PYTHON` the Python that has them.

use rustix::process::Signal;

use crate::scene::{Scene, assert_success, signal};

/// An example, and the test accuracy that it reaches at least.
const EXAMPLES: [(&str, f64); 3] = [("autograd", 0.93), ("jax", 0.93), ("pytorch", 0.85)];

/// The job of an example, with this Python, from anywhere. It waits for its workers: libraries load
/// for longer than the whole run takes.
fn job(name: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    let path = format!("{root}/examples/foreign/{name}.toml");
    let text = std::fs::read_to_string(path).expect("an example");
    let python = std::env::var("RESILIN_PYTHON").unwrap_or_else(|_| "python3".into());
    let command = format!("{python} -B {root}/examples/");
    assert!(text.contains("\"python3 examples/"), "{text}");
    text.replace("python3 examples/", &command) + "\n[cluster]\nmin_workers = 3\n"
}

#[test]
fn the_examples_that_are_asked_for_have_the_bits_of_the_reference_under_a_kill() {
    let asked = std::env::var("RESILIN_EXAMPLES").unwrap_or_default();
    let asked: Vec<&str> = asked.split(',').filter(|name| !name.is_empty()).collect();
    for name in &asked {
        let known = EXAMPLES.iter().any(|(known, _)| known == name);
        assert!(known, "RESILIN_EXAMPLES names {name}, which is no example");
    }
    for (name, floor) in EXAMPLES {
        if !asked.contains(&name) {
            eprintln!("examples: {name} is not run; RESILIN_EXAMPLES does not name it");
            continue;
        }
        let scene = Scene::new(&job(name));
        let (chain, reference) = scene.reference();
        let train = scene.start(&[
            "train",
            "job.toml",
            "--workers",
            "3",
            "--hash-chain",
            "train.chain",
        ]);
        scene.until_step(10);
        signal(scene.until_workers(3)[0], Signal::KILL);
        scene.until("the loss is noticed", |status| status.job.lost == 1);
        assert_success(&train.output());
        scene.assert_empty();
        assert_eq!(scene.read("train.chain"), chain, "{name}");
        assert!(reference.test_accuracy >= Some(floor), "{reference:?}");
    }
}
