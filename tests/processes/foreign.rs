//! Models in another language: a command beside each worker, which is killed with it, fails with it,
//! and never outlives it.

use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use crate::python::has_python;
use crate::scene::{Scene, assert_code, assert_success, signal, stderr, stdout};

/// The command that these tests train; what goes wrong is its argument.
const MODEL: &str = concat!(
    "python3 ",
    env!("CARGO_MANIFEST_DIR"),
    "/foreign/tests/model.py"
);

/// A short run of that command.
fn job(how: &str, run: &str) -> String {
    format!(
        "[run]\nname = \"foreign\"\nsteps = 60\nbatch = 24\npartitions = 6\n{run}\n\
         [cluster]\nworkers = 2\n[checkpoint]\nevery_steps = 20\n\
         [failure]\nrestarts = 1\ndrain_grace = 5\n[model]\ncommand = \"{MODEL} {how}\"\n"
    )
}

#[test]
fn a_kill_in_the_middle_changes_no_bit_of_a_command() {
    if !has_python() {
        return;
    }
    let scene = Scene::new(&job("well", "evaluate_every = 1"));
    let (chain, reference) = scene.reference();
    scene.assert_empty();
    let train = |name: &str, kills: bool| {
        let (file, report) = (format!("{name}.chain"), format!("{name}.json"));
        let running = scene.start(&[
            "train",
            "job.toml",
            "--fresh",
            "--hash-chain",
            &file,
            "--report",
            &report,
        ]);
        if kills {
            scene.until_step(10);
            let workers = scene.until_workers(2);
            signal(workers[0], Signal::KILL);
            scene.until("the loss is noticed", |status| status.job.lost == 1);
        }
        assert_success(&running.output());
        scene.assert_empty();
        assert_eq!(scene.read(&file), chain, "{name}");
        scene.report(&report)
    };
    for (name, kills) in [("quiet", false), ("killed", true)] {
        let report = train(name, kills);
        assert_eq!(report.weights_sha256, reference.weights_sha256, "{name}");
        assert_eq!(report.test_accuracy, reference.test_accuracy, "{name}");
        assert_eq!(report.workers_lost, u64::from(kills), "{name}");
    }
    assert!(reference.test_accuracy > Some(0.7), "{reference:?}");
    let checkpoint = scene.report("killed.json").checkpoint;
    let checkpoint = scene
        .path("")
        .join(checkpoint.expect("a run that ended has one"));
    assert_eq!(
        python_sha256(&checkpoint),
        reference.weights_sha256.unwrap_or_default()
    );
    let replay = scene.run(&["replay", "job.toml", "--step", "30"]);
    assert_success(&replay);
    assert!(stdout(&replay).contains("all equal"), "{}", stdout(&replay));
    scene.assert_empty();
}

/// SHA-256 of the weights as `resilin_model.py` reads them from a checkpoint.
fn python_sha256(checkpoint: &Path) -> String {
    let code = "import hashlib, resilin_model, sys\n\
                tensors = resilin_model.weights(sys.argv[1])\n\
                assert [(n, t[0]) for n, t in tensors.items()] == \
                [('weight', [64, 10]), ('bias', [10])]\n\
                flat = b''.join(bytes(values) for _, values in tensors.values())\n\
                print(hashlib.sha256(flat).hexdigest())";
    let output = Command::new("python3")
        .args(["-B", "-c", code])
        .arg(checkpoint)
        .env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/python"))
        .output()
        .expect("python3 is in the path");
    assert_success(&output);
    stdout(&output).trim().into()
}

#[test]
fn a_command_in_an_endless_loop_ends_with_its_killed_worker() {
    if !has_python() {
        return;
    }
    let scene = Scene::new(&job("hang 3", ""));
    let train = scene.start(&["train", "job.toml"]);
    scene.until_step(3);
    let workers = scene.until_workers(2);
    // One command a worker, which computes and does not look at its input.
    scene.until_processes("hang", 2);
    train.signal(Signal::KILL);
    for worker in workers {
        signal(worker, Signal::KILL);
    }
    scene.assert_empty();
}

#[test]
fn a_command_that_crashes_again_and_again_ends_the_run_by_name() {
    if !has_python() {
        return;
    }
    let scene = Scene::new(&job("crash 5", ""));
    let output = scene.run(&["train", "job.toml"]);
    assert_code(output.status, 1, &output);
    let shown = stderr(&output);
    let cause = format!(
        "the model command `{MODEL} crash 5` ended (exit status: 7) in the middle: about to fall; \
         the lines it wrote say where"
    );
    let last = shown.lines().last().expect("it says why");
    assert!(
        last.starts_with("error: the restart budget is used up") && last.contains(&cause),
        "{shown}"
    );
    scene.assert_empty();
}

