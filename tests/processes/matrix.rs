//! The matrix of bits with real processes: every optimizer, partition count, shard count, number of
//! workers and kind of trouble, each with the chain of the serial reference at every step.
//!
//! `cargo test` runs a few cells. `RESILIN_MATRIX` chooses others: `all`, or a part of their names.
//! The workers are strangers that the test starts itself, so trouble comes at a step and not at a
//! time. While a process starts, another one is held still, which holds the step: a slow machine
//! must not end the run before its trouble.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use resilin_actors::coordinator::Location;
use rustix::process::Signal;

use crate::scene::{Running, Scene, assert_success, signal};

const OPTIMIZERS: [&str; 3] = ["sgd", "momentum", "adam"];
const PARTITIONS: [u32; 2] = [12, 16];
const SHARDS: [u32; 2] = [1, 3];
const WORKERS: [usize; 5] = [1, 2, 3, 5, 8];
const TROUBLES: [Trouble; 4] = [
    Trouble::Quiet,
    Trouble::Kill,
    Trouble::Scale,
    Trouble::Coordinator,
];

/// The cells of every `cargo test`: each trouble, optimizer, partition and shard count once at least.
const SUBSET: [&str; 4] = [
    "sgd-p16-s1-w2-quiet",
    "adam-p12-s3-w3-kill",
    "momentum-p16-s3-w1-scale",
    "adam-p16-s3-w2-coordinator",
];

/// Steps of a run.
const STEPS: u64 = 400;

/// Steps between two checkpoints: one on the way, written well before the end of the run.
const CHECKPOINT: u64 = 205;

/// Time that the processes of one cell may take in all; far above what they need.
const LIMIT: Duration = Duration::from_secs(90);

/// What happens to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// Nothing.
    Quiet,
    /// A worker is killed, then replaced.
    Kill,
    /// Two workers join, then one is drained.
    Scale,
    /// The coordinator is killed; `train` starts it again.
    Coordinator,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Quiet => "quiet",
            Self::Kill => "kill",
            Self::Scale => "scale",
            Self::Coordinator => "coordinator",
        })
    }
}

/// What decides the weights: cells that share it share a chain.
type Chain = (&'static str, u32);

#[derive(Clone, Copy, Debug)]
struct Cell {
    optimizer: &'static str,
    partitions: u32,
    shards: u32,
    workers: usize,
    trouble: Trouble,
    /// The step at which the trouble begins, another one in each cell.
    at: u64,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            optimizer,
            partitions,
            shards,
            workers,
            trouble,
            at: _,
        } = self;
        write!(
            f,
            "{optimizer}-p{partitions}-s{shards}-w{workers}-{trouble}"
        )
    }
}

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for optimizer in OPTIMIZERS {
        for partitions in PARTITIONS {
            for shards in SHARDS {
                for workers in WORKERS {
                    for trouble in TROUBLES {
                        let number = cells.len() as u64;
                        cells.push(Cell {
                            optimizer,
                            partitions,
                            shards,
                            workers,
                            trouble,
                            // 7 has no divisor in common with 60: all steps from 40 on are met.
                            at: 40 + 7 * number % 60,
                        });
                    }
                }
            }
        }
    }
    cells
}

/// The cells that the environment asks for.
fn chosen() -> Vec<Cell> {
    let wanted = std::env::var("RESILIN_MATRIX").ok();
    let mut cells = cells();
    cells.retain(|cell| match wanted.as_deref() {
        None => SUBSET.contains(&cell.to_string().as_str()),
        Some("all") => true,
        Some(part) => cell.to_string().contains(part),
    });
    assert!(!cells.is_empty(), "no cell is called {wanted:?}");
    cells
}

#[test]
fn every_cell_of_the_matrix_has_the_chain_of_the_reference() {
    let cells = chosen();
    let begun = Instant::now();
    let mut chains: BTreeMap<Chain, String> = BTreeMap::new();
    let mut failed = Vec::new();
    for (number, cell) in cells.iter().enumerate() {
        let started = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| {
            let scene = Scene::new(&job(cell));
            let chain = chains
                .entry((cell.optimizer, cell.partitions))
                .or_insert_with(|| scene.reference().0);
            run(cell, &scene, chain)
        }));
        let seconds = started.elapsed().as_secs_f64();
        let (number, of, name) = (number + 1, cells.len(), cell.to_string());
        match result {
            Ok(what) => println!("{number:3} of {of}  {name:30} equal  {seconds:4.1} s  {what}"),
            Err(panic) => {
                let why = said(panic.as_ref());
                println!("{number:3} of {of}  {name:30} FAILED {seconds:4.1} s  {why}");
                failed.push(name);
            }
        }
    }
    let (equal, seconds) = (cells.len() - failed.len(), begun.elapsed().as_secs());
    println!(
        "{equal} of {} cells equal the {} chains of the reference at all {STEPS} steps, {seconds} s",
        cells.len(),
        chains.len()
    );
    let again = "run one again with RESILIN_MATRIX=NAME";
    assert!(failed.is_empty(), "failed: {failed:?}; {again}");
}

#[test]
fn the_matrix_has_240_cells_and_the_subset_is_of_them() {
    let names: Vec<String> = cells().iter().map(Cell::to_string).collect();
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!((names.len(), distinct.len()), (240, 240));
    for name in SUBSET {
        assert!(names.iter().any(|cell| cell == name), "{name}");
    }
}

