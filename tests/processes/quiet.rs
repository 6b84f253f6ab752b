//! A run without any failure: its bits, its report, and what it prints.

use crate::scene::{JOB, Scene, assert_code, assert_success, stderr, stdout};

#[test]
fn a_quiet_run_has_the_bits_of_the_reference_at_every_step() {
    let scene = Scene::new(JOB);
    let (chain, reference) = scene.reference();
    let output = scene.run(&[
        "train",
        "job.toml",
        "--workers",
        "3",
        "--hash-chain",
        "train.chain",
        "--report",
        "train.json",
    ]);
    assert_success(&output);
    scene.assert_empty();

    let lines: Vec<&str> = chain.lines().collect();
    assert_eq!(lines.len(), 301);
    assert!(lines[0].starts_with("0 ") && lines[300].starts_with("300 "));
    assert_eq!(scene.read("train.chain"), chain);

    let report = scene.report("train.json");
    assert_eq!(report.weights_sha256, reference.weights_sha256);
    assert_eq!(report.test_accuracy, reference.test_accuracy);
    assert_eq!(report.train_loss, reference.train_loss);
    assert_eq!(
        (
            report.job,
            report.run_id,
            report.seed,
            report.outcome,
            report.steps,
            report.samples
        ),
        (
            "scene".into(),
            reference.run_id,
            1,
            "finished".into(),
            300,
            reference.samples
        )
    );
    assert_eq!((report.workers_joined, report.workers_lost), (3, 0));
    assert_eq!(report.resumed_from_step, None);

    let shown = stdout(&output);
    let hash = report.weights_sha256.expect("the run is finished");
    assert!(
        shown.contains(&format!("weights sha256  {hash}\n")),
        "{shown}"
    );
    assert!(shown.contains("test accuracy"), "{shown}");
    let checkpoint = report.checkpoint.expect("the run is finished");
    assert!(shown.contains(&checkpoint.display().to_string()), "{shown}");
    assert!(
        scene
            .path("")
            .join(checkpoint)
            .join("manifest.json")
            .is_file()
    );
}

#[test]
fn a_finished_run_says_so_and_a_fresh_one_starts_over() {
    let scene = Scene::new(&JOB.replace("steps = 300", "steps = 20"));
    let train = |more: &[&str]| {
        let arguments = [&["train", "job.toml", "--report", "r.json"], more].concat();
        let output = scene.run(&arguments);
        assert_success(&output);
        (stdout(&output), scene.report("r.json"))
    };
    let (_, first) = train(&[]);
    let (shown, again) = train(&[]);
    assert!(shown.starts_with("the run is finished"), "{shown}");
    assert_eq!(again, first);
    let (shown, fresh) = train(&["--fresh"]);
    assert!(!shown.contains("the run is finished"), "{shown}");
    assert_eq!(fresh.weights_sha256, first.weights_sha256);
    scene.assert_empty();
}

#[test]
fn json_is_all_that_stands_on_standard_output() {
    let scene = Scene::new(&JOB.replace("steps = 300", "steps = 20"));
    let output = scene.run(&["train", "job.toml", "--json"]);
    assert_success(&output);
    let events: Vec<serde_json::Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect();
    let last = events.last().expect("a report");
    assert_eq!(
        (&last["event"], &last["steps"]),
        (&"report".into(), &20.into())
    );
    assert!(events.iter().all(|event| event["event"].is_string()));
}

#[test]
fn checkpoints_are_listed_and_damage_is_named() {
    let scene = Scene::new(&JOB.replace("steps = 300", "steps = 20"));
    assert_success(&scene.run(&["train", "job.toml", "--report", "r.json"]));
    let listed = scene.run(&["checkpoints", "ls", "--json"]);
    assert_success(&listed);
    let line: serde_json::Value = serde_json::from_str(&stdout(&listed)).expect("one checkpoint");
    assert_eq!(
        (&line["step"], &line["finished"]),
        (&20.into(), &true.into())
    );
    assert_success(&scene.run(&["checkpoints", "verify"]));

    let dir = scene
        .path("")
        .join(scene.report("r.json").checkpoint.expect("finished"));
    let file = std::fs::read_dir(dir)
        .expect("a checkpoint")
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|ext| ext == "safetensors"))
        .expect("a tensor file");
    let mut bytes = std::fs::read(&file).expect("a file");
    *bytes.last_mut().expect("bytes") ^= 1;
    std::fs::write(&file, bytes).expect("writable");
    let verified = scene.run(&["checkpoints", "verify"]);
    assert_code(verified.status, 4, &verified);
    assert!(stderr(&verified).starts_with("error: 1 of 1 checkpoints"));
}

#[test]
fn the_printed_job_is_a_job_file_of_the_same_run() {
    let scene = Scene::new(JOB);
    let printed = scene.run(&["train", "job.toml", "--seed", "7", "--print-job"]);
    assert_success(&printed);
    scene.write("printed.toml", stdout(&printed));
    let again = scene.run(&["train", "printed.toml", "--print-job"]);
    assert_eq!(stdout(&again), stdout(&printed));
    assert!(stdout(&printed).contains("\nseed = 7\n"));
}

#[test]
fn another_job_of_a_known_name_is_another_run_and_says_why() {
    let scene = Scene::new(&JOB.replace("steps = 300", "steps = 20"));
    assert_success(&scene.run(&["train", "job.toml", "--report", "first.json"]));
    let output = scene.run(&[
        "train",
        "job.toml",
        "--seed",
        "2",
        "--report",
        "second.json",
    ]);
    assert_success(&output);
    let said = stderr(&output);
    assert!(said.contains("run.seed is 2 here, 1 there"), "{said}");
    let [first, second] = ["first.json", "second.json"].map(|name| scene.report(name));
    assert_ne!(first.run_id, second.run_id);
    assert_ne!(first.weights_sha256, second.weights_sha256);
    let listed = scene.run(&["checkpoints", "ls"]);
    assert_eq!(stdout(&listed).lines().count(), 2);
}
