//! Real processes for tests: the test program starts itself in a role. Everything has a deadline,
//! and no process outlives the test that started it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use resilin_actors::coordinator::{self, Announcement, Location, Report};
use resilin_actors::process::Parent;
use resilin_actors::{supervisor, worker};
use resilin_checkpoint::Start;
use resilin_core::Span;
use resilin_core::handshake::Token;
use resilin_core::job::Document;
use resilin_learn::registry::Registry;
use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything here takes, on a busy machine too.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// Loopback, with a free port.
pub(crate) const ANY: &str = "127.0.0.1:0";

const ROLE: &str = "RESILIN_TEST_ROLE";
const JOB: &str = "RESILIN_TEST_JOB";
const STATE: &str = "RESILIN_TEST_STATE";
const ADDRESS: &str = "RESILIN_TEST_ADDRESS";
const TOKEN: &str = "RESILIN_TEST_TOKEN";
const DATA: &str = "RESILIN_TEST_DATA";

/// A busy machine shall not look like a lost worker, hence the long lease.
///
/// A job whose model is not convex and has dropout, on shuffled rows, in blocks that shards share,
/// with clipping and an uneven last microbatch.
pub(crate) fn job(steps: u64, shards: u16) -> String {
    format!(
        "[run]\nname = \"test\"\nsteps = {steps}\nbatch = 96\npartitions = 12\nblock = 256\n\
         clip_norm = 1.0\nevaluate_every = 1\n[cluster]\nshards = {shards}\n\
         [checkpoint]\nevery_steps = 7\nevery_seconds = 0\n[failure]\nlease = 3.0\ndrain_grace = 5\n\
         [data]\nname = \"digits\"\n[model]\nname = \"mlp\"\nhidden = [24]\ndropout = 0.1\n\
         [optimizer]\nname = \"adam\"\n"
    )
}

pub(crate) fn registry() -> Registry {
    Registry::default()
        .data("digits", resilin_data::sources::digits)
        .data("csv", resilin_data::sources::csv)
}

/// What a child process of the test program does; returns in the test program itself.
pub(crate) fn play_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_max_level(tracing::Level::DEBUG)
        .init();
    let given = |name| std::env::var(name).ok();
    let token = given(TOKEN).map(Token::new);
    let exit = match role.as_str() {
        "coordinator" => {
            let options = coordinator::Options {
                job: Document::parse(&given(JOB).unwrap()).unwrap(),
                state: given(STATE).unwrap().into(),
                data: given(DATA).map(Into::into),
                listen: given(ADDRESS),
                advertise: None,
                api: None,
                token,
                token_file: None,
                start: Start::Resume,
                parent: Parent::EndWith,
            };
            coordinator::run(options, &registry())
        }
        "worker" => {
            let options = worker::Options {
                join: given(ADDRESS).unwrap(),
                token,
                data: given(DATA).map(Into::into),
                cpus: Vec::new(),
                redial_limit: Some(Span::from_millis(10_000)),
                parent: Parent::EndWith,
            };
            worker::run(options, Arc::new(registry()))
        }
        "panic" => {
            resilin_actors::process::abort_on_panic();
            panic!("on\npurpose");
        }
        other => panic!("no role {other}"),
    };
    // As the program itself says it: the supervisor takes the cause from this line.
    eprintln!("error: {exit}");
    std::process::exit(exit.code().into());
}

/// A supervisor's options whose children are this test program: a shell turns the arguments that the
/// command line tool would take into a role's settings.
pub(crate) fn supervised(job: &str, state: &Path) -> supervisor::Options {
    let program = std::env::current_exe().unwrap();
    let script = |role: &str| {
        format!(
            "while [ $# -gt 0 ]; do case $1 in --join|--listen) export {ADDRESS}=$2;; esac; shift; \
             done; export {ROLE}={role}; exec \"{}\" --exact a_child_plays_its_role --nocapture",
            program.display()
        )
    };
    let arguments = |role| vec!["-c".into(), script(role), role.into()];
    // Children inherit what does not differ between them.
    let settings = format!(
        "export {JOB}='{job}' {STATE}='{}' {ADDRESS}=127.0.0.1:0; ",
        state.display()
    );
    let mut coordinator = arguments("coordinator");
    coordinator[1].insert_str(0, &settings);
    supervisor::Options {
        program: "/bin/sh".into(),
        coordinator,
        first_start: Vec::new(),
        worker: arguments("worker"),
        cpus_each: None,
        shards: Vec::new(),
        token: None,
        restarts: 10,
        window: Span::from_millis(60_000),
        grace: Span::from_millis(5000),
        children: supervisor::Children::default(),
    }
}

