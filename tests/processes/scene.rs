//! A temporary directory with a job in it, the processes started there, and what they left.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use resilin_actors::coordinator::{Location, Report, RunStatus};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Longest wait for anything. Far above what is needed, so that only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Name of the marker in the environment of every process of a scene.
const MARKER: &str = "RESILIN_TEST_SCENE";

/// The job of most tests: not convex, dropout, clipping, uneven last microbatches, three shards
/// that really share the model, and long enough to be met in the middle.
pub(crate) const JOB: &str = r#"
[run]
name = "scene"
steps = 300
batch = 96
partitions = 12
block = 256
clip_norm = 5.0
evaluate_every = 10

[cluster]
workers = 2
shards = 3

[checkpoint]
every_steps = 50

[failure]
drain_grace = 5

[model]
name = "mlp"
hidden = [24]
activation = "tanh"
dropout = 0.2

[optimizer]
name = "adam"
learning_rate = 0.01
"#;

/// Whether as many workers take part.
pub(crate) fn active(status: &RunStatus, count: usize) -> bool {
    let workers = status.job.workers.iter();
    workers.filter(|worker| worker.state == "active").count() == count
}

/// A directory of its own.
pub(crate) struct Scene {
    dir: TempDir,
}

impl Scene {
    /// A scene with `text` as its `job.toml`.
    pub(crate) fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let scene = Self { dir };
        scene.write("job.toml", text);
        scene
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.path(name), contents).expect("the scene is writable");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// The program with these arguments, in the scene's directory.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(crate::PROGRAM);
        command
            .args(arguments)
            .current_dir(self.dir.path())
            .env(MARKER, self.dir.path())
            .stdin(Stdio::null());
        command
    }

    /// Runs a short command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.start(arguments).output()
    }

    /// Starts a command and goes on.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        self.start_command(self.command(arguments), arguments)
    }

    /// Starts a prepared command.
    pub(crate) fn start_command(&self, mut command: Command, arguments: &[&str]) -> Running {
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        Running {
            child: Some(child),
            what: arguments.join(" "),
            scene: self.dir.path().to_owned(),
        }
    }

    /// The chain and the report of the serial reference.
    pub(crate) fn reference(&self) -> (String, Report) {
        let output = self.run(&[
            "reference",
            "job.toml",
            "--hash-chain",
            "reference.chain",
            "--report",
            "reference.json",
        ]);
        assert_success(&output);
        (self.read("reference.chain"), self.report("reference.json"))
    }

    /// Trains with so many workers, which the job waits for, kills the last one at a step, and gives
    /// the chain and the report.
    pub(crate) fn train_under_a_kill(&self, workers: usize, step: u64) -> (String, Report) {
        let train = self.start(&[
            "train",
            "job.toml",
            "--workers",
            &workers.to_string(),
            "--hash-chain",
            "train.chain",
            "--report",
            "train.json",
        ]);
        self.until_step(step);
        signal(self.until_workers(workers)[workers - 1], Signal::KILL);
        self.until("the loss is noticed", |status| status.job.lost == 1);
        assert_success(&train.output());
        self.assert_empty();
        (self.read("train.chain"), self.report("train.json"))
    }

    pub(crate) fn report(&self, name: &str) -> Report {
        serde_json::from_str(&self.read(name)).expect("a report")
    }

    /// The run at this moment, if a coordinator answers.
    pub(crate) fn status(&self) -> Option<RunStatus> {
        let location = Location::read(&self.path("resilin-runs")).ok()??;
        let answer = ureq::get(format!("http://{}/v1/status", location.api)).call();
        RunStatus::parse(&answer.ok()?.into_body().read_to_vec().ok()?).ok()
    }

    /// Waits until the run is as wanted.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&RunStatus) -> bool) -> RunStatus {
        let deadline = Instant::now() + PATIENCE;
        let mut last = None;
        loop {
            if let Some(status) = self.status() {
                if wanted(&status) {
                    return status;
                }
                last = Some(status);
            }
            assert!(
                Instant::now() < deadline,
                "not until {what}; last: {last:?}"
            );
            std::thread::yield_now();
        }
    }

    /// Waits until the run is at a step.
    pub(crate) fn until_step(&self, step: u64) -> RunStatus {
        self.until(&format!("step {step}"), |status| status.job.step.0 >= step)
    }

    /// The living processes of the scene whose command line has the word: id by id.
    pub(crate) fn processes(&self, word: &str) -> Vec<u32> {
        let mut found: BTreeMap<u32, Vec<String>> = living(self.dir.path());
        found.retain(|_, words| words.iter().any(|each| each == word));
        found.into_keys().collect()
    }

    /// Waits until as many workers compute, and no others are about to: one that has not joined yet
    /// can be killed without the run ever hearing of it.
    pub(crate) fn until_workers(&self, count: usize) -> Vec<u32> {
        self.until(&format!("{count} workers compute"), |status| {
            active(status, count)
        });
        self.until_processes("worker", count)
    }

    /// The command lines of all living processes of the scene, words parted by blanks.
    pub(crate) fn command_lines(&self) -> Vec<Vec<u8>> {
        let all = living(self.dir.path()).into_values();
        all.map(|words| words.join(" ").into_bytes()).collect()
    }

    /// Waits until as many processes have the word in their command line.
    pub(crate) fn until_processes(&self, word: &str, count: usize) -> Vec<u32> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = self.processes(word);
            if found.len() == count {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "{} processes `{word}`, not {count}",
                found.len()
            );
            std::thread::yield_now();
        }
    }

    /// Nothing may be left a moment after the last command of the scene.
    pub(crate) fn assert_empty(&self) {
        let deadline = Instant::now() + Duration::from_secs(5);
        loop {
            let left = living(self.dir.path());
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < deadline, "left behind: {left:?}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for pid in living(self.dir.path()).into_keys() {
            signal(pid, Signal::KILL);
        }
    }
}

