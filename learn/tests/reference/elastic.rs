//! A run cut into slices and workers at random.

use std::convert::Infallible;
use std::sync::Arc;

use resilin_core::random::{Key, Purpose, Stream};
use resilin_core::sorted::SortedMap;
use resilin_core::tree::{Node, PartitionSet};
use resilin_core::vote::{Action, Flags, Vote, decide};
use resilin_core::{PartitionId, SliceId, Step, Timeline};
use resilin_learn::kernel::{
    Digest, Evaluator, PinnedSlice, SliceKernel, chain_line, tree_sum_f64,
};
use resilin_learn::task::Task;

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
        let (mut scalars, mut losses) = (Vec::new(), Vec::new());
        for (node, worker) in self.deal(&all) {
            let mut out = vec![f32::NAN; weights.len()];
            let result = self.evaluators[worker]
                .evaluate(&weights, step, node, &mut out)
                .unwrap();
            assert_eq!(result.non_finite, []);
            scalars.push((node, result.outcome.weight));
            losses.push((node, result.outcome.loss_sum));
            sums.push((node, out));
        }
        let [weight, loss] =
            [scalars, losses].map(|parts| tree_sum_f64(self.task.tree.root(), &all, &parts));
        let mut votes = SortedMap::new();
        for (id, slice) in (0..).map(SliceId).zip(&mut self.slices) {
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
        let rules = self.task.rules(1).votes;
        let Action::Apply { scale } = decide(&rules, &votes).action else {
            panic!("step {step} is finite");
        };
        for slice in &mut self.slices {
            assert!(slice.apply(step, scale, loss / weight).finite);
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
