//! Faults that only real processes have: one that stands still, links that are cut, silent and slow,
//! and `resilin chaos`, which brings them all over a user's job. Each run has the chain of the serial
//! reference at every step.
//!
//! Workers dial through a proxy in this process. It delays them, so that a run is slow enough for
//! its trouble on any machine; healed, it ends soon.

use std::thread;
use std::time::{Duration, Instant};

use resilin_actors::coordinator::RunStatus;
use resilin_chaos::process::plan::Way;
use resilin_chaos::process::proxy::{Proxy, Spoil};
use resilin_core::Incarnation;
use rustix::process::Signal;

use crate::scene::{JOB, Running, Scene, active, assert_code, assert_success, stderr, stdout};

/// Comes on top of each message: a step takes three of them at least.
const SLOW: Spoil = Spoil::Delay(Duration::from_millis(8));

/// Bounds a wait that would otherwise have no end.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run whose workers dial through a proxy.
struct Course {
    scene: Scene,
    chain: String,
    proxy: Proxy,
    train: Running,
    workers: Vec<Running>,
}

impl Course {
    /// Begins one with three slow workers.
    fn begin() -> Self {
        let scene = Scene::new(JOB);
        let (chain, _) = scene.reference();
        let proxy = Proxy::start().expect("a proxy");
        let address = proxy.address().to_string();
        let train = scene.start(&[
            "train",
            "job.toml",
            "--workers",
            "0",
            "--advertise",
            &address,
            "--hash-chain",
            "train.chain",
            "--report",
            "train.json",
        ]);
        let status = scene.until("the coordinator answers", |_| true);
        assert_eq!(status.location.join, address);
        proxy.aim(&status.location.listen);
        let join = |_| scene.start(&["worker", "--join", &address]);
        let workers: Vec<Running> = (0..3).map(join).collect();
        let course = Self {
            chain,
            proxy,
            train,
            workers,
            scene,
        };
        for worker in &course.workers {
            course.spoil(worker.pid(), SLOW);
        }
        course.until("three workers compute", |status| active(status, 3));
        course
    }

    /// Does it to a worker's connections, once it has some: it may be dialling at the moment.
    fn spoil(&self, pid: u32, spoil: Spoil) {
        let deadline = Instant::now() + PATIENCE;
        while !self.proxy.spoil(pid, spoil) {
            assert!(Instant::now() < deadline, "{pid} never dialled");
            thread::yield_now();
        }
    }

    /// The life of a worker that computes.
    fn life(&self, pid: u32) -> Incarnation {
        let status = self.until("it computes", |status| life(status, pid).is_some());
        life(&status, pid).expect("it was waited for")
    }

    /// A life ends for the others, and the process begins another one.
    fn next_life(&self, pid: u32, before: Incarnation) {
        self.until("it is back", |status| life(status, pid) > Some(before));
    }

    fn until(&self, what: &str, wanted: impl Fn(&RunStatus) -> bool) -> RunStatus {
        self.scene.until(what, wanted)
    }

    /// Some more steps are committed.
    fn goes_on(&self) {
        let step = self.until("it answers", |_| true).job.step.0;
        self.scene.until_step(step + 3);
    }

    /// Lets the run end and holds it against the reference.
    fn end(self) {
        let before = self.until("it answers", |_| true);
        assert!(before.job.step.0 < before.job.total_steps, "too fast");
        self.proxy.heal_all();
        assert_success(&self.train.output());
        for worker in self.workers {
            assert_success(&worker.output());
        }
        self.scene.assert_empty();
        assert_eq!(self.scene.read("train.chain"), self.chain);
    }
}

/// The incarnation of a process, if it computes.
fn life(status: &RunStatus, pid: u32) -> Option<Incarnation> {
    let own = format!(":{pid}");
    let mut workers = status.job.workers.iter();
    let own = workers.find(|worker| worker.name.ends_with(&own) && worker.state == "active");
    own.map(|worker| worker.incarnation)
}

#[test]
fn a_worker_that_stood_still_is_fenced_and_comes_back() {
    let course = Course::begin();
    let frozen = &course.workers[1];
    let before = course.life(frozen.pid());
    frozen.signal(Signal::STOP);
    course.until("its lease has ended", |status| {
        life(status, frozen.pid()).is_none()
    });
    course.goes_on();
    frozen.signal(Signal::CONT);
    course.next_life(frozen.pid(), before);
    course.goes_on();
    course.end();
}

#[test]
fn links_may_be_cut_silent_and_slow() {
    let course = Course::begin();
    let [cut, silent, deaf] = [0, 1, 2].map(|number: usize| course.workers[number].pid());

    // A reset is noticed at once; the process dials again.
    let before = course.life(cut);
    course.spoil(cut, Spoil::Cut);
    course.next_life(cut, before);

    // Nothing resets, nothing arrives: only the lease tells.
    let before = course.life(silent);
    course.spoil(silent, Spoil::Silence(Way::Both));
    course.until("its lease has ended", |status| {
        life(status, silent).is_none()
    });
    course.goes_on();
    course.spoil(silent, Spoil::Heal);
    course.spoil(silent, SLOW);
    course.next_life(silent, before);

    // One that speaks and hears nothing keeps its lease and gets no weights: it is named.
    course.spoil(deaf, Spoil::Silence(Way::Down));
    let own = format!(":{deaf})");
    course.until("it is waited for", |status| {
        let waiting = status.job.waiting.as_ref();
        waiting.is_some_and(|who| who.contains(&own))
    });
    course.spoil(deaf, Spoil::Heal);
    course.goes_on();

    course.spoil(cut, Spoil::Throttle(256 << 10));
    course.goes_on();
    course.end();
}