#[test]
fn a_command_that_cannot_start_is_refused_before_anything_else() {
    let scene = Scene::new(&job("well", "").replace("python3 ", "no-such-python "));
    let output = scene.run(&["train", "job.toml"]);
    assert_code(output.status, 2, &output);
    let shown = stderr(&output);
    let last = shown.lines().last().expect("it says why");
    assert!(
        last.contains("[model]: the model command `no-such-python ")
            && last.ends_with(
                "cannot be started: No such file or directory (os error 2); install it, or correct \
                 [model] command"
            ),
        "{shown}"
    );
    scene.assert_empty();
}

/// Nothing is begun with a model that fails on the first rows, and the old run stays as it is.
#[test]
fn a_command_that_is_wrong_from_the_beginning_is_refused_before_workers_start() {
    if !has_python() {
        return;
    }
    let scene = Scene::new(&job("wrong 0", ""));
    let error = format!(
        "error: the model command `{MODEL} wrong 0` wrote 3 values where its tensors have 650; \
         write one for each\n"
    );
    for arguments in [
        ["train", "job.toml"].as_slice(),
        &["train", "job.toml", "--fresh"],
        &["reference", "job.toml"],
    ] {
        let output = scene.run(arguments);
        assert_code(output.status, 2, &output);
        assert_eq!(stderr(&output), error, "{arguments:?}");
    }
    scene.assert_empty();
}

#[test]
fn results_that_vary_are_refused_and_bits_off_says_what_holds() {
    if !has_python() {
        return;
    }
    let scene = Scene::new(&job("flaky", ""));
    let output = scene.run(&["train", "job.toml"]);
    assert_code(output.status, 3, &output);
    let shown = stderr(&output);
    for words in [
        "flaky\" gives two results for the same microbatch",
        "set [run] bits = \"off\"",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
    scene.assert_empty();

    scene.write("job.toml", job("flaky", "bits = \"off\""));
    let output = scene.run(&["train", "job.toml", "--report", "off.json"]);
    assert_success(&output);
    let shown = stdout(&output);
    let promise = "bits            off: every sample was counted exactly once and losses were \
                   recovered from; that these weights come out again is not promised\n";
    assert!(shown.contains(promise), "{shown}");
    assert!(scene.read("off.json").contains("\"bits\": \"off\""));
    // 60 steps are one pass.
    assert_eq!(scene.report("off.json").samples, 1438);
    scene.assert_empty();
}

/// Everything that is said of a job is said of one whose model is a command, too.
#[test]
fn chaos_and_bench_know_a_command() {
    if !has_python() {
        return;
    }
    let scene = Scene::new(&job("well", ""));
    let plan = "seed = 3\nduration_ms = 4000\n\
                [[fault]]\nat_ms = 1\nkind = \"kill\"\ntarget = \"worker\"\n";
    scene.write("plan.toml", plan);
    let chaos = scene.run(&["chaos", "job.toml", "--plan", "plan.toml", "--json"]);
    assert_success(&chaos);
    let verdict: serde_json::Value = serde_json::from_str(&stdout(&chaos)).expect("one object");
    let (_, reference) = scene.reference();
    let hash = reference.weights_sha256.expect("finished");
    assert_eq!(verdict["equal"], true, "{verdict}");
    assert_eq!(verdict["weights_sha256"], *hash, "{verdict}");
    assert_eq!(
        (&verdict["kills"], &verdict["missed"]),
        (&1.into(), &0.into())
    );
    let bench =
        |steps: &str| scene.run(&["bench", "model", "job.toml", "--json", "--steps", steps]);
    let measured = bench("10");
    assert_success(&measured);
    let figures: serde_json::Value = serde_json::from_str(&stdout(&measured)).expect("one object");
    assert_eq!(
        (
            &figures["values"],
            &figures["batch"],
            &figures["partitions"]
        ),
        (&650.into(), &24.into(), &6.into()),
        "{figures}"
    );
    assert!(figures["samples_per_s"].as_f64() > Some(0.0), "{figures}");
    let long = bench("100");
    assert_code(long.status, 2, &long);
    assert_eq!(
        stderr(&long),
        "error: the job has 60 steps, and 120 are to be made; give it more, or say --steps\n"
    );
    scene.assert_empty();
}
