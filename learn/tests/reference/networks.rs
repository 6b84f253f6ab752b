//! The models on the tape: the serial chain whatever slices, workers and restores there are.

use std::path::Path;
use std::sync::Arc;

use resilin_core::Step;
use resilin_core::job::{Document, JobError, Key, Section};
use resilin_core::layout::Role;
use resilin_core::random::{self, Purpose};
use resilin_learn::dataset::{Batch, DataError, Dataset, Manifest, Split, TargetKind, Targets};
use resilin_learn::kernel::{Evaluator, Which, hex};
use resilin_learn::reference::{self, Progress, Reference};
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;

use crate::elastic::Elastic;

const ROWS: u32 = 50;

/// Rows of drawn whole numbers, all below one count; what they mean is the model's matter.
struct Drawn {
    manifest: Manifest,
    values: Vec<f32>,
    classes: Vec<u32>,
}

const WIDTH: Key = Key::bits("width", "", "Values in a row.");
const COUNT: Key = Key::bits("count", "", "What values stay below.");
const CLASSES: Key = Key::bits("classes", "", "Number of classes.");

pub(crate) fn drawn(section: &mut Section<'_>, _: Option<&Path>) -> Result<Split, JobError> {
    let mut number = |key| {
        let value = section.integer(key, None, 1..=1000)?;
        Ok::<u32, JobError>(u32::try_from(value).expect("in range"))
    };
    let (width, count, classes) = (number(&WIDTH)?, number(&COUNT)?, number(&CLASSES)?);
    let mut stream = random::Key::new(3, Purpose::Synthetic).stream();
    let values = (0..ROWS * width)
        .map(|_| stream.below(count) as f32)
        .collect();
    let train = Arc::new(Drawn {
        manifest: Manifest {
            source: "drawn".into(),
            files: Vec::new(),
            rows: ROWS.into(),
            width,
            targets: TargetKind::Classes(classes),
            missing: "refuse".into(),
            digest: format!("{width}-{count}-{classes}"),
        },
        values,
        classes: (0..ROWS).map(|_| stream.below(classes)).collect(),
    });
    Ok(Split { train, test: None })
}

impl Dataset for Drawn {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn read(&self, rows: &[u32], batch: &mut Batch) -> Result<(), DataError> {
        let width = self.manifest.width as usize;
        batch.rows = rows.len();
        batch.width = width;
        batch.features.clear();
        for row in rows {
            let start = *row as usize * width;
            batch
                .features
                .extend_from_slice(&self.values[start..start + width]);
        }
        let classes = rows.iter().map(|row| self.classes[*row as usize]);
        batch.targets = Targets::Classes(classes.collect());
        Ok(())
    }
}

fn task(data: &str, model: &str) -> Arc<Task> {
    scheduled(data, model, "constant")
}

fn scheduled(data: &str, model: &str, schedule: &str) -> Arc<Task> {
    let text = format!(
        "[run]\nblock = 128\nbatch = 18\npartitions = 6\nsteps = 7\nclip_norm = 0.5\n\
         [data]\nname = \"drawn\"\n{data}\n[model]\n{model}\n\
         [optimizer]\nname = \"adamw\"\nlearning_rate = 0.01\n\
         [schedule]\nname = \"{schedule}\"\n"
    );
    let document = Document::parse(&text).expect("TOML");
    let registry = Registry::default().data("drawn", drawn);
    Arc::new(registry.task(document, None).expect("a job"))
}

fn every_way_gives_the_serial_chain(name: &str, task: &Arc<Task>) {
    let mut chain = Vec::new();
    let trained = reference::run(task, |progress| match progress {
        Progress::Start { chain: line } => chain.push(line),
        Progress::Step(report) => chain.push(report.chain),
        Progress::Epoch { .. } => {}
    });
    let trained = trained.expect("it trains");
    assert_eq!(chain.len() as u64, task.total_steps + 1);
    assert_ne!(trained.weights, task.initial_weights());
    for (shards, seed) in [(1, 0), (3, 1), (5, 2)] {
        let mut elastic = Elastic::new(task, shards, seed);
        for step in 0..task.total_steps {
            if step == 4 {
                elastic.reshard(2);
            }
            elastic.step(Step(step));
            assert_eq!(
                hex(&elastic.chain()),
                hex(&chain[step as usize + 1]),
                "{name}, {shards} slices, seed {seed}, step {step}"
            );
        }
        assert_eq!(elastic.weights(), trained.weights, "{name}");
    }
}

