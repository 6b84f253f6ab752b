//! The models of `examples/foreign`, with the libraries that they are written for, where those are
//! installed: `RESILIN_EXAMPLES` names the ones to run, `RESILIN_PYTHON` the Python that has them.

use resilin_core::job::Document;
use resilin_learn::dataset::Batch;
use resilin_learn::math::largest;
use resilin_learn::registry::Registry;

use crate::scene::Scene;

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

/// The examples to run.
fn asked() -> Vec<(&'static str, f64)> {
    let asked = std::env::var("RESILIN_EXAMPLES").unwrap_or_default();
    let asked: Vec<&str> = asked.split(',').filter(|name| !name.is_empty()).collect();
    for name in &asked {
        let known = EXAMPLES.iter().any(|(known, _)| known == name);
        assert!(known, "RESILIN_EXAMPLES names {name}, which is no example");
    }
    let run = |(name, _): &(&str, f64)| {
        let run = asked.contains(name);
        if !run {
            eprintln!("examples: {name} is not run; RESILIN_EXAMPLES does not name it");
        }
        run
    };
    EXAMPLES.into_iter().filter(run).collect()
}

#[test]
fn the_examples_that_are_asked_for_have_the_bits_of_the_reference_under_a_kill() {
    for (name, floor) in asked() {
        let scene = Scene::new(&job(name));
        let (chain, reference) = scene.reference();
        let (under_a_kill, _) = scene.train_under_a_kill(3, 10);
        assert_eq!(under_a_kill, chain, "{name}");
        assert!(reference.test_accuracy >= Some(floor), "{reference:?}");
    }
}

/// What a model in Python gives for rows is what its score counts; one that has its rows itself is
/// not asked.
#[test]
fn the_examples_that_are_asked_for_predict_what_they_are_scored_by() {
    for (name, _) in asked() {
        let document = Document::parse(&job(name)).expect("an example");
        let registry = resilin_foreign::models(resilin_data::sources(Registry::default()));
        let task = registry.task(document, None);
        let task = task.unwrap_or_else(|error| panic!("{name}: {error}"));
        let rows = task.split.test.as_ref().expect("it has test rows");
        let mut batch = Batch::default();
        let ids: Vec<u32> = (0..200).collect();
        rows.read(&ids, &mut batch).expect("there are more");
        let (weights, mut space) = (task.initial_weights(), task.model.workspace());
        let mut outputs = Vec::new();
        let predicted = task
            .model
            .predict(&weights, &batch, &mut space, &mut outputs);
        if batch.width == 0 {
            let refused = predicted.expect_err("its rows are its own").to_string();
            assert!(refused.contains("has its rows itself"), "{refused}");
            continue;
        }
        assert_eq!(predicted.expect("it predicts"), 10, "{name}");
        let rows = outputs.chunks_exact(10).zip(batch.classes());
        let right = rows.filter(|(row, class)| largest(row) as u32 == **class);
        let (right, score) = (
            right.count() as u64,
            task.model.score(&weights, &batch, &mut space),
        );
        assert_eq!(score.expect("it scores").correct, Some(right), "{name}");
    }
}