/// A command under way. Dropped, it is killed.
pub(crate) struct Running {
    child: Option<Child>,
    what: String,
    scene: PathBuf,
}

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("it was not waited for").id()
    }

    pub(crate) fn signal(&self, which: Signal) {
        signal(self.pid(), which);
    }

    /// Waits for the end, which comes soon or is an error.
    pub(crate) fn output(mut self) -> Output {
        let child = self.child.take().expect("it was not waited for");
        let (pid, begun) = (child.id(), Instant::now());
        let (done, waited) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // The receiver is gone only after a panic, which says more.
            let _ = done.send(child.wait_with_output());
        });
        let output = waited.recv_timeout(PATIENCE * 2).unwrap_or_else(|_| {
            signal(pid, Signal::KILL);
            let living = living(&self.scene);
            panic!(
                "`{}` is still there after {:?}; living: {living:?}",
                self.what,
                begun.elapsed()
            )
        });
        thread.join().expect("it only waits");
        output.expect("it can be waited for")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Only after a panic; it may have ended meanwhile.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sends a signal to a process that this test started.
pub(crate) fn signal(pid: u32, which: Signal) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    // It may have ended meanwhile.
    let _ = kill_process(pid.expect("a process id"), which);
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn assert_success(output: &Output) {
    assert_code(output.status, 0, output);
}

pub(crate) fn assert_code(status: ExitStatus, code: i32, output: &Output) {
    assert_eq!(
        status.code(),
        Some(code),
        "{status}\nstdout: {}\nstderr: {}",
        stdout(output),
        stderr(output)
    );
}

/// The processes with the scene's marker that are no zombies, with their command lines.
fn living(scene: &Path) -> BTreeMap<u32, Vec<String>> {
    let marker = format!("{MARKER}={}", scene.display());
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc").expect("/proc").flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        let (Some(pid), Ok(environment)) = (pid, fs::read(entry.path().join("environ"))) else {
            continue;
        };
        let marked = environment
            .split(|byte| *byte == 0)
            .any(|variable| variable == marker.as_bytes());
        if let (true, Ok(line)) = (marked, fs::read(entry.path().join("cmdline"))) {
            let words = line.split(|byte| *byte == 0);
            let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
            found.insert(pid, words.collect());
        }
    }
    found
}
