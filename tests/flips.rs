//! Workers whose memory flips single bits of gradients, in real processes: the audit names each flip
//! in an audited leaf, with step, partition and culprit, before the run ends.
//!
//! This test is a whole `resilin` itself, with a model that flips on purpose: asked for a command
//! it is the program, asked for nothing it tests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use resilin::dataset::Batch;
use resilin::model::{Microbatch, Model, ModelError, Outcome, Score, Sink, Workspace};
use resilin::models::{Softmax, SoftmaxConfig};
use resilin::{Entry, Key, Manifest, Registry, Section, TargetKind};
use resilin_core::fact::{Dated, Fact};
use resilin_core::machine::audit::AuditRules;
use resilin_core::random::{Key as RandomKey, Purpose};
use resilin_core::tree::PartitionSet;
use resilin_core::{PartitionId, Step};

const MARKS: Key = Key::free("marks", "", "Directory for marks of who flipped a bit.");
const SEED: u64 = 7;
const RATE: f64 = 0.1;
const PARTITIONS: u32 = 12;
const FLIPS: u64 = 10;
/// Steps from flip to flip: the one before is settled by then.
const APART: u64 = 40;

/// Where bits are to be flipped: at least every other one in an audited leaf.
fn plan() -> BTreeMap<u64, u32> {
    let audit = AuditRules {
        rate: RATE,
        seed: SEED,
        versions: 0,
    };
    let leaves: PartitionSet = (0..PARTITIONS).map(PartitionId).collect();
    let flip = |number: u64| {
        let mut drawn = (APART * number..).map(|step| (step, audit.drawn(Step(step), &leaves)));
        let (step, wanted) = if number % 2 == 1 {
            drawn.find(|(_, drawn)| !drawn.is_empty())
        } else {
            Some((APART * number, leaves.clone()))
        }
        .expect("steps have no end");
        let key = RandomKey {
            clock: step,
            ..RandomKey::new(SEED + 1, Purpose::Audit)
        };
        let place = (key.stream().unit_f64() * wanted.len() as f64) as usize;
        (step, wanted.iter().nth(place).expect("it is below 1").0)
    };
    (1..=FLIPS).map(flip).collect()
}

/// A softmax regression of which one evaluation of each planned leaf comes out wrong.
struct Flipping {
    inner: Softmax,
    marks: PathBuf,
    plan: BTreeMap<u64, u32>,
}