/// The job, a plan of everything at once, and the run's own table.
#[test]
fn a_users_job_has_the_bits_of_its_quiet_run() {
    let scene = Scene::new(&JOB.replace("every_steps = 50", "every_steps = 40"));
    let plan = "seed = 5\nduration_ms = 4000\n\
                [[fault]]\nat_ms = 1\nkind = \"kill\"\ntarget = \"worker\"\n\
                [[fault]]\nat_ms = 2\nkind = \"freeze\"\ntarget = \"worker\"\nfor_ms = 1300\n\
                [[fault]]\nat_ms = 3\nkind = \"cut\"\nchoice = 1\n\
                [[fault]]\nat_ms = 120\nkind = \"kill\"\ntarget = \"coordinator\"\n";
    scene.write("plan.toml", plan);
    let chaos = |more: &[&str]| {
        let all = ["chaos", "job.toml", "--plan", "plan.toml", "--workers", "2"];
        scene.run(&[&all[..], more].concat())
    };
    let output = chaos(&["--json", "--state", "both", "--save-plan", "again.toml"]);
    assert_success(&output);
    let verdict: serde_json::Value = serde_json::from_str(&stdout(&output)).expect("one object");
    let (chain, reference) = scene.reference();
    let hash = reference.weights_sha256.expect("finished");
    assert_eq!(verdict["equal"], true, "{verdict}");
    assert_eq!(verdict["weights_sha256"], *hash, "{verdict}");
    assert_eq!(
        verdict["faults"].as_array().map(Vec::len),
        Some(4),
        "{verdict}"
    );
    assert_eq!(
        (&verdict["kills"], &verdict["missed"]),
        (&2.into(), &0.into())
    );
    assert_eq!(verdict["unplanned_ends"], 0, "{verdict}");
    assert_eq!(scene.read("again.toml").matches("[[fault]]").count(), 4);
    // Both runs are kept, finished, and have every line of the reference.
    for run in ["both/quiet", "both/chaos"] {
        assert_success(&scene.run(&["train", "job.toml", "--state", run, "--hash-chain", "kept"]));
        assert_eq!(scene.read("kept"), chain, "{run}");
    }
    scene.assert_empty();
}

#[test]
fn what_cannot_be_tried_is_one_line() {
    let scene = Scene::new(JOB);
    scene.write(
        "loose.toml",
        JOB.replace("[cluster]", "bits = \"off\"\n[cluster]"),
    );
    scene.write("short.toml", JOB.replace("steps = 300", "steps = 2"));
    scene.write(
        "plan.toml",
        "seed = 1\nduration_ms = 9\n[[fault]]\nat_ms = 1\nkind = \"kil\"\n",
    );
    let late = "seed = 1\nduration_ms = 900000\n[[fault]]\nat_ms = 800000\nkind = \"cut\"\n";
    scene.write("late.toml", late);
    let cases: [(&[&str], &str); 8] = [
        (
            &["none.toml"],
            "error: job file none.toml: there is no such file; check the path\n",
        ),
        (
            &["job.toml", "--plan", "plan.toml"],
            "error: fault plan plan.toml: line 3: kind: expected kill, freeze, cut, silence, \
             throttle or delay, found \"kil\"\n",
        ),
        (
            &["job.toml", "--plan", "none.toml"],
            "error: fault plan none.toml: there is no such file; check the path\n",
        ),
        (
            &[
                "job.toml", "--kill", "shard", "--every", "20s", "--seed", "1",
            ],
            "error: kill shard after 29455 ms: the shards of this job live in the coordinator's \
             process; set [cluster] shard_processes, or name coordinator instead\n",
        ),
        (
            &["loose.toml"],
            "error: bits = \"off\" promises no weights that could be compared; set [run] bits = \
             \"on\"\n",
        ),
        (
            &["job.toml", "--every", "5"],
            "error: invalid value '5' for '--every <TIME>': expected a time such as 500ms, 60s or \
             5m; see --help\n",
        ),
        (
            &["job.toml", "--duration", "1s", "--every", "10s"],
            "error: no fault comes within --duration 1.000 s with --every 10.000 s; make one \
             longer or the other shorter\n",
        ),
        (
            &["job.toml", "--workers", "2000"],
            "error: --workers 2000: the job takes 1 to 1024 ([cluster] min_workers, max_workers)\n",
        ),
    ];
    for (arguments, line) in cases {
        let output = scene.run(&[&["chaos"], arguments].concat());
        assert_code(output.status, 2, &output);
        assert_eq!(stderr(&output), line, "{arguments:?}");
    }
    for (arguments, part) in [
        (
            &["short.toml", "--plan", "late.toml"],
            "give the job more steps",
        ),
        (
            &["job.toml", "--plan", "late.toml"],
            "the first fault comes after 800.00 s",
        ),
    ] {
        let output = scene.run(&[&["chaos"], &arguments[..]].concat());
        assert_code(output.status, 2, &output);
        // Log lines of the run's processes may come before.
        let said = stderr(&output);
        let last = said.lines().last().expect("it says why");
        assert!(last.starts_with("error: ") && last.contains(part), "{said}");
    }
    scene.assert_empty();
}
