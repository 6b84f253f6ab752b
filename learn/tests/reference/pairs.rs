//! Leaves that are made part by part, and added to each other while they are made.

use std::ops::Range;
use std::sync::Arc;

use resilin_core::job::Document;
use resilin_core::tree::{Node, Tree};
use resilin_core::{PartitionId, Step};
use resilin_learn::kernel::{Early, Evaluator, TreeSum};
use resilin_learn::model::Outcome;
use resilin_learn::task::Task;

use crate::support::registry;

/// Dense layers with dropout, of widths that no kernel's tile divides.
fn task(batch: u32, partitions: u32, rows: u32, hidden: &str) -> Arc<Task> {
    let text = format!(
        "[run]\nblock = 256\nepochs = 1\nbatch = {batch}\npartitions = {partitions}\n\
         [data]\nname = \"random\"\nrows = {rows}\n\
         [model]\nname = \"mlp\"\nhidden = {hidden}\ndropout = 0.3\n\
         [optimizer]\nname = \"sgd\"\nlearning_rate = 0.1"
    );
    let document = Document::parse(&text).unwrap();
    Arc::new(registry().task(document, None).unwrap())
}

#[test]
fn a_node_has_the_bits_of_its_leaves_added_one_by_one() {
    for (batch, partitions, rows, hidden) in [
        (24, 12, 100, "[37, 19]"),
        (42, 7, 99, "[37, 19]"),
        // Weights of several parts.
        (12, 6, 20, "[401, 403]"),
        // Leaves that are longer than one chain of the product.
        (1200, 4, 1300, "[37, 19]"),
    ] {
        let task = task(batch, partitions, rows, hidden);
        let (weights, length) = (task.initial_weights(), task.layout.len());
        let mut evaluator = Evaluator::new(Arc::clone(&task));
        for step in (0..task.total_steps).map(Step) {
            let with_samples = task.sampling.with_samples(step);
            let mut evaluate = |node: Node| {
                let mut values = vec![0.0; length];
                let result = evaluator.evaluate(&weights, step, node, &mut values);
                (values, result.unwrap().outcome)
            };
            let leaves = with_samples.iter().map(Node::leaf);
            let leaves: Vec<_> = leaves.map(|leaf| (leaf, evaluate(leaf))).collect();
            let root = Tree::new(partitions).root();
            let (values, outcome) = evaluate(root);
            let inputs: Vec<_> = leaves
                .iter()
                .map(|(node, (v, _))| (*node, &v[..]))
                .collect();
            let mut sum = vec![0.0; length];
            TreeSum::default().sum(root, &with_samples, &inputs, &mut sum);
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let case = format!("batch {batch}, {partitions} partitions, step {step}");
            assert_eq!(bits(&values), bits(&sum), "{case}");
            let losses: Vec<_> = leaves.iter().map(|(n, (_, o))| (*n, o.loss_sum)).collect();
            let loss = TreeSum::default().sum_scalars(root, &with_samples, &losses);
            assert_eq!(outcome.loss_sum.to_bits(), loss.to_bits(), "{case}");
            let samples: u64 = leaves.iter().map(|(_, (_, outcome))| outcome.samples).sum();
            assert_eq!(outcome.samples, samples, "{case}");
        }
    }
}

/// Parts as they come, and what they come with.
#[derive(Default)]
struct Parts {
    outcome: Option<Outcome>,
    made: Vec<Vec<f32>>,
    next: Option<Vec<f32>>,
    /// Fewer parts or as many are not wanted.
    unless: usize,
}

impl Early for Parts {
    fn begin(&mut self, outcome: Outcome, parts: &[Range<usize>]) -> bool {
        let before = self.outcome.replace(outcome);
        assert_eq!(before, None, "a sum begins once");
        parts.len() > self.unless
    }

    fn part(&mut self, values: usize) -> &mut [f32] {
        assert!(self.outcome.is_some() && self.next.is_none());
        self.next.insert(vec![f32::NAN; values])
    }

    fn made(&mut self) {
        self.made.extend(self.next.take());
    }
}

#[test]
fn parts_that_are_taken_early_are_the_sum() {
    for (batch, partitions, hidden) in [(24, 12, "[37, 19]"), (12, 6, "[401, 403]")] {
        let task = task(batch, partitions, 90, hidden);
        let weights = task.initial_weights();
        let mut evaluator = Evaluator::new(Arc::clone(&task));
        let (root, leaf) = (Tree::new(partitions).root(), Node::leaf(PartitionId(1)));
        for (step, node) in [
            (Step(0), root),
            (Step(1), leaf),
            (Step(task.total_steps - 1), root),
        ] {
            let mut sum = vec![0.0; task.layout.len()];
            let result = evaluator.evaluate(&weights, step, node, &mut sum).unwrap();
            assert!(!result.taken);
            let mut parts = Parts::default();
            let mut out = vec![0.0; sum.len()];
            let early = evaluator.evaluate_early(&weights, step, node, &mut out, Some(&mut parts));
            assert!(early.unwrap().taken);
            assert_eq!(parts.outcome, Some(result.outcome));
            assert!(parts.made.len() > 1 && parts.next.is_none());
            let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            assert_eq!(
                bits(&parts.made.concat()),
                bits(&sum),
                "{node} at step {step}"
            );
            let mut parts = Parts {
                unless: usize::MAX,
                ..Parts::default()
            };
            let early = evaluator.evaluate_early(&weights, step, node, &mut out, Some(&mut parts));
            assert!(!early.unwrap().taken && parts.made.is_empty());
            assert_eq!(bits(&out), bits(&sum), "{node} at step {step}");
        }
    }
}
