//! What goes wrong with a command that has started: each is named, and ends what it left behind.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use resilin_learn::dataset::{Batch, Targets};
use resilin_learn::reference;

use super::{RUN, command, has_python, task};

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