#[test]
fn cnn_with_running_statistics() {
    let layers = r#"["conv 4 3 pad 1 norm", "residual 4", "pool 2", "residual 6 stride 2", "dropout 0.2", "dense 8"]"#;
    let model = format!("name = \"cnn\"\nimage = [6, 6, 2]\nlayers = {layers}");
    let task = task("width = 72\ncount = 9\nclasses = 5", &model);
    every_way_gives_the_serial_chain("cnn", &task);
}

#[test]
fn transformer() {
    let model = "name = \"transformer\"\nblocks = 2\nheads = 2\nwidth = 8\ndropout = 0.1";
    let task = task("width = 7\ncount = 20\nclasses = 20", model);
    every_way_gives_the_serial_chain("transformer", &task);
}

#[test]
fn factorization() {
    let model = "name = \"factorization\"\nfields = [30, 30, 30]\nrank = 4";
    let task = task("width = 3\ncount = 30\nclasses = 2", model);
    every_way_gives_the_serial_chain("factorization", &task);
}

/// The rate falls at every second step that is no better than the best.
#[test]
fn plateau() {
    let data = "width = 9\ncount = 4\nclasses = 3";
    let model = "name = \"mlp\"\nhidden = [12]";
    let schedule = "plateau\"\nevery_steps = 1\npatience = 0\nthreshold = 0.5\ndecay = \"0.25";
    let adaptive = scheduled(data, model, &schedule.replace("\"0.25", "0.25 #"));
    every_way_gives_the_serial_chain("plateau", &adaptive);
    let chain = |task: &Arc<Task>| {
        let trained = reference::run(task, |_| {}).expect("it trains");
        hex(&trained.chain)
    };
    assert_ne!(chain(&adaptive), chain(&task(data, model)), "it never fell");
}

#[test]
fn mlp_with_class_weights() {
    let model = "name = \"mlp\"\nhidden = [12]\nclass_weights = [0.5, 2, 1.25]";
    let task = task("width = 9\ncount = 4\nclasses = 3", model);
    every_way_gives_the_serial_chain("mlp", &task);
}

#[test]
fn vae() {
    let model = "name = \"vae\"\nhidden = [9]\nlatent = 3\nkl_weight = 0.5";
    let task = task("width = 12\ncount = 2\nclasses = 2", model);
    every_way_gives_the_serial_chain("vae", &task);
}

#[test]
fn averages_of_the_weights() {
    let layers = r#"["conv 4 3 pad 1 norm", "dense 8"]"#;
    let model = format!("name = \"cnn\"\nimage = [3, 3, 1]\nlayers = {layers}");
    let data = "width = 9\ncount = 9\nclasses = 5";
    let plain = task(data, &model);
    let averaged = task(data, &format!("{model}\naverage = 0.75"));
    every_way_gives_the_serial_chain("cnn with averages", &averaged);

    // Trained beside each other: the same weights, and an average of them kept in f64.
    let own = plain.layout.len();
    let mut beside = [&plain, &averaged].map(Reference::new);
    let mut kept: Vec<f64> = plain
        .initial_weights()
        .iter()
        .copied()
        .map(f64::from)
        .collect();
    for step in 0..plain.total_steps {
        let keep = f64::min(0.75, (1.0 + step as f64) / (10.0 + step as f64));
        let weights = Arc::clone(beside[0].weights());
        for (average, weight) in kept.iter_mut().zip(weights.iter()) {
            *average = keep * *average + (1.0 - keep) * f64::from(*weight);
        }
        beside.iter_mut().for_each(|run| {
            run.step(Step(step)).expect("it trains");
        });
        let [plain, averaged] = beside.each_ref().map(|run| run.weights().as_slice());
        assert_eq!(plain, &averaged[..own], "the weights after step {step}");
    }
    let mut averages = beside[1].weights()[own..].iter();
    let mut scored = beside[0].weights().to_vec();
    let mut compared = 0;
    for (entry, range) in plain.layout.ranges() {
        if entry.role == Role::Buffer {
            continue;
        }
        for (at, average) in range.zip(&mut averages) {
            let error = (f64::from(*average) - kept[at]).abs();
            assert!(
                error < 1e-6,
                "{} {at}: {average}, not {}",
                entry.name,
                kept[at]
            );
            scored[at] = *average;
            compared += 1;
        }
    }
    assert!(compared > 100 && averages.next().is_none());

    // What is scored is the model with the averages as its weights.
    let score = |task: &Arc<Task>, weights: &[f32]| {
        Evaluator::new(Arc::clone(task)).score_all(weights, Which::Train)
    };
    let found = score(&averaged, beside[1].weights()).expect("rows");
    assert_eq!(found, score(&plain, &scored).expect("rows"));
    assert_ne!(found, score(&plain, beside[0].weights()).expect("rows"));
}
