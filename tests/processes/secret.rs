//! The token of a cluster stays in its file: nothing that a run prints, keeps or answers has it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Signal;

use crate::scene::{JOB, Scene, assert_success, signal};

const TOKEN: &str = "SENTINEL-7f3a-0c1d-99e2";

#[test]
fn a_token_is_in_no_log_status_file_or_command_line() {
    let scene = Scene::new(&JOB.replace("shards = 3", "shards = 2\nshard_processes = 2"));
    scene.write("token", TOKEN);
    let arguments = [
        "train",
        "job.toml",
        "--token-file",
        "token",
        "--report",
        "train.json",
    ];
    let mut command = scene.command(&arguments);
    command.env("RESILIN_LOG", "trace");
    let train = scene.start_command(command, &arguments);
    let mut said = Vec::new();
    let workers = scene.until_processes("worker", 2);
    // A whole status shows that members came in by the token.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let status = scene.run(&["status", "--json"]);
        let text = String::from_utf8_lossy(&status.stdout).into_owned();
        said.extend([status.stdout, status.stderr]);
        if text.contains("\"active\"") {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "nobody joins: {text}");
    }
    signal(workers[0], Signal::KILL);
    said.extend(scene.command_lines());
    let output = train.output();
    assert_success(&output);
    let events = scene.run(&["events", "--json"]);
    assert_success(&events);
    said.extend([output.stdout, output.stderr, events.stdout, events.stderr]);
    assert!(said.len() > 6, "nothing was looked at");
    for text in &said {
        assert!(!holds_token(text), "{}", String::from_utf8_lossy(text));
    }
    let kept = files(&scene.path("resilin-runs"));
    assert!(kept.len() > 5, "too few files: {kept:?}");
    for file in kept.iter().chain([&scene.path("train.json")]) {
        let bytes = fs::read(file).expect("a file of the run");
        assert!(!holds_token(&bytes), "{}", file.display());
    }
}

fn holds_token(bytes: &[u8]) -> bool {
    bytes
        .windows(8)
        .any(|window| window == &TOKEN.as_bytes()[..8])
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("readable").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}
