//! A small model and data set, and a run cut into slices and workers at random.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use resilin_core::job::{Document, JobError, NonFinite, Section};
use resilin_core::layout::{Entry, Role};
use resilin_core::random::{Key, Purpose, Stream};
use resilin_core::tree::{Node, PartitionSet};
use resilin_core::vote::{Action, Flags, Vote, VoteRules, decide};
use resilin_core::{PartitionId, Step, Timeline};
use resilin_learn::dataset::{Batch, DataError, Dataset, Manifest, Split, TargetKind, Targets};
use resilin_learn::kernel::{
    Digest, Evaluator, PinnedSlice, SliceKernel, chain_line, tree_sum_f64,
};
use resilin_learn::model::{Microbatch, Model, ModelError, Outcome, Score, Sink, Workspace};
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;

const WIDTH: usize = 60;
const HIDDEN: usize = 24;

/// `y = v . drop(softsign(W x)) + b` with squared loss, and a buffer with the mean input. Not
/// convex, with random draws; only exact operations.
struct Tiny;

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

/// A registry that knows `tiny` and `random`.
pub(crate) fn registry() -> Registry {
    Registry::default()
        .model("tiny", |_, _| Ok(Box::new(Tiny)))
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

/// A run whose slices and workers are made up anew by `draw`.
pub(crate) struct Elastic {
    task: Arc<Task>,
    evaluators: Vec<Evaluator>,
    slices: Vec<SliceKernel>,
    draw: Stream,
}

impl Elastic {
    /// A run before step 0 on `shards` slices with three workers.
    pub(crate) fn new(task: &Arc<Task>, shards: u16, seed: u64) -> Self {
        let weights = task.initial_weights();
        let map = task.slices(shards);
        let slices = map.ids().map(|id| {
            let plan = task.slice_plan(map.range(id));
            let part = weights[plan.values()].to_vec();
            SliceKernel::new(plan, part)
        });
        Self {
            evaluators: (0..3).map(|_| Evaluator::new(Arc::clone(task))).collect(),
            slices: slices.collect(),
            draw: Key::new(seed, Purpose::User).stream(),
            task: Arc::clone(task),
        }
    }

    /// The chain line of the newest version.
    pub(crate) fn chain(&self) -> Digest {
        chain_line(self.slices.iter().flat_map(|s| s.digests()))
    }

    /// The newest weights.
    pub(crate) fn weights(&self) -> Vec<f32> {
        let version = |s: &SliceKernel| s.weights(s.version()).unwrap().to_vec();
        self.slices.iter().flat_map(version).collect()
    }

    /// Deals the partitions to three workers at random, evaluates their nodes, and applies.
    pub(crate) fn step(&mut self, step: Step) {
        let weights = self.weights();
        let all = self.task.sampling.with_samples(step);
        let mut sums: Vec<(Node, Vec<f32>)> = Vec::new();
        let mut scalars = Vec::new();
        for (node, worker) in self.deal(&all) {
            let mut out = vec![f32::NAN; weights.len()];
            let result = self.evaluators[worker]
                .evaluate(&weights, step, node, &mut out)
                .unwrap();
            assert_eq!(result.non_finite, []);
            scalars.push((node, result.outcome.weight));
            sums.push((node, out));
        }
        let weight = tree_sum_f64(self.task.tree.root(), &all, &scalars);
        let mut votes = BTreeMap::new();
        for (id, slice) in self.task.slices(u16::MAX).ids().zip(&mut self.slices) {
            let values = slice.plan().values();
            let parts: Vec<(Node, &[f32])> =
                sums.iter().map(|(n, v)| (*n, &v[values.clone()])).collect();
            let stats = slice.combine(step, &parts, &all, weight);
            let vote = Vote {
                timeline: Timeline::first(1),
                step,
                slice: id,
                squares: stats.squares,
                non_finite: stats.non_finite,
                flags: Flags::default(),
            };
            votes.insert(id, vote);
        }
        let rules = VoteRules {
            clip_norm: self.task.job.run.clip_norm,
            non_finite: NonFinite::Halt,
            total_steps: self.task.total_steps,
            cut_every: None,
        };
        let Action::Apply { scale } = decide(&rules, &votes).action else {
            panic!("step {step} is finite");
        };
        for slice in &mut self.slices {
            assert!(slice.apply(step, scale).finite);
        }
    }

    fn deal(&mut self, all: &PartitionSet) -> Vec<(Node, usize)> {
        let mut held = [const { Vec::new() }; 3];
        for partition in (0..self.task.tree.partitions()).map(PartitionId) {
            held[self.draw.below(3) as usize].push(partition);
        }
        let mut nodes = Vec::new();
        for (worker, held) in held.into_iter().enumerate() {
            let held = held.into_iter().collect();
            let maximal = self.task.tree.maximal_nodes(&held, all);
            nodes.extend(maximal.into_iter().map(|n| (n, worker)));
        }
        self.draw.shuffle(&mut nodes);
        nodes
    }

    /// The same run on another number of slices, through what a checkpoint holds.
    pub(crate) fn reshard(&mut self, shards: u16) {
        let version = self.slices[0].version();
        let mut pins: Vec<PinnedSlice> = Vec::new();
        for slice in &self.slices {
            let mut pin = PinnedSlice::default();
            slice.pin(&mut pin);
            assert_eq!(pin.version(), version);
            pins.push(pin);
        }
        let flat = |name: &str| -> Vec<f32> {
            let tensor = |pin: &PinnedSlice| {
                let mut tensors = pin.tensors();
                tensors.find(|(n, _)| *n == name).unwrap().1.to_vec()
            };
            pins.iter().flat_map(tensor).collect()
        };
        let map = self.task.slices(shards);
        let restored = map.ids().map(|id| {
            let plan = self.task.slice_plan(map.range(id));
            let restored = SliceKernel::restore(plan, version, |name, range, out| {
                out.copy_from_slice(&flat(name)[range]);
                Ok::<(), Infallible>(())
            });
            match restored {
                Ok(slice) => slice,
                Err(never) => match never {},
            }
        });
        self.slices = restored.collect();
    }
}