/// A child that is killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    errors: Receiver<String>,
}

fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (send, receive) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    receive
}

impl Process {
    fn start(role: &str, settings: &[(&str, &str)]) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_child_plays_its_role", "--nocapture"])
            .env(ROLE, role)
            .envs(settings.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take(),
            lines: lines(child.stdout.take().unwrap()),
            errors: lines(child.stderr.take().unwrap()),
            child,
        }
    }

    /// A coordinator; `settings` are pairs for its environment beside job and state.
    pub(crate) fn coordinator(job: &str, state: &Path, listen: &str, token: Option<&str>) -> Self {
        let state = state.to_str().unwrap();
        let mut settings = vec![(JOB, job), (STATE, state), (ADDRESS, listen)];
        settings.extend(token.map(|token| (TOKEN, token)));
        Self::start("coordinator", &settings)
    }

    pub(crate) fn worker(join: &str, token: Option<&str>) -> Self {
        let mut settings = vec![(ADDRESS, join)];
        settings.extend(token.map(|token| (TOKEN, token)));
        Self::start("worker", &settings)
    }

    /// A process that panics.
    pub(crate) fn panicking() -> Self {
        Self::start("panic", &[])
    }

    /// A coordinator whose rows are below `data`.
    pub(crate) fn coordinator_with_rows(job: &str, state: &Path, data: &Path) -> Self {
        let (state, data) = (state.to_str().unwrap(), data.to_str().unwrap());
        let address = (ADDRESS, ANY);
        Self::start(
            "coordinator",
            &[(JOB, job), (STATE, state), (DATA, data), address],
        )
    }

    /// A worker whose rows are below `data`.
    pub(crate) fn worker_with_rows(join: &str, data: &Path) -> Self {
        let data = data.to_str().unwrap();
        Self::start("worker", &[(ADDRESS, join), (DATA, data)])
    }

    /// The next announcement of a coordinator.
    pub(crate) fn announcement(&self) -> Announcement {
        let until = Instant::now() + DEADLINE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                let errors: Vec<String> = self.errors.try_iter().collect();
                panic!("no announcement; standard error: {errors:#?}");
            };
            // The test harness writes to standard output too.
            if let Some(at) = line.find('{') {
                return serde_json::from_str(&line[at..]).unwrap();
            }
        }
    }

    pub(crate) fn ready(&self) -> Location {
        match self.announcement() {
            Announcement::Ready(location) => location,
            other => panic!("not ready: {other:?}"),
        }
    }

    pub(crate) fn over(&self) -> Report {
        match self.announcement() {
            Announcement::Over { report, .. } => *report,
            other => panic!("not over: {other:?}"),
        }
    }

    /// Ends the child's standard input.
    pub(crate) fn orphan(&mut self) {
        self.stdin = None;
    }

    /// SIGKILL.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, SIGSTOP or SIGCONT.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// The exit code and what was written to standard error.
    pub(crate) fn end(&mut self) -> (i32, String) {
        let until = Instant::now() + DEADLINE;
        let mut errors = Vec::new();
        // Standard error ends with the process.
        while let Ok(line) = self
            .errors
            .recv_timeout(until.saturating_duration_since(Instant::now()))
        {
            errors.push(line);
        }
        let errors = errors.join("\n");
        match self.child.try_wait().unwrap() {
            Some(status) => (status.code().unwrap_or(-1), errors),
            None if Instant::now() < until => {
                let status = self.child.wait().unwrap();
                (status.code().unwrap_or(-1), errors)
            }
            None => panic!("still alive after {DEADLINE:?}: {errors}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
