//! What a person can get wrong: one clear line that names the thing and the remedy, the documented
//! exit code, and nothing left behind.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Output;

use resilin_actors::coordinator::Location;
use rustix::process::Signal;

use crate::scene::{JOB, Scene, assert_code, stderr};

/// One line on standard error with all these parts.
#[track_caller]
fn assert_refused(scene: &Scene, output: &Output, code: i32, parts: &[&str]) {
    assert_code(output.status, code, output);
    let said = stderr(output);
    assert!(
        said.starts_with("error: ") && said.ends_with('\n'),
        "{said:?}"
    );
    assert_eq!(said.lines().count(), 1, "{said:?}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in {said:?}");
    }
    scene.assert_empty();
}

/// `train` and `reference` refuse the job alike, and leave no run.
#[track_caller]
fn refused(job: &str, files: &[(&str, &[u8])], code: i32, parts: &[&str]) {
    for command in ["train", "reference"] {
        let scene = Scene::new(job);
        for (name, contents) in files {
            scene.write(name, contents);
        }
        assert_refused(&scene, &scene.run(&[command, "job.toml"]), code, parts);
    }
}

#[test]
fn job_files() {
    refused(
        "[run]\nbach = 96\n",
        &[],
        2,
        &["line 2", "[run] bach", "did you mean batch?"],
    );
    refused(
        "[run]\nbatch = \"96\"\n",
        &[],
        2,
        &["line 2", "[run] batch", "an integer"],
    );
    refused(
        "[run]\nbatch = 96\npartitions = 7\n",
        &[],
        2,
        &["line 3", "partitions", "6 or 8"],
    );
    refused("[run]\nbatch = 0\n", &[], 2, &["line 2", "batch", "1 to"]);
    refused(
        "[modle]\n",
        &[],
        2,
        &["line 1", "[modle]", "did you mean [model]?"],
    );
    refused("[model]\nname = \"mpl\"\n", &[], 2, &["line 2", "mlp"]);
    refused(
        "[cluster]\nreplicas = 1\n",
        &[],
        2,
        &["line 2", "replicas", "shard_processes"],
    );
    refused("batch = 96", &[], 2, &["line 1", "batch", "[section]"]);
    refused("[run\n", &[], 2, &["line 1", "not valid TOML"]);
}

#[test]
fn command_lines() {
    let scene = Scene::new(JOB);
    scene.write("long", "x".repeat(5000));
    scene.write("bell", "open\u{7}sesame");
    let cases: [(&[&str], &str); 13] = [
        (&[], "--help"),
        (&["train", "--workes", "2"], "--workers"),
        (
            &["train", "nowhere.toml"],
            "nowhere.toml: there is no such file",
        ),
        (
            &["train", "job.toml", "--report", "no/where.json"],
            "no/where.json",
        ),
        (&["worker"], "--join"),
        (&["worker", "--join", "foo"], "HOST:PORT"),
        (&["worker", "--join", "localhost:70000"], "HOST:PORT"),
        (
            &["worker", "--join", "127.0.0.1:1", "--cpus", "900"],
            "name CPUs that this process may use",
        ),
        (&["train", "job.toml", "--token-file", "long"], "4096"),
        (&["train", "job.toml", "--token-file", "bell"], "printable"),
        (
            &["coordinator", "job.toml", "--token-file", "/dev/zero"],
            "not a regular file",
        ),
        (
            &["status", "--api", "127.0.0.1:1", "--token-file", "."],
            "regular",
        ),
        (&["train", "/dev/zero"], "not a regular file"),
    ];
    for (arguments, part) in cases {
        assert_refused(&scene, &scene.run(arguments), 2, &[part]);
    }
}

const CSV: &str = "[data]\nname = \"csv\"\npath = \"rows.csv\"\n";

#[test]
fn csv_files() {
    refused(CSV, &[], 2, &["line 3", "[data] path", "rows.csv"]);
    refused(CSV, &[("rows.csv", b"")], 2, &["rows.csv"]);
    refused(
        CSV,
        &[("rows.csv", b"1,2,0\n3,NaN,1\n5,6,1\n")],
        2,
        &["rows.csv", "NaN"],
    );
    refused(
        CSV,
        &[("rows.csv", b"1,2,0\n3,1\n")],
        2,
        &["rows.csv", "line 2"],
    );
    let classes = format!("{CSV}classes = 2\n");
    refused(
        &classes,
        &[("rows.csv", b"1,2,0\n3,4,5\n")],
        2,
        &["rows.csv", "5"],
    );
}