impl Flipping {
    /// The microbatch to be spoilt, if it is this process's turn. Only in sums of several: these are
    /// contributions, not audits.
    fn turn(&self, microbatches: &[Microbatch<'_>]) -> Option<usize> {
        let wanted = |m: &Microbatch<'_>| self.plan.get(&m.step.0) == Some(&m.partition.0);
        let at = microbatches.iter().position(wanted)?;
        let mark = self.marks.join(microbatches[at].step.to_string());
        let several = microbatches.len() > 1;
        let first = several && std::fs::File::create_new(&mark).is_ok();
        if first {
            std::fs::write(&mark, std::process::id().to_string()).expect("it was just made");
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
            let mut values = self.sink.gradient(k).iter_mut();
            let value = values.find(|value| value.abs() > 1e-3);
            let value = value.expect("a gradient has something in it");
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
    let marks = section.text(&MARKS, None)?.into();
    let plan = plan();
    Ok(Box::new(Flipping { inner, marks, plan }))
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
        every_flip_in_an_audited_leaf_is_reported(workers);
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

/// The flips that were made, by step: who made it.
fn marks(at: &Path) -> BTreeMap<u64, String> {
    let marks = std::fs::read_dir(at).expect("it was made").map(|entry| {
        let path = entry.expect("it is readable").path();
        let step = path.file_name().and_then(|name| name.to_str()).unwrap();
        let process = std::fs::read_to_string(&path).unwrap();
        (step.parse().unwrap(), process)
    });
    marks.collect()
}

fn events(at: &Path) -> Vec<Dated> {
    let shown = run(at, &["events", "--state", "st", "--json"]);
    assert_code(&shown, 0);
    let text = String::from_utf8(shown.stdout).unwrap();
    let events = text.lines().map(serde_json::from_str::<Dated>);
    events.collect::<Result<_, _>>().unwrap()
}

/// Each flip that was named before the end: step, partition and process, and how many steps later.
fn named(events: &[Dated]) -> BTreeMap<(u64, u32, String), u64> {
    let mut processes = BTreeMap::new();
    let mut named = BTreeMap::new();
    for event in events {
        if let Fact::Joined { member, name } = &event.fact {
            let (_, process) = name.rsplit_once(':').expect("host:process");
            processes.insert(*member, process.to_owned());
        }
        if let Fact::Wrong {
            step,
            partition,
            member,
            ..
        } = event.fact
        {
            let flip = (step.0, partition.0, processes[&member].clone());
            named.insert(flip, event.step.0.saturating_sub(step.0));
        }
        assert!(
            !matches!(event.fact, Fact::AuditUnsettled { .. }),
            "{event:?}"
        );
        if matches!(event.fact, Fact::Over { .. }) {
            return named;
        }
    }
    panic!("the run is not over: {events:#?}")
}

fn every_flip_in_an_audited_leaf_is_reported(workers: &str) {
    let scene = tempfile::tempdir().unwrap();
    let (at, made) = (scene.path(), scene.path().join("marks"));
    std::fs::create_dir(&made).unwrap();
    // With fewer than two workers nothing is computed: every audited leaf has its auditor.
    let job = format!(
        "[run]\nname = \"flip\"\nseed = {SEED}\nsteps = {}\nbatch = 48\n\
         partitions = {PARTITIONS}\n[cluster]\nmin_workers = 2\n[data]\nname = \"digits\"\n\
         [model]\nname = \"flipping\"\nmarks = {made:?}\n[failure]\naudit_rate = {RATE}\n",
        APART * (FLIPS + 1)
    );
    std::fs::write(at.join("job.toml"), job).unwrap();
    let train = ["train", "job.toml", "--workers", workers, "--state", "st"];
    assert_code(&run(at, &train), 0);

    let (plan, marks) = (plan(), marks(&made));
    let audit = AuditRules {
        rate: RATE,
        seed: SEED,
        versions: 0,
    };
    let audited: BTreeSet<(u64, u32, String)> = marks
        .iter()
        .map(|(step, process)| (*step, plan[step], process.clone()))
        .filter(|(step, partition, _)| audit.draws(Step(*step), PartitionId(*partition)))
        .collect();
    let named = named(&events(at));
    let mut delays: Vec<u64> = named.values().copied().collect();
    delays.sort_unstable();
    println!(
        "{workers} workers, audit_rate {RATE}: {} bits flipped, {} of them in audited leaves, {} \
         reported; delay in steps: {delays:?}, median {:?}, max {:?}",
        marks.len(),
        audited.len(),
        named.len(),
        delays.get(delays.len() / 2),
        delays.last()
    );
    assert!(audited.len() >= 2, "a test of something: {marks:?}");
    let reported: BTreeSet<(u64, u32, String)> = named.into_keys().collect();
    assert_eq!(reported, audited, "step, partition, culprit");

    // The wrong step was committed: the ledger is whole, and a replay finds the step.
    assert_code(&run(at, &["audit", "--state", "st"]), 0);
    // A result that was outrun by a copy of it, made elsewhere, is in no sum.
    let differs = marks.keys().any(|step| {
        let step = step.to_string();
        let replayed = run(at, &["replay", "--state", "st", "--step", &step]);
        let said = String::from_utf8_lossy(&replayed.stderr).into_owned();
        let named = said.contains(&format!("step {step} differs, block 0 first"));
        assert_eq!(replayed.status.code(), Some(i32::from(named)), "{said}");
        named
    });
    assert!(differs, "no step differs: {marks:?}");
}
