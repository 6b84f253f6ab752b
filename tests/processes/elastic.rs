//! Workers that come and go in peace, by the commands of an operator.

use resilin_actors::coordinator::{Location, RunStatus};
use rustix::process::Signal;

use crate::scene::{JOB, Scene, active, assert_code, assert_success, signal, stderr, stdout};

#[test]
fn joins_and_drains_change_no_bit() {
    let scene = Scene::new(JOB);
    let (chain, _) = scene.reference();
    let train = scene.start(&[
        "train",
        "job.toml",
        "--workers",
        "1",
        "--hash-chain",
        "train.chain",
        "--report",
        "train.json",
    ]);
    scene.until_step(10);

    // A stranger joins by the address alone, and drains at SIGTERM.
    let location = Location::read(&scene.path("resilin-runs")).expect("readable");
    let join = location.expect("a coordinator runs").join;
    let stranger = scene.start(&["worker", "--join", &join]);
    let status = scene.until("the stranger computes", |status| active(status, 2));
    let names = status.job.workers.iter().map(|worker| &worker.name);
    let process = format!(":{}", stranger.pid());
    let named = names.filter(|name| name.ends_with(&process)).count();
    assert_eq!(named, 1, "{:?}", status.job.workers);

    assert_success(&scene.run(&["scale", "3"]));
    scene.until("four workers compute", |status| active(status, 4));
    stranger.signal(Signal::TERM);
    let left = stranger.output();
    assert_success(&left);

    let status = scene.until("three workers compute", |status| active(status, 3));
    let number = status.job.workers[0].incarnation.to_string();
    assert_success(&scene.run(&["drain", &number]));
    scene.until("the drained worker left", |status| {
        status
            .job
            .workers
            .iter()
            .all(|worker| worker.incarnation.to_string() != number)
    });
    let shown = scene.run(&["status"]);
    assert_success(&shown);
    assert!(
        stdout(&shown).contains("run         scene ("),
        "{}",
        stdout(&shown)
    );

    assert_success(&train.output());
    scene.assert_empty();
    assert_eq!(scene.read("train.chain"), chain);
    let report = scene.report("train.json");
    assert_eq!(report.workers_lost, 0, "{report:?}");
    assert!(report.workers_drained >= 2, "{report:?}");
}

#[test]
fn all_workers_leave_and_others_come() {
    let scene = Scene::new(JOB);
    let (chain, _) = scene.reference();
    let train = scene.start(&["train", "job.toml", "--hash-chain", "train.chain"]);
    // Whoever leaves by a signal is still wanted.
    let first = scene.until("two workers compute", |status| active(status, 2));
    for pid in scene.processes("worker") {
        signal(pid, Signal::TERM);
    }
    let newer = |status: &RunStatus| {
        let oldest = status.job.workers.first().map(|worker| worker.incarnation);
        active(status, 2) && oldest > first.job.workers.last().map(|worker| worker.incarnation)
    };
    let second = scene.until("two others compute", newer);

    // Whoever is drained is not, until more are asked for.
    for worker in &second.job.workers {
        assert_success(&scene.run(&["drain", &worker.incarnation.to_string()]));
    }
    let paused = scene.until("nobody is left", |status| status.job.workers.is_empty());
    assert_eq!(paused.job.wanted, 0, "{paused:?}");
    assert!(
        stdout(&scene.run(&["status"])).contains("resilin scale N"),
        "{paused:?}"
    );
    let output = scene.run(&["scale", "5000"]);
    assert_code(output.status, 2, &output);
    assert!(stderr(&output).contains("max_workers 1024"), "{output:?}");
    assert_success(&scene.run(&["scale", "2"]));

    assert_success(&train.output());
    scene.assert_empty();
    assert_eq!(scene.read("train.chain"), chain);
}

#[test]
fn nobody_reads_what_is_printed() {
    let scene = Scene::new(JOB);
    let full = || std::fs::File::options().write(true).open("/dev/full");
    for arguments in [
        &["train", "job.toml", "--print-job"][..],
        &["reference", "job.toml"],
    ] {
        let mut command = scene.command(arguments);
        let output = command.stdout(full().expect("/dev/full")).output();
        let output = output.expect("it starts");
        assert_code(output.status, 1, &output);
        let said = stderr(&output);
        assert!(said.starts_with("error: cannot write to"), "{said:?}");
        assert_eq!(said.lines().count(), 1, "{said:?}");
    }
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut train = scene.command(&["train", "job.toml"]);
    let output = train.stdout(writer).output().expect("it starts");
    assert_code(output.status, 0, &output);
    assert_eq!(stderr(&output), "");
    scene.assert_empty();
}

#[test]
fn commands_without_a_coordinator_say_what_to_do() {
    let scene = Scene::new(JOB);
    for arguments in [&["status"][..], &["scale", "2"], &["drain", "1"], &["stop"]] {
        let output = scene.run(arguments);
        assert_code(output.status, 1, &output);
        assert_eq!(
            stderr(&output),
            "error: no coordinator runs in resilin-runs; start one with `resilin train`, or name it \
             with --state or --api\n"
        );
    }
}
