//! A command as a model, in this process: what it computes, and every way in which it fails.

mod python;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resilin_core::job::Document;
use resilin_core::{PartitionId, Step};
use resilin_foreign::models;
use resilin_learn::dataset::{Batch, Targets};
use resilin_learn::kernel::{Evaluator, Which};
use resilin_learn::math::largest;
use resilin_learn::model::{Microbatch, Model, Outcome, Sink};
use resilin_learn::reference;
use resilin_learn::registry::Registry;
use resilin_learn::rehearsal::{rehearse, rehearse_all};
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

#[test]
fn what_does_not_predict_is_named() {
    if !has_python() {
        return;
    }
    let refused = |how: &str, more: &str, rows: Batch| {
        let command = command(how);
        let task = task(RUN, &command, more).expect("it starts");
        let (mut workspace, weights) = (task.model.workspace(), task.initial_weights());
        let done = task
            .model
            .predict(&weights, &rows, &mut workspace, &mut Vec::new());
        let error = done.expect_err("no such prediction").to_string();
        let name = format!("the model command `{command}` ");
        error.strip_prefix(&name).unwrap_or(&error).to_owned()
    };
    let rows = |width: usize| Batch {
        rows: 3,
        width,
        features: vec![0.25; 3 * width],
        targets: Targets::default(),
    };
    assert_eq!(
        refused("mute", "", rows(64)),
        "gives no predictions; give it a `predict`, with the resilin_model.py of this version"
    );
    assert_eq!(
        refused("ragged", "", rows(64)),
        "failed: ValueError: 29 predicted values for 3 rows; the lines it wrote say where"
    );
    assert_eq!(
        refused("oddly", "", rows(64)),
        "predicts 0 values a row; give 1 to 1048576"
    );
    assert!(refused("", "", rows(63)).starts_with("3 rows of 63 values"));
    let numbers = "[data]\nname = \"numbers\"\nrows = 60\n";
    assert_eq!(
        refused("shaped", numbers, rows(64)),
        "has its rows itself, by number; make predictions in its own language"
    );
}

/// What fails before the first step is an error of the job that names its section.
#[test]
fn a_command_that_does_not_start_is_refused_by_name() {
    if !has_python() {
        return;
    }
    let of = |how: &str, why: &str| {
        let command = command(how);
        let error = format!("job file line 5, [model]: the model command `{command}` {why}");
        (command, error)
    };
    let cases = [
        (
            "resilin-no-such-program x".to_owned(),
            "job file line 5, [model]: the model command `resilin-no-such-program x` cannot be \
             started: No such file or directory (os error 2); install it, or correct [model] \
             command"
                .to_owned(),
        ),
        (
            "\"python3".to_owned(),
            "job file line 6, [model] command: a quote \" is not closed; close it".to_owned(),
        ),
        of(
            "unstarted",
            "ended (exit status: 1) at its start: no such library; the lines it wrote say where",
        ),
        of(
            "twins",
            "names two tensors \"weight\"; give each its own name",
        ),
        of(
            "born-nan",
            "gives initial weights that are not finite; initialise them otherwise",
        ),
        of(
            "terse",
            "gave an answer that cannot be read: missing field `tensors`; docs/foreign-models.md \
             has its keys",
        ),
        of(
            "old",
            "speaks protocol 0, and this program 1; use the resilin_model.py of this version",
        ),
    ];
    for (command, error) in cases {
        assert_eq!(task(RUN, &command, "").map(drop), Err(error));
    }
}

/// What fails later is an error of the evaluation, at the step where it happens.
#[test]
fn a_command_that_fails_in_a_run_is_named() {
    if !has_python() {
        return;
    }
    let hand = "leave its standard output to resilin_model.py, and print after it is imported or \
                to standard error";
    for (how, more, why) in [
        (
            "crash 2",
            "",
            "ended (exit status: 7) in the middle: about to fall; the lines it wrote say where",
        ),
        (
            "hang 2",
            "deadline = 5\n",
            "has not answered for 5 s; mend it, or raise [model] deadline",
        ),
        (
            "garbage 2",
            "",
            &format!("wrote what is no answer: loss: 0.5; {hand}"),
        ),
        (
            "wrong 2",
            "",
            "wrote 3 values where its tensors have 650; write one for each",
        ),
        (
            "miscount 2",
            "",
            "evaluated 7 rows of 6; evaluate each row once",
        ),
        (
            "other 2",
            "",
            "gave an answer to another question; leave its standard input and output to \
             resilin_model.py",
        ),
        (
            "closes 2",
            "",
            "closed its standard output and went on; leave it to resilin_model.py",
        ),
        (
            "raise 2",
            "",
            "failed: KeyError: 'x'; the lines it wrote say where",
        ),
        (
            "short",
            "",
            "failed: ValueError: 9 values for a tensor of 10; the lines it wrote say where",
        ),
    ] {
        let command = command(how);
        let task = task(RUN, &command, more).expect("it starts");
        let failed = reference::run(&task, |_| {}).expect_err("it fails");
        assert_eq!(
            failed.to_string(),
            format!("the model command `{command}` {why}")
        );
    }
}