#[test]
fn idx_files_of_the_wrong_size() {
    let job = "[data]\nname = \"idx\"\ntrain_images = \"images\"\ntrain_labels = \"labels\"\n";
    let images: &[u8] = &[0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 3];
    let labels: &[u8] = &[0, 0, 8, 1, 0, 0, 0, 2, 0, 1];
    refused(
        job,
        &[("images", images), ("labels", labels)],
        2,
        &["images", "4 bytes", "cut short"],
    );
}

#[test]
fn a_port_in_use() {
    let scene = Scene::new(JOB);
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    for option in ["--listen", "--api"] {
        for command in ["train", "coordinator"] {
            let output = scene.run(&[command, "job.toml", option, &address]);
            assert_refused(&scene, &output, 1, &[&address, "another"]);
        }
    }
}

#[test]
fn another_host_needs_a_token() {
    let scene = Scene::new(JOB);
    let output = scene.run(&["train", "job.toml", "--listen", "0.0.0.0:0"]);
    assert_refused(&scene, &output, 2, &["0.0.0.0:0", "token"]);
}

#[test]
fn a_state_directory_that_cannot_be_one() {
    let scene = Scene::new(JOB);
    scene.write("file", "not a directory");
    for state in ["file", "/proc/resilin-runs"] {
        let output = scene.run(&["train", "job.toml", "--state", state]);
        assert_refused(&scene, &output, 1, &[state]);
    }
    assert_eq!(scene.read("file"), "not a directory");
}

#[test]
fn wrong_tokens_and_a_second_coordinator() {
    let scene = Scene::new(JOB);
    scene.write("right", "open sesame\n");
    scene.write("wrong", "open barley\n");
    scene.write("empty", "");
    let leads = scene.start(&["coordinator", "job.toml", "--token-file", "right"]);
    let location = std::iter::repeat_with(|| Location::read(&scene.path("resilin-runs")))
        .find_map(|location| location.ok().flatten())
        .expect("it listens");

    let worker = |token: &[&str]| {
        let output = scene.run(&[&["worker", "--join", &location.join], token].concat());
        let said = stderr(&output);
        assert_code(output.status, 3, &output);
        assert_eq!(said.lines().count(), 1, "{said:?}");
        assert!(
            said.starts_with("error: ") && said.contains("token"),
            "{said:?}"
        );
    };
    worker(&["--token-file", "wrong"]);
    worker(&[]);
    let output = scene.run(&["status", "--api", &location.api, "--token-file", "wrong"]);
    assert_code(output.status, 3, &output);
    let output = scene.run(&["status", "--api", &location.api, "--token-file", "empty"]);
    assert_code(output.status, 2, &output);
    let output = scene.run(&["status"]);
    assert_code(output.status, 0, &output);

    let held = format!(
        "state resilin-runs is in use by process {}: `resilin status --state resilin-runs` shows \
         the run that it leads; stop it, or choose another --state directory",
        leads.pid()
    );
    let wait = format!("{held}; waiting up to 5 s for its end\n");
    for command in ["coordinator", "train"] {
        let second = scene.run(&[command, "job.toml"]);
        assert_code(second.status, 3, &second);
        let said = stderr(&second);
        let [first, last] = said.lines().collect::<Vec<_>>()[..] else {
            panic!("a line while it waits, and one at the end: {said}");
        };
        assert!(first.ends_with(wait.trim_end()), "{command}: {first}");
        assert_eq!(last, format!("error: {held}"), "{command}");
    }

    leads.signal(Signal::TERM);
    let output = leads.output();
    assert!(
        !stderr(&output).contains("sesame"),
        "a token is no business of the log: {}",
        stderr(&output)
    );
    scene.assert_empty();
}

#[test]
fn a_worker_with_other_rows() {
    let job = format!("{JOB}\n{CSV}test_fraction = 0\n");
    let scene = Scene::new(&job);
    let rows: String = (0..200)
        .map(|i| format!("{},{},{}\n", i % 7, i % 5, i % 2))
        .collect();
    scene.write("rows.csv", &rows);
    std::fs::create_dir(scene.path("other")).expect("a directory");
    scene.write("other/rows.csv", rows.replacen("1,1,1", "1,1,0", 1));
    let leads = scene.start(&["coordinator", "job.toml"]);
    let location = std::iter::repeat_with(|| Location::read(&scene.path("resilin-runs")))
        .find_map(|location| location.ok().flatten())
        .expect("it listens");
    let output = scene.run(&["worker", "--join", &location.join, "--data", "other"]);
    assert_code(output.status, 3, &output);
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 1, "{said:?}");
    assert!(
        said.starts_with("error: ") && said.contains("rows"),
        "{said:?}"
    );
    leads.signal(Signal::TERM);
    drop(leads.output());
    scene.assert_empty();
}

/// All files below a directory.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), std::fs::read(&path).expect("a file"));
        }
    }
    found
}

