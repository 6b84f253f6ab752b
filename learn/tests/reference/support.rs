//! A small model and data set of random rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use resilin_core::job::{Document, JobError, Section};
use resilin_core::layout::{Entry, Role};
use resilin_core::random::{Key, Purpose};
use resilin_learn::dataset::{Batch, DataError, Dataset, Manifest, Split, TargetKind, Targets};
use resilin_learn::model::{Microbatch, Model, ModelError, Outcome, Score, Sink, Workspace};
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;

const WIDTH: usize = 60;
const HIDDEN: usize = 24;

/// `y = v . drop(softsign(W x)) + b` with squared loss, and a buffer with the mean input. Not
/// convex, with random draws; only exact operations.
pub(crate) struct Tiny;

impl Tiny {
    fn forward(weights: &[f32], row: &[f32], hidden: &mut [f32; HIDDEN], mask: &[f32]) -> f32 {
        let (matrix, rest) = weights.split_at(HIDDEN * WIDTH);
        let mut y = rest[HIDDEN];
        for (j, h) in hidden.iter_mut().enumerate() {
            let mut a = 0.0;
            for (w, x) in matrix[j * WIDTH..][..WIDTH].iter().zip(row) {
                a += w * x;
            }
            *h = a / (1.0 + a.abs());
            y += rest[j] * mask[j] * *h;
        }
        y
    }
}

impl Model for Tiny {
    fn entries(&self) -> Vec<Entry> {
        let entry = |name: &str, shape: &[usize], role| Entry {
            name: name.into(),
            shape: shape.into(),
            role,
        };
        vec![
            entry("w", &[HIDDEN, WIDTH], Role::Trained),
            entry("v", &[HIDDEN], Role::Trained),
            entry("b", &[1], Role::Trained),
            entry("mean", &[1], Role::Buffer),
        ]
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        let mut draw = Key::new(seed, Purpose::Initial).stream();
        for w in weights.iter_mut() {
            *w = (draw.unit_f32() - 0.5) * 0.5;
        }
        weights[HIDDEN * (WIDTH + 1) + 1] = 0.0;
    }

    fn workspace(&self) -> Workspace {
        Box::new(())
    }