/// Not convex, with dropout, shuffled, clipped, shared by the shards. 1,437 rows on 12 or 16
/// partitions leave the last microbatches of an epoch uneven.
fn job(cell: &Cell) -> String {
    let Cell {
        optimizer,
        partitions,
        shards,
        ..
    } = cell;
    let rate = match *optimizer {
        "adam" => 0.01,
        _ => 0.1,
    };
    format!(
        r#"
[run]
name = "matrix"
steps = {STEPS}
batch = 96
partitions = {partitions}
block = 256
clip_norm = 1.0
evaluate_every = 0

[cluster]
shards = {shards}

[checkpoint]
every_steps = {CHECKPOINT}

[failure]
lease = 4
redial_limit = 5

[model]
name = "mlp"
hidden = [24]
activation = "tanh"
dropout = 0.2

[optimizer]
name = "{optimizer}"
learning_rate = {rate}
"#
    )
}

/// Runs one cell and says what happened in it; panics if anything is not as it must be.
fn run(cell: &Cell, scene: &Scene, chain: &str) -> String {
    let begun = Instant::now();
    let train = scene.start(&[
        "train",
        "job.toml",
        "--workers",
        "0",
        "--no-progress",
        "--hash-chain",
        "train.chain",
        "--report",
        "train.json",
    ]);
    scene.until("the coordinator answers", |_| true);
    let lead = scene.until_processes("coordinator", 1)[0];
    let mut workers = assemble(cell, scene);
    scene.until_step(cell.at);
    let what = match cell.trouble {
        Trouble::Quiet => String::new(),
        Trouble::Kill => kill(cell, scene, &mut workers),
        Trouble::Scale => scale(cell, scene, &mut workers),
        Trouble::Coordinator => coordinator(cell, scene, lead),
    };
    assert_success(&train.output());
    for worker in workers {
        let output = worker.output();
        match (cell.trouble, output.status.code()) {
            // The next coordinator had finished before this one dialled it: nobody could tell.
            (Trouble::Coordinator, Some(75)) => {}
            (Trouble::Quiet | Trouble::Kill | Trouble::Scale | Trouble::Coordinator, _) => {
                assert_success(&output);
            }
        }
    }
    scene.assert_empty();
    assert!(begun.elapsed() < LIMIT, "it took {:?}", begun.elapsed());
    let found = scene.read("train.chain");
    assert_eq!(found.lines().count() as u64, STEPS + 1);
    let differing = found.lines().zip(chain.lines()).find(|(a, b)| a != b);
    assert_eq!(differing, None, "the first step with other weights");
    assert_eq!(found, chain);
    what
}

/// All workers of the cell, early in the run: the first one begins it, and holds it for the others.
fn assemble(cell: &Cell, scene: &Scene) -> Vec<Running> {
    let mut workers = vec![join(scene)];
    scene.until("the first worker computes", |status| status.job.joined == 1);
    let held = Held::new(workers.first());
    workers.resize_with(cell.workers, || join(scene));
    let all = cell.workers as u64;
    scene.until("all compute", |status| status.job.joined == all);
    drop(held);
    workers
}

/// A worker as a stranger on another host would start it.
fn join(scene: &Scene) -> Running {
    let location = Location::read(&scene.path("resilin-runs")).expect("readable");
    let address = location.expect("a coordinator runs").join;
    scene.start(&["worker", "--join", &address])
}

fn kill(cell: &Cell, scene: &Scene, workers: &mut Vec<Running>) -> String {
    let victim = workers.remove(cell.at as usize % cell.workers);
    let step = scene.until_step(cell.at).job.step;
    victim.signal(Signal::KILL);
    drop(victim.output());
    scene.until("the loss is noticed", |status| status.job.lost == 1);
    let held = Held::new(workers.first());
    workers.push(join(scene));
    let all = cell.workers;
    let status = scene.until("the replacement computes", |status| {
        status.job.joined == all as u64 + 1 && status.job.workers.len() == all
    });
    drop(held);
    format!("killed at step {step}, replaced at {}", status.job.step)
}

fn scale(cell: &Cell, scene: &Scene, workers: &mut Vec<Running>) -> String {
    let step = scene.until_step(cell.at).job.step;
    let held = Held::new(workers.first());
    workers.extend([join(scene), join(scene)]);
    let all = cell.workers as u64 + 2;
    let status = scene.until("two more compute", |status| status.job.joined == all);
    let leaver = status.job.workers[0].incarnation.to_string();
    let joined = status.job.step;
    assert_success(&scene.run(&["drain", &leaver]));
    drop(held);
    let status = scene.until("one is drained", |status| status.job.drained == 1);
    assert_eq!(status.job.lost, 0);
    format!(
        "joins at step {step}, in at {joined}, drained at {}",
        status.job.step
    )
}

fn coordinator(cell: &Cell, scene: &Scene, lead: u32) -> String {
    let at = CHECKPOINT + cell.at;
    let before = scene.until("a checkpoint is durable", |status| {
        let durable = status.job.durable_step.is_some_and(|step| step.0 > 0);
        durable && status.job.step.0 >= at
    });
    let step = before.job.step;
    signal(lead, Signal::KILL);
    let timeline = before.job.timeline;
    let after = scene.until("another reign", |status| status.job.timeline > timeline);
    format!(
        "killed at step {step}, first seen again at {}",
        after.job.step
    )
}

/// A worker that stands still, and with it the step: for less than a lease, so nobody takes its
/// place. Dropped, it goes on.
struct Held(Option<u32>);

impl Held {
    /// None where nobody is left: without workers the run stands anyway.
    fn new(worker: Option<&Running>) -> Self {
        let pid = worker.map(Running::pid);
        if let Some(pid) = pid {
            signal(pid, Signal::STOP);
        }
        Self(pid)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(pid) = self.0 {
            signal(pid, Signal::CONT);
        }
    }
}

/// The message of a panic, in one line.
fn said(panic: &(dyn Any + Send)) -> String {
    let text = match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text.as_str(),
        (None, Some(text)) => text,
        (None, None) => "it says nothing",
    };
    text.replace('\n', " ")
}