/// The command answers with the code and with one line on standard error that has the part; no file
/// of the scene changes.
#[track_caller]
fn answers(scene: &Scene, command: &str, code: i32, part: &str) {
    let before = files(&scene.path("."));
    let arguments: Vec<&str> = command.split(' ').collect();
    let output = scene.run(&arguments);
    assert_code(output.status, code, &output);
    let said = stderr(&output);
    assert_eq!(said.lines().count(), 1, "{command}: {said:?}");
    assert!(said.contains(part), "{command}: no {part:?} in {said:?}");
    assert_eq!(files(&scene.path(".")), before, "{command} changed a file");
}

/// Whoever joins at the wrong port of the right host is told so, and does not dial on.
#[test]
fn a_worker_does_not_dial_a_server_of_http() {
    let scene = Scene::new("");
    let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = server.local_addr().expect("it is bound").to_string();
    let serve = std::thread::spawn(move || {
        let (mut peer, _) = server.accept().expect("somebody dials");
        let answer = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n";
        peer.write_all(answer).expect("it listens");
        // It reads what it was told before it is cut off.
        let _ = peer.read_to_end(&mut Vec::new());
    });
    let output = scene.run(&["worker", "--join", &address]);
    assert_code(output.status, 2, &output);
    assert_eq!(
        stderr(&output),
        format!(
            "error: no coordinator takes members at {address}: what answers there speaks HTTP; the \
             last line of `resilin status` has the address to join\n"
        )
    );
    serve.join().expect("it has served");
    scene.assert_empty();
}

#[test]
fn what_a_finished_run_is_asked_for() {
    let scene = Scene::new(
        "[run]\nname = \"wrong\"\nsteps = 20\nbatch = 96\npartitions = 12\n\
         [model]\nname = \"softmax\"\n",
    );
    let trained = scene.run(&["train", "job.toml", "--workers", "1"]);
    assert_code(trained.status, 0, &trained);
    scene.write("bad.toml", "x = [");
    for (command, code, part) in [
        ("events --run none", 2, "there is wrong-"),
        ("events --state nowhere", 2, "--state"),
        ("audit none", 2, "there is wrong-"),
        ("replay --run none --step 1", 2, "there is wrong-"),
        ("audit --step 20", 2, "ends with step 19"),
        ("replay --step 20", 2, "ends with step 19"),
        ("replay --step 1 --partition 12", 2, "partitions 0 to 11"),
        ("replay --step x", 2, "--step"),
        ("scale", 2, "<N>"),
        ("scale --shards 0", 2, "1..=256"),
        ("scale --shards 2", 1, "no coordinator runs"),
        ("drain ", 2, "it is empty; `resilin status`"),
        ("status --api nonsense", 2, "expected HOST:PORT"),
        (
            "chaos --state job.toml",
            2,
            "--state job.toml: cannot keep runs there",
        ),
        (
            "chaos --save-plan nowhere/plan.toml",
            2,
            "cannot write nowhere/plan.toml: name a file in a directory that exists",
        ),
        ("shard", 2, "--join"),
        ("shard --join foo", 2, "HOST:PORT"),
        ("chaos --plan none.toml", 2, "there is no such file"),
        ("chaos job.toml --plan bad.toml", 2, "line 1"),
    ] {
        answers(&scene, command, code, part);
    }

    let state = std::fs::read_dir(scene.path("resilin-runs")).expect("a state directory");
    let mut dirs = state.map(|entry| entry.expect("an entry").path());
    let of_run = |dir: &PathBuf| dir.join("ledger.log").exists();
    let run = dirs.find(of_run).expect("a run");
    let whole = |name: &str| std::fs::read(run.join(name)).expect("a file of the run");
    let (ledger, events) = (whole("ledger.log"), whole("events.jsonl"));
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(run.join(name), bytes).expect("the run is writable");
    };

    // The end is missing: what is left holds, and checkpoints tell of more.
    write("ledger.log", &ledger[..ledger.len() / 2]);
    write("events.jsonl", &events[..events.len() - 9]);
    answers(&scene, "audit", 1, "the ledger ends before step");
    answers(&scene, "replay --step 19", 2, "is not in the ledger");
    answers(&scene, "events", 0, "the last line is not whole");

    // Bytes in the middle are missing.
    let holed = |bytes: &[u8]| [&bytes[..bytes.len() / 2], &bytes[bytes.len() / 2 + 7..]].concat();
    write("ledger.log", &holed(&ledger));
    write("events.jsonl", &holed(&events));
    answers(&scene, "audit", 4, "the hash chain breaks there");
    answers(&scene, "replay --step 1", 4, "the hash chain breaks there");
    answers(&scene, "events", 4, "damaged lines");

    write("ledger.log", b"");
    answers(&scene, "audit", 4, "it has no record");
    scene.assert_empty();
}
