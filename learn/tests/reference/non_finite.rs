use resilin_core::job::NonFinite;
use resilin_core::tree::Node;
use resilin_core::{PartitionId, Step};
use resilin_learn::kernel::{Evaluator, PinnedSlice, SliceKernel};
use resilin_learn::reference::{self, Fate, Progress};
use std::sync::Arc;

use crate::support::task;

/// Rows in file order: row 55 is the sixth of partition 5's ten, so it comes at step 2.
const RUN: &str = "batch = 20\npartitions = 10\nshuffle = \"none\"\nepochs = 1";

#[test]
fn a_broken_row_halts_the_run_and_names_step_and_partition() {
    let task = task(RUN, "broken = 55", "");
    assert_eq!(task.job.run.non_finite, NonFinite::Halt);
    let mut steps = 0;
    let error = reference::run(&task, |progress| {
        steps += u64::from(matches!(progress, Progress::Step(_)));
    })
    .unwrap_err();
    assert_eq!(steps, 2);
    let text = error.to_string();
    assert!(
        text.starts_with("step 2: the gradient of partition 5 is not finite"),
        "{text}"
    );
}

/// Nothing was learned yet: the rows or the model give it, and the rows have names.
#[test]
fn at_the_first_step_the_rows_are_named_and_not_the_learning_rate() {
    let task = task(RUN, "broken = 50", "");
    let error = reference::run(&task, |_| {}).unwrap_err();
    assert_eq!(
        error.to_string(),
        "step 0: the gradient of partition 5 is not finite; the model gives it with its first \
         weights on training rows 50 and 51 (from 0): look for values of the rows that are too \
         large, a log of 0 or a division by 0, or set non_finite = \"skip\""
    );
}

#[test]
fn a_skipped_step_changes_nothing_but_the_step() {
    let task = task(&format!("{RUN}\nnon_finite = \"skip\""), "broken = 55", "");
    let mut lines = Vec::new();
    let trained = reference::run(&task, |progress| match progress {
        Progress::Start { chain } => lines.push((chain, Fate::Applied)),
        Progress::Step(report) => {
            assert_eq!(report.samples == 0, report.fate == Fate::Skipped);
            lines.push((report.chain, report.fate));
        }
        Progress::Epoch { .. } => {}
    })
    .unwrap();
    let fates: Vec<Fate> = lines.iter().map(|(_, fate)| *fate).collect();
    let expected = [
        Fate::Applied,
        Fate::Applied,
        Fate::Applied,
        Fate::Skipped,
        Fate::Applied,
    ];
    assert_eq!(fates[..5], expected);
    assert_eq!(lines[3].0, lines[2].0);
    assert_ne!(lines[4].0, lines[3].0);
    assert!(trained.weights.iter().all(|w| w.is_finite()));
}

#[test]
fn the_evaluator_names_the_broken_leaves_with_a_repeatable_digest() {
    let task = task(RUN, "broken = 55", "");
    let weights = task.initial_weights();
    let mut out = vec![0.0; weights.len()];
    let mut evaluator = Evaluator::new(Arc::clone(&task));
    let root = task.tree.root();
    let result = evaluator
        .evaluate(&weights, Step(2), root, &mut out)
        .unwrap();
    let [(partition, digest)] = result.non_finite[..] else {
        panic!("{:?}", result.non_finite);
    };
    assert_eq!(partition, PartitionId(5));
    let mut other = Evaluator::new(Arc::clone(&task));
    let again = other
        .digest_leaf(&weights, Step(2), partition, &mut out)
        .unwrap();
    assert_eq!(again.1, digest);
    let leaf = Node::leaf(PartitionId(4));
    let clean = evaluator
        .evaluate(&weights, Step(2), leaf, &mut out)
        .unwrap();
    assert_eq!(clean.non_finite, []);
    assert!(out.iter().all(|g| g.is_finite()));
}

