//! The job files of `examples/`: those named after the articles that the project comes from, and
//! those over printed letters. Each is understood and reaches its floor. What a run of processes gives is the same to the bit, so the
//! serial reference is enough here.

use std::path::Path;
use std::sync::Arc;

use resilin::Registry;
use resilin_core::job::Document;
use resilin_learn::model::Score;
use resilin_learn::reference;
use resilin_learn::task::Task;

fn task(file: &str) -> Arc<Task> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("examples").join(file);
    let text = std::fs::read_to_string(&path).expect("an example");
    let document = Document::parse(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
    let registry = resilin_data::sources(Registry::default());
    let task = registry.task(document, Some(root));
    Arc::new(task.unwrap_or_else(|error| panic!("{file}: {error}")))
}

/// How well the test rows are predicted after training.
fn score(file: &str) -> Score {
    let trained = reference::run(&task(file), |_| {}).expect("it trains");
    trained.test.expect("there are test rows")
}

/// Share of the test rows that is predicted right after training.
fn accuracy(file: &str) -> f64 {
    let score = score(file);
    score.correct.expect("it has classes") as f64 / score.rows as f64
}

fn assert_reaches(file: &str, floor: f64) {
    let reached = accuracy(file);
    assert!(
        reached >= floor,
        "{file}: {reached} of the test rows right, floor {floor}"
    );
}

#[test]
fn s0_a_neural_net_by_hand() {
    assert_reaches("s0-neural-net.toml", 0.83);
}

#[test]
fn s1_a_million_random_rows() {
    assert_reaches("s1-random-rows.toml", 0.8);
}

#[test]
fn s2_convolutions_and_pools() {
    assert_reaches("s2-convolutions.toml", 0.8);
}

#[test]
fn s3_two_classes_by_one_output() {
    // 67 test rows: one of them is 1.5 %.
    assert_reaches("s3-two-classes.toml", 0.75);
}

#[test]
fn printed_letters_by_an_mlp() {
    assert_reaches("letters-mlp.toml", 0.93);
}

#[test]
fn a_column_of_ids_from_fifteen_others() {
    let score = score("letters-factorization.toml");
    let loss = score.loss_sum / score.rows as f64;
    // The column's variance, 4.06, is what a constant would cost at best.
    assert!(loss <= 0.1 * 4.06, "a squared error of {loss} a row");
}
