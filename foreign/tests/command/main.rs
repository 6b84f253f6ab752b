//! A command as a model, in this process: what it computes; how it starts and how it fails have
//! files of their own.

mod faults;
#[path = "../python/mod.rs"]
mod python;
mod starts;

use std::sync::Arc;

use resilin_core::job::Document;
use resilin_core::{PartitionId, Step};
use resilin_foreign::models;
use resilin_learn::dataset::{Batch, Targets};
use resilin_learn::kernel::{Evaluator, Which};
use resilin_learn::math::largest;
use resilin_learn::model::{Microbatch, Model, Outcome, Sink};
use resilin_learn::reference;
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;

use python::has_python;

const RUN: &str = "[run]\nsteps = 6\nbatch = 24\npartitions = 4\n";

fn registry() -> Registry {
    models(resilin_data::sources(Registry::default()))
}

/// The command of `model.py`, and with which arguments.
fn command(arguments: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests");
    format!("python3 {folder}/model.py {arguments}")
}

/// A job on the digits, or why there is none.
fn task(run: &str, command: &str, more: &str) -> Result<Arc<Task>, String> {
    let text = format!("{run}[model]\ncommand = '{command}'\n{more}");
    let document = Document::parse(&text).expect("a job file");
    let task = registry().task(document, None);
    task.map(Arc::new).map_err(|error| error.to_string())
}

fn well() -> Arc<Task> {
    let task = task(RUN, &command(""), "");
    task.unwrap_or_else(|error| panic!("the command is a model: {error}"))
}

/// Keeps the only gradient.
struct Kept(Vec<f32>, Option<Outcome>);

impl Sink for Kept {
    fn gradient(&mut self, _: usize) -> &mut [f32] {
        &mut self.0
    }

    fn done(&mut self, _: usize, outcome: Outcome) {
        self.1 = Some(outcome);
    }
}

fn gradient(model: &dyn Model, weights: &[f32], batch: &Batch) -> (Vec<f32>, Outcome) {
    let mut kept = Kept(vec![0.0; weights.len()], None);
    let microbatch = Microbatch {
        seed: 1,
        step: Step(0),
        partition: PartitionId(0),
        batch,
    };
    let mut workspace = model.workspace();
    let done = model.evaluate(weights, &[microbatch], &mut workspace, &mut kept);
    done.expect("the rows fit");
    (kept.0, kept.1.expect("it is done"))
}

#[test]
fn it_is_the_same_function_as_the_built_in_model() {
    if !has_python() {
        return;
    }
    let foreign = well();
    let text = foreign.effective.toml();
    assert!(text.contains("name = \"command\""), "{text}");
    let softmax = Document::parse("[model]\nname = \"softmax\"\n").expect("a job file");
    let own = registry().task(softmax, None).expect("a job");
    let shapes = |task: &Task| -> Vec<Vec<usize>> {
        let entries = task.layout.entries().iter();
        entries.map(|entry| entry.shape.clone()).collect()
    };
    assert_eq!(shapes(&foreign), shapes(&own));

    let weights = foreign.initial_weights();
    assert_eq!(weights, well().initial_weights());
    let mut batch = Batch::default();
    let rows = foreign.split.train.read(&[5, 0, 9], &mut batch);
    rows.expect("there are that many");
    // What dropout leaves out is 0 in the rows of the other one.
    let (theirs, outcome) = gradient(&*foreign.model, &weights, &batch);
    let left_out: Vec<usize> = (0..64)
        .filter(|row| theirs[10 * row..10 * (row + 1)].iter().all(|g| *g == 0.0))
        .collect();
    assert!(left_out.len() < 40, "{left_out:?}");
    for row in batch.features.chunks_mut(64) {
        left_out.iter().for_each(|at| row[*at] = 0.0);
    }
    let (ours, expected) = gradient(&*own.model, &weights, &batch);
    assert_eq!((outcome.samples, outcome.weight), (3, 3.0));
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-5 * (1.0 + a.abs());
    assert!(
        close(outcome.loss_sum, expected.loss_sum),
        "{outcome:?} {expected:?}"
    );
    for (at, (a, b)) in theirs.iter().zip(&ours).enumerate() {
        assert!(close((*a).into(), (*b).into()), "value {at}: {a}, {b}");
    }
}

#[test]
fn a_run_repeats_itself_and_scores_every_test_row() {
    if !has_python() {
        return;
    }
    let train = || reference::run(&well(), |_| {}).expect("nothing goes wrong");
    let once = train();
    assert_eq!(once, train());
    assert_eq!(once.test.expect("there are test rows").rows, 359);
    let other = task(&format!("{RUN}seed = 2\n"), &command(""), "").expect("a job");
    assert_ne!(other.data_digest(), well().data_digest());
    assert_eq!(well().data_digest(), well().data_digest());
}

/// More rows than are asked for at once, of a model that gives as many values as there are classes,
/// and of one that gives twice as many.
#[test]
fn it_predicts_what_it_is_scored_by() {
    if !has_python() {
        return;
    }
    let split = well().split.test.clone().expect("there are test rows");
    let mut batch = Batch::default();
    split
        .read(&(0..359).collect::<Vec<_>>(), &mut batch)
        .expect("there are that many");
    let (one, classes) = (batch.features.clone(), batch.classes().to_vec());
    (1..4).for_each(|_| batch.features.extend_from_slice(&one));
    batch.rows *= 4;
    batch.targets = Targets::default();
    let predicted = |how: &str| {
        let task = task(RUN, &command(how), "").expect("it starts");
        let weights = task.initial_weights();
        let (mut workspace, mut outputs) = (task.model.workspace(), vec![7.0]);
        let model = &task.model;
        let width = model.predict(&weights, &batch, &mut workspace, &mut outputs);
        let width = width.expect("it predicts");
        assert_eq!(outputs.remove(0), 7.0, "outputs are appended");
        let score = Evaluator::new(task).score_all(&weights, Which::Test);
        let correct = score.expect("rows").expect("there are test rows").correct;
        (width, outputs, correct)
    };
    let (width, outputs, correct) = predicted("");
    assert_eq!((width, outputs.len()), (10, 4 * 359 * 10));
    let rows = outputs.chunks_exact(10);
    let right = rows
        .zip(&classes)
        .filter(|(row, class)| largest(row) as u32 == **class);
    assert_eq!(Some(right.count() as u64), correct);
    let (width, wide, _) = predicted("wide");
    assert_eq!(width, 20);
    for (row, twice) in outputs.chunks_exact(10).zip(wide.chunks_exact(20)) {
        assert_eq!((row, [0.5; 10].as_slice()), twice.split_at(10));
    }
}