#[test]
fn every_node_above_a_broken_leaf_names_it_and_no_other_does() {
    let task = task(RUN, "broken = 55", "");
    let weights = task.initial_weights();
    let mut out = vec![0.0; weights.len()];
    let mut evaluator = Evaluator::new(Arc::clone(&task));
    let mut named = Vec::new();
    let mut nodes = vec![task.tree.root()];
    while let Some(node) = nodes.pop() {
        let result = evaluator.evaluate(&weights, Step(2), node, &mut out);
        let broken: Vec<u32> = result
            .unwrap()
            .non_finite
            .iter()
            .map(|(p, _)| p.0)
            .collect();
        assert!(
            !broken.is_empty() || out.iter().all(|g| g.is_finite()),
            "{node}"
        );
        named.push((node.first()..node.end(), broken));
        let has_samples = |node: &Node| node.first() < 10;
        let below = node
            .children()
            .into_iter()
            .flat_map(|(left, right)| [left, right]);
        nodes.extend(below.filter(has_samples));
    }
    assert_eq!(named.len(), 21);
    for (leaves, broken) in named {
        let expected = if leaves.contains(&5) { vec![5] } else { vec![] };
        assert_eq!(broken, expected, "{leaves:?}");
    }
}

#[test]
fn weights_that_stop_being_finite_are_told_before_they_are_published() {
    let task = task(RUN, "", "[optimizer]\nname = \"sgd\"\nlearning_rate = 1e6");
    let weights = task.initial_weights();
    let mut slice = SliceKernel::new(task.slice_plan(0..task.layout.blocks()), weights);
    let mut sum = vec![0.0; task.layout.len()];
    sum[300] = 1e38;
    let all = task.sampling.with_samples(Step(0));
    let stats = slice.combine(Step(0), &[(task.tree.root(), &sum)], &all, 1.0);
    assert_eq!(stats.non_finite, []);
    let applied = slice.apply(Step(0), 1.0, 0.5);
    assert_eq!((applied.version, applied.finite), (Step(1), false));
}

#[test]
fn a_sum_that_overflows_names_its_block() {
    let task = task(RUN, "", "");
    let weights = task.initial_weights();
    let mut slice = SliceKernel::new(task.slice_plan(1..3), weights[256..768].to_vec());
    let mut half = vec![0.0; 512];
    half[300] = f32::MAX;
    let all = [PartitionId(0), PartitionId(1)].into_iter().collect();
    let leaf = |p| Node::leaf(PartitionId(p));
    let stats = slice.combine(Step(0), &[(leaf(1), &half), (leaf(0), &half)], &all, 2.0);
    assert_eq!(stats.non_finite, [2]);
    assert_eq!(stats.squares, [0.0, f64::INFINITY]);
    let before = slice.digests().to_vec();
    let skipped = slice.skip(Step(0));
    assert_eq!((skipped.version, skipped.digests), (Step(1), before));
    assert_eq!(slice.weights(Step(0)), slice.weights(Step(1)));
}

#[test]
fn a_skip_keeps_weights_and_moments() {
    let task = task(RUN, "", "[optimizer]\nname = \"adam\"");
    let weights = task.initial_weights();
    let mut slice = SliceKernel::new(task.slice_plan(0..task.layout.blocks()), weights);
    let sum = vec![0.5; task.layout.len()];
    let all = task.sampling.with_samples(Step(0));
    slice.combine(Step(0), &[(task.tree.root(), &sum)], &all, 20.0);
    slice.apply(Step(0), 1.0, 0.5);
    let tensors = |slice: &SliceKernel| {
        let mut pin = PinnedSlice::default();
        slice.pin(&mut pin);
        let copies = pin.tensors().map(|(name, values)| (name, values.to_vec()));
        (pin.version(), copies.collect::<Vec<_>>())
    };
    let (version, before) = tensors(&slice);
    assert_eq!(version, Step(1));
    assert_eq!(
        before.iter().map(|(n, _)| *n).collect::<Vec<_>>(),
        ["weights", "adam.m", "adam.v"]
    );
    assert!(before.iter().all(|(_, values)| values[7] != 0.0));
    slice.skip(Step(1));
    assert_eq!(tensors(&slice), (Step(2), before));
}