    fn evaluate(
        &self,
        weights: &[f32],
        microbatches: &[Microbatch<'_>],
        _: &mut Workspace,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        for (k, microbatch) in microbatches.iter().enumerate() {
            let batch = microbatch.batch;
            let Targets::Values {
                values: targets, ..
            } = &batch.targets
            else {
                return Err(ModelError("tiny predicts values".into()));
            };
            let gradient = sink.gradient(k);
            gradient.fill(0.0);
            let mut loss_sum = 0.0;
            let mut draw = microbatch.stream(Purpose::Dropout, 0);
            for (row, target) in batch.features.chunks(WIDTH).zip(targets) {
                let mask: Vec<f32> = (0..HIDDEN)
                    .map(|_| if draw.below(4) > 0 { 1.25 } else { 0.0 })
                    .collect();
                let mut hidden = [0.0; HIDDEN];
                let d = Self::forward(weights, row, &mut hidden, &mask) - target;
                loss_sum += f64::from(0.5 * d * d);
                for j in 0..HIDDEN {
                    let s = 1.0 - hidden[j].abs();
                    let da = d * weights[HIDDEN * WIDTH + j] * mask[j] * (s * s);
                    for (g, x) in gradient[j * WIDTH..][..WIDTH].iter_mut().zip(row) {
                        *g += da * x;
                    }
                    gradient[HIDDEN * WIDTH + j] += d * mask[j] * hidden[j];
                }
                gradient[HIDDEN * (WIDTH + 1)] += d;
                gradient[HIDDEN * (WIDTH + 1) + 1] += row[0];
            }
            let samples = batch.rows as u64;
            sink.done(
                k,
                Outcome {
                    samples,
                    weight: samples as f64,
                    loss_sum,
                },
            );
        }
        Ok(())
    }

    fn score(
        &self,
        weights: &[f32],
        batch: &Batch,
        _: &mut Workspace,
    ) -> Result<Score, ModelError> {
        let Targets::Values {
            values: targets, ..
        } = &batch.targets
        else {
            return Err(ModelError("tiny predicts values".into()));
        };
        let mut loss_sum = 0.0;
        for (row, target) in batch.features.chunks(WIDTH).zip(targets) {
            let d = Self::forward(weights, row, &mut [0.0; HIDDEN], &[1.0; HIDDEN]) - target;
            loss_sum += f64::from(0.5 * d * d);
        }
        Ok(Score {
            rows: batch.rows as u64,
            correct: None,
            loss_sum,
            ..Score::default()
        })
    }
}

/// Random rows; row `broken`, if any, has an infinity.
struct Rows {
    manifest: Manifest,
    values: Vec<f32>,
}

impl Rows {
    fn new(rows: u64, seed: u64, broken: Option<usize>) -> Self {
        let mut draw = Key::new(seed, Purpose::Synthetic).stream();
        let count = rows as usize * (WIDTH + 1);
        let mut values: Vec<f32> = (0..count).map(|_| draw.unit_f32() - 0.5).collect();
        if let Some(row) = broken {
            values[row * (WIDTH + 1)] = f32::INFINITY;
        }
        Self {
            manifest: Manifest {
                source: "random".into(),
                files: Vec::new(),
                rows,
                width: WIDTH as u32,
                targets: TargetKind::Values(1),
                missing: "refuse".into(),
                digest: format!("{seed:016x}"),
            },
            values,
        }
    }
}

impl Dataset for Rows {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn read(&self, rows: &[u32], batch: &mut Batch) -> Result<(), DataError> {
        batch.rows = rows.len();
        batch.width = WIDTH;
        batch.features.clear();
        let mut values = Vec::new();
        for row in rows {
            let row = &self.values[*row as usize * (WIDTH + 1)..][..WIDTH + 1];
            batch.features.extend_from_slice(&row[..WIDTH]);
            values.push(4.0 * row[0] * row[1] + row[WIDTH]);
        }
        batch.targets = Targets::Values { width: 1, values };
        Ok(())
    }
}

fn rows(section: &mut Section<'_>) -> Result<Split, JobError> {
    use resilin_core::job::Key;
    const ROWS: Key = Key::bits("rows", "", "Rows.");
    const BROKEN: Key = Key::bits("broken", "", "A row with an infinity.");
    let count = section.unsigned(&ROWS, Some(100), 1..=10_000)?;
    let broken = section.optional_integer(&BROKEN, 0..=9_999)?;
    Ok(Split {
        train: Arc::new(Rows::new(count, 1, broken.map(|b| b as usize))),
        test: Some(Arc::new(Rows::new(600, 2, None))),
    })
}

/// `Tiny` with another gradient at every call.
#[derive(Default)]
struct Flaky(AtomicU32);

impl Model for Flaky {
    fn entries(&self) -> Vec<Entry> {
        Tiny.entries()
    }

    fn initialise(&self, seed: u64, weights: &mut [f32]) {
        Tiny.initialise(seed, weights);
    }

    fn workspace(&self) -> Workspace {
        Tiny.workspace()
    }

    fn evaluate(
        &self,
        _: &[f32],
        microbatches: &[Microbatch<'_>],
        _: &mut Workspace,
        sink: &mut dyn Sink,
    ) -> Result<(), ModelError> {
        for (k, microbatch) in microbatches.iter().enumerate() {
            let calls = self.0.fetch_add(1, Ordering::Relaxed);
            sink.gradient(k).fill(calls as f32);
            let samples = microbatch.batch.rows as u64;
            sink.done(
                k,
                Outcome {
                    samples,
                    weight: samples as f64,
                    loss_sum: 0.0,
                },
            );
        }
        Ok(())
    }

    fn score(&self, w: &[f32], batch: &Batch, space: &mut Workspace) -> Result<Score, ModelError> {
        Tiny.score(w, batch, space)
    }
}

/// A registry that knows `tiny`, `flaky` and `random`.
pub(crate) fn registry() -> Registry {
    Registry::default()
        .model("tiny", |_, _| Ok(Box::new(Tiny)))
        .model("flaky", |_, _| Ok(Box::new(Flaky::default())))
        .data("random", |section, _| rows(section))
}

/// The task of a job file for `tiny` on `random`; `run` and `rest` are added to its text.
pub(crate) fn task(run: &str, data: &str, rest: &str) -> Arc<Task> {
    let text = format!(
        "[run]\nblock = 256\n{run}\n[data]\nname = \"random\"\n{data}\n\
         [model]\nname = \"tiny\"\n{rest}"
    );
    Arc::new(
        registry()
            .task(Document::parse(&text).unwrap(), None)
            .unwrap(),
    )
}
