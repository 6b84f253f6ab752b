//! The start of a command, and its first rows: what is refused before a run begins.

use resilin_learn::rehearsal::{rehearse, rehearse_all};

use super::{RUN, command, has_python, task, well};

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

#[test]
fn what_is_printed_before_the_first_answer_is_none() {
    if !has_python() {
        return;
    }
    let chatty = task(RUN, &command("chatty"), "").expect("it starts");
    assert_eq!(chatty.data_digest(), well().data_digest());
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
