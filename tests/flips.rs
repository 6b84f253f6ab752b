//! A worker whose memory flips one bit of one gradient, in real processes: the audit names it, with
//! step and partition, before the run ends.
//!
//! This test is a whole `resilin` itself, with a model that flips on purpose: asked for a command
//! it is the program, asked for nothing it tests.

use std::path::Path;
use std::process::{Command, ExitCode, Output};

use resilin::dataset::Batch;
use resilin::model::{Microbatch, Model, ModelError, Outcome, Score, Sink, Workspace};
use resilin::models::{Softmax, SoftmaxConfig};
use resilin::{Entry, Key, Manifest, Registry, Section, TargetKind};
use serde_json::Value;

const MARKER: Key = Key::free("marker", "", "File that whoever flips a bit creates.");
const FROM: u64 = 20;
const PARTITION: u32 = 5;

/// A softmax regression of which one evaluation in the whole cluster comes out wrong.
struct Flipping {
    inner: Softmax,
    marker: String,
}

impl Flipping {
    /// The microbatch to be spoilt, if it is this process's turn. Only sums of several: these are
    /// contributions, not audits.
    fn turn(&self, microbatches: &[Microbatch<'_>]) -> Option<usize> {
        let wanted = |m: &Microbatch<'_>| m.partition.0 == PARTITION && m.step.0 >= FROM;
        let at = microbatches.iter().position(wanted)?;
        let several = microbatches.len() > 1;
        let step = microbatches[at].step.to_string();
        let first = several && std::fs::File::create_new(&self.marker).is_ok();
        if first {
            std::fs::write(&self.marker, step).expect("the marker was just made");
        }
        first.then_some(at)
    }
}

/// Passes gradients on, one of them with another bit.
struct Spoilt<'a> {
    sink: &'a mut dyn Sink,
    at: Option<usize>,
}

impl Sink for Spoilt<'_> {
    fn gradient(&mut self, k: usize) -> &mut [f32] {
        self.sink.gradient(k)
    }

    fn done(&mut self, k: usize, outcome: Outcome) {
        if self.at == Some(k) {
            let value = &mut self.sink.gradient(k)[7];
            *value = f32::from_bits(value.to_bits() ^ 1 << 20);
        }
        self.sink.done(k, outcome);
    }
}

impl Model for Flipping {
    fn entries(&self) -> Vec<Entry> {
        self.inner.entries()
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        self.inner.initialise(seed, weights);
    }

    fn workspace(&self) -> Workspace {
        self.inner.workspace()
    }

    fn evaluate(
        &self,
        weights: &[f32],
        microbatches: &[Microbatch<'_>],
        workspace: &mut Workspace,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        let at = self.turn(microbatches);
        let mut sink = Spoilt { sink, at };
        self.inner
            .evaluate(weights, microbatches, workspace, &mut sink)
    }

    fn score(
        &self,
        weights: &[f32],
        batch: &Batch,
        workspace: &mut Workspace,
    ) -> Result<Score, ModelError> {
        self.inner.score(weights, batch, workspace)
    }
}

fn flipping(
    section: &mut Section<'_>,
    data: &Manifest,
) -> Result<Box<dyn Model>, resilin::JobError> {
    let TargetKind::Classes(classes) = data.targets else {
        return Err(section.error("name", "needs classes"));
    };
    let config = SoftmaxConfig {
        inputs: data.width as usize,
        classes,
        bias: true,
    };
    let inner = Softmax::new(config).map_err(|error| section.error("name", error))?;
    let marker = section.text(&MARKER, None)?;
    Ok(Box::new(Flipping { inner, marker }))
}

fn main() -> ExitCode {
    let command = std::env::args().nth(1);
    let commands = [
        "train",
        "coordinator",
        "worker",
        "shard",
        "events",
        "audit",
        "replay",
    ];
    if command.is_some_and(|word| commands.contains(&word.as_str())) {
        return resilin::main(Registry::default().model("flipping", flipping));
    }
    for workers in ["2", "3"] {
        one_flipped_bit_is_reported(workers);
    }
    println!("test result: ok");
    ExitCode::SUCCESS
}

fn run(scene: &Path, arguments: &[&str]) -> Output {
    let program = std::env::current_exe().expect("this program has a path");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(scene);
    command.output().expect("this program can be started")
}

#[track_caller]
fn assert_code(output: &Output, code: i32) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{said}");
}

fn one_flipped_bit_is_reported(workers: &str) {
    let scene = tempfile::tempdir().unwrap();
    let at = scene.path();
    let marker = at.join("flipped");
    let job = format!(
        "[run]\nname = \"flip\"\nsteps = 300\nbatch = 48\npartitions = 12\n\
         [data]\nname = \"digits\"\n[model]\nname = \"flipping\"\nmarker = {marker:?}\n\
         [failure]\naudit_rate = 1.0\n"
    );
    std::fs::write(at.join("job.toml"), job).unwrap();
    let trained = run(
        at,
        &["train", "job.toml", "--workers", workers, "--state", "st"],
    );
    assert_code(&trained, 0);
    let step: u64 = std::fs::read_to_string(&marker)
        .expect("somebody flipped a bit")
        .parse()
        .unwrap();

    let shown = run(at, &["events", "--state", "st", "--json"]);
    assert_code(&shown, 0);
    let events: Vec<Value> = String::from_utf8(shown.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |kind: &str| -> Vec<&Value> {
        let mut found = events.iter().filter(|event| event["fact"]["kind"] == kind);
        found.by_ref().collect()
    };
    let wrong = of("wrong");
    assert_eq!(wrong.len(), 1, "one flip, one culprit: {events:#?}");
    let named = &wrong[0]["fact"];
    assert_eq!(
        (&named["step"], &named["partition"]),
        (&step.into(), &PARTITION.into())
    );
    assert_eq!(of("fenced")[0]["fact"]["member"], named["member"]);
    assert_eq!(of("audit_unsettled"), [&Value::Null; 0]);
    let place = |wanted: &Value| events.iter().position(|event| std::ptr::eq(event, wanted));
    let over = of("over")[0];
    assert!(
        place(wrong[0]) < place(over),
        "it is told before the run ends"
    );
    let delay = wrong[0]["step"].as_u64().unwrap() - step;
    println!("{workers} workers: flip at step {step}, named {delay} steps later");

    // The wrong step was committed: who contributed it is in the ledger, and a replay finds it.
    let step = step.to_string();
    assert_code(&run(at, &["audit", "--state", "st"]), 0);
    let replayed = run(at, &["replay", "--state", "st", "--step", &step]);
    assert_code(&replayed, 1);
    let said = String::from_utf8_lossy(&replayed.stderr).into_owned();
    assert!(
        said.contains(&format!("step {step} differs, block 0 first")),
        "{said}"
    );
}