#[test]
fn what_is_printed_before_the_first_answer_is_none() {
    if !has_python() {
        return;
    }
    let chatty = task(RUN, &command("chatty"), "").expect("it starts");
    assert_eq!(chatty.data_digest(), well().data_digest());
}

/// A command's own children end with it, also where it has ended by itself.
#[test]
fn what_a_command_leaves_behind_is_ended() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let file = folder.path().join("left");
    let task = task(RUN, &command(&format!("leaves {} 2", file.display())), "");
    let failed = reference::run(&task.expect("it starts"), |_| {}).expect_err("it fails");
    assert!(failed.to_string().contains("exit status: 7"), "{failed}");
    let left = std::fs::read_to_string(file).expect("it was started");
    let stat = PathBuf::from(format!("/proc/{left}/stat"));
    let deadline = Instant::now() + Duration::from_secs(10);
    // Whoever waits for it then may take a while; its name has no blanks.
    while std::fs::read_to_string(&stat).is_ok_and(|stat| stat.split(' ').nth(2) != Some("Z")) {
        assert!(Instant::now() < deadline, "process {left} is left");
        std::thread::yield_now();
    }
}

#[test]
fn a_gradient_that_is_not_finite_is_the_policys() {
    if !has_python() {
        return;
    }
    let run = |policy: &str| {
        let run = format!("{RUN}non_finite = \"{policy}\"\n");
        let task = task(&run, &command("nan 4"), "").expect("it starts");
        let trained = reference::run(&task, |_| {});
        trained
            .map(|trained| trained.samples)
            .map_err(|error| error.to_string())
    };
    assert_eq!(run("skip"), Ok(4 * 24));
    let halted = run("halt").expect_err("it halts");
    assert!(
        halted.starts_with("step 4: the gradient of partition 0 is not finite"),
        "{halted}"
    );
}

#[test]
fn results_that_vary_are_refused_unless_bits_are_off() {
    if !has_python() {
        return;
    }
    rehearse(&well()).expect("it repeats itself");
    let command = command("flaky");
    let flaky = task(RUN, &command, "").expect("it starts");
    let refused = rehearse(&flaky).expect_err("it varies").to_string();
    assert_eq!(
        refused,
        format!(
            "the model command \"{command}\" gives two results for the same microbatch, so that no \
             weights would come out again; make it repeat itself, or set [run] bits = \"off\", \
             which keeps exactly-once and recovery and promises no bits"
        )
    );
    let off = task(&format!("{RUN}bits = \"off\"\n"), &command, "").expect("it starts");
    rehearse(&off).expect("no bits are promised");
}

/// What a command does wrong on the first rows is found before anybody is started for them.
#[test]
fn what_is_wrong_from_the_beginning_is_found_in_the_rehearsal() {
    if !has_python() {
        return;
    }
    for (how, why) in [
        (
            "wrong 0",
            "wrote 3 values where its tensors have 650; write one for each",
        ),
        (
            "raise 0",
            "failed: KeyError: 'x'; the lines it wrote say where",
        ),
        (
            "overcount",
            "says that 257 of 256 rows are right; count each row once",
        ),
    ] {
        let command = command(how);
        let task = task(RUN, &command, "").expect("it starts");
        let error = rehearse_all(&task).expect_err("it fails").to_string();
        assert_eq!(error, format!("the model command `{command}` {why}"));
    }
    rehearse_all(&well()).expect("nothing is wrong");
}

/// A kill says nothing of a command, and one at its start would have its process refused.
#[test]
fn a_command_that_is_killed_at_its_start_is_started_again() {
    if !has_python() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary directory");
    let started = |kills: u32| {
        let file = folder.path().join(kills.to_string());
        let command = command(&format!("killed {} {kills}", file.display()));
        let done = task(RUN, &command, "").map(drop);
        let starts = std::fs::read(file).expect("it counts").len();
        (done, starts)
    };
    assert_eq!(started(2), (Ok(()), 3));
    let (refused, starts) = started(100);
    let why = refused.expect_err("it never starts");
    assert!(
        why.contains("ended (signal: 9 (SIGKILL)) at its start"),
        "{why}"
    );
    assert_eq!(starts, 3);
}
