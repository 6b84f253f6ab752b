//! Runs that are stopped and taken up again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::scene::{JOB, Scene, assert_code, assert_success, signal, stderr, stdout};

/// Bounds a wait that would otherwise have no end.
const PATIENCE: Duration = Duration::from_secs(60);

const RESULTS: [&str; 4] = ["--hash-chain", "train.chain", "--report", "train.json"];

#[test]
fn a_stopped_run_goes_on_with_other_workers_to_the_same_bits() {
    let scene = Scene::new(JOB);
    let (chain, reference) = scene.reference();
    let mut stopped_at = 0;
    let stops = [
        (20, "1", Signal::INT),
        (100, "3", Signal::TERM),
        (200, "2", Signal::INT),
    ];
    for (step, workers, how) in stops {
        let train =
            scene.start(&[&["train", "job.toml", "--workers", workers], &RESULTS[..]].concat());
        scene.until_step(step);
        train.signal(how);
        let output = train.output();
        assert_code(output.status, 6, &output);
        scene.assert_empty();
        let report = scene.report("train.json");
        assert_eq!(report.outcome, "stopped");
        assert_eq!(report.resumed_from_step.unwrap_or(0), stopped_at);
        assert!((step..300).contains(&report.steps), "{report:?}");
        stopped_at = report.steps;
        let said = format!("stopped at step {stopped_at}, which is durable");
        assert!(stderr(&output).contains(&said), "{}", stderr(&output));
        // The chain of a part is the beginning of the whole.
        let part = scene.read("train.chain");
        assert_eq!(part.lines().count() as u64, stopped_at + 1);
        assert!(chain.starts_with(&part), "differs before step {stopped_at}");
    }
    let output = scene.run(&[&["train", "job.toml", "--workers", "5"], &RESULTS[..]].concat());
    assert_success(&output);
    scene.assert_empty();
    let shown = stdout(&output);
    assert!(
        shown.contains(&format!("going on from step {stopped_at}")),
        "{shown}"
    );
    assert_eq!(scene.read("train.chain"), chain);
    let report = scene.report("train.json");
    assert_eq!(report.weights_sha256, reference.weights_sha256);
    assert_eq!(report.samples, reference.samples);
}

#[test]
fn the_command_stop_does_the_same() {
    let scene = Scene::new(JOB);
    let train = scene.start(&["train", "job.toml"]);
    scene.until_step(5);
    assert_success(&scene.run(&["stop"]));
    let output = train.output();
    assert_code(output.status, 6, &output);
    scene.assert_empty();
}

#[test]
fn a_stop_is_the_next_coordinators_when_the_one_that_was_told_is_killed() {
    let hosted = JOB.replace("[cluster]\n", "[cluster]\nshard_processes = 2\n");
    for job in [JOB, &hosted] {
        let scene = Scene::new(job);
        let (chain, _) = scene.reference();
        let train = scene.start(&[&["train", "job.toml"], &RESULTS[..]].concat());
        scene.until_step(40);
        for coordinator in scene.processes("coordinator") {
            signal(coordinator, Signal::KILL);
        }
        train.signal(Signal::TERM);
        let output = train.output();
        assert_code(output.status, 6, &output);
        scene.assert_empty();
        assert_eq!(scene.report("train.json").outcome, "stopped");
        assert!(chain.starts_with(&scene.read("train.chain")));
        let again = scene.run(&[&["train", "job.toml"], &RESULTS[..]].concat());
        assert_success(&again);
        assert_eq!(scene.read("train.chain"), chain);
        let alarm = stderr(&again);
        assert!(
            !alarm.contains("lost"),
            "nothing is lost by a stop: {alarm}"
        );
    }
}

#[test]
fn the_last_number_of_workers_asked_for_is_the_next_coordinators() {
    let scene = Scene::new(&JOB.replace("steps = 300", "steps = 30000"));
    let train = scene.start(&["train", "job.toml", "--workers", "3"]);
    scene.until_workers(3);
    for wanted in [1, 2] {
        assert_success(&scene.run(&["scale", &wanted.to_string()]));
        scene.until("as many work", |status| {
            status.job.wanted == wanted && status.job.workers.len() == wanted as usize
        });
    }
    assert_success(&scene.run(&["scale", "4"]));
    let before = scene.processes("coordinator");
    before.iter().for_each(|pid| signal(*pid, Signal::KILL));
    scene.until("the next coordinator has four workers", |status| {
        status.job.wanted == 4 && status.job.workers.len() == 4
    });
    assert_ne!(scene.processes("coordinator"), before);
    train.signal(Signal::INT);
    let output = train.output();
    assert_code(output.status, 6, &output);
    scene.assert_empty();
}

#[test]
fn a_second_signal_ends_at_once() {
    let scene = Scene::new(JOB);
    let train = scene.start(&["train", "job.toml", "--workers", "0"]);
    scene.until("it waits for workers", |status| {
        let waiting = status.job.waiting.as_ref();
        waiting.is_some_and(|who| who.starts_with("workers: none is wanted"))
    });
    train.signal(Signal::INT);
    train.signal(Signal::TERM);
    let output = train.output();
    assert_code(output.status, 1, &output);
    assert_eq!(
        stderr(&output),
        "error: ended by a second signal; the same command line goes on\n"
    );
    scene.assert_empty();
}

/// What a run's directory has in it.
fn entries(directory: &Path) -> BTreeSet<PathBuf> {
    let entries = std::fs::read_dir(directory).expect("the run's directory");
    entries
        .map(|entry| entry.expect("readable").path())
        .collect()
}

/// Big enough that its last checkpoint is still being written when the end comes.
const BIG: &str = r#"
[run]
name = "big"
steps = 10
batch = 12
partitions = 4
evaluate_every = 10

[cluster]
shards = 2

[checkpoint]
every_steps = 2

[model]
name = "mlp"
hidden = [900, 900]

[optimizer]
name = "adam"
learning_rate = 0.001
"#;

#[test]
fn an_end_in_the_middle_of_the_last_checkpoint_leaves_those_before_whole() {
    let scene = Scene::new(BIG);
    let (chain, _) = scene.reference();
    let mut durable = 0;
    for end in [Signal::TERM, Signal::KILL] {
        let train = scene.start(&["train", "job.toml", "--workers", "1"]);
        let status = scene.until("a checkpoint is durable", |status| {
            status.job.durable_step.is_some_and(|step| step.0 > durable)
        });
        durable = status.job.durable_step.expect("just seen").0;
        let run = scene.path("").join(&status.location.directory);
        let before = entries(&run);
        train.signal(Signal::TERM);
        let deadline = Instant::now() + PATIENCE;
        while entries(&run).is_subset(&before) {
            assert!(Instant::now() < deadline, "no checkpoint begins");
            std::thread::yield_now();
        }
        train.signal(end);
        train.output();
        scene.assert_empty();
        let verified = scene.run(&["checkpoints", "verify", "--json"]);
        assert_success(&verified);
        let newest = stdout(&verified)
            .lines()
            .map(|line| serde_json::from_str::<serde_json::Value>(line).expect("one object"))
            .filter_map(|line| line["step"].as_u64())
            .max();
        assert!(newest >= Some(durable), "{newest:?}, not {durable}");
    }
    let again = scene.run(&[&["train", "job.toml", "--workers", "2"], &RESULTS[..]].concat());
    assert_success(&again);
    assert_eq!(scene.read("train.chain"), chain);
}
