use resilin_core::PartitionId;
use resilin_core::random::{Key, Purpose, Stream};
use resilin_core::tree::{Node, PartitionSet, Tree};

use super::sum::{Squares, TreeSum, add, add_newest, all_finite, merges_after, tree_sum_f64};

/// Crosses the border of a tile.
const LENGTH: usize = 1030;

fn filled(node: Node, all: &PartitionSet) -> bool {
    (node.first()..node.end()).any(|p| all.contains(PartitionId(p)))
}

/// The rule as DESIGN states it, by plain recursion.
fn by_rule(node: Node, all: &PartitionSet, leaf: &dyn Fn(u32) -> Vec<f32>) -> Option<Vec<f32>> {
    let Some((left, right)) = node.children() else {
        return all
            .contains(PartitionId(node.index))
            .then(|| leaf(node.index));
    };
    match (by_rule(left, all, leaf), by_rule(right, all, leaf)) {
        (Some(l), Some(r)) => Some(l.iter().zip(&r).map(|(l, r)| l + r).collect()),
        (Some(only), None) | (None, Some(only)) => Some(only),
        (None, None) => None,
    }
}

/// A cover of everything below `node`: each node is given whole or by its children.
fn random_cover(node: Node, all: &PartitionSet, draw: &mut Stream, out: &mut Vec<Node>) {
    if !filled(node, all) {
        return;
    }
    match node.children() {
        Some((left, right)) if draw.below(3) > 0 => {
            random_cover(left, all, draw, out);
            random_cover(right, all, draw, out);
        }
        Some(_) | None => out.push(node),
    }
}

fn leaf(seed: u64, partition: u32) -> Vec<f32> {
    let key = Key {
        partition,
        ..Key::new(seed, Purpose::Synthetic)
    };
    let mut draw = key.stream();
    (0..LENGTH)
        .map(|_| match draw.below(8) {
            0 => -0.0,
            1 => 0.0,
            exponent => (draw.unit_f32() - 0.5) * 10f32.powi(3 * exponent as i32 - 12),
        })
        .collect()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// What the streaming form makes of leaves in order.
fn streamed(top: Node, all: &PartitionSet, leaf: &dyn Fn(u32) -> Vec<f32>) -> Vec<f32> {
    let mut stack: Vec<Vec<f32>> = Vec::new();
    for partition in all.iter().filter(|p| top.covers(Node::leaf(*p))) {
        stack.push(leaf(partition.0));
        for _ in 0..merges_after(top, all, partition) {
            let right = stack.pop().unwrap();
            add(stack.last_mut().unwrap(), &right);
        }
    }
    assert_eq!(stack.len(), 1);
    stack.remove(0)
}

#[test]
fn any_cover_in_any_order_gives_the_bits_of_the_rule() {
    let mut sum = TreeSum::default();
    for seed in 0..60 {
        let mut draw = Key::new(seed, Purpose::User).stream();
        let partitions = 1 + draw.below(20);
        let root = Tree::new(partitions).root();
        let mut all: PartitionSet = (0..partitions)
            .map(PartitionId)
            .filter(|_| draw.below(4) > 0)
            .collect();
        all.insert(PartitionId(draw.below(partitions)));
        let leaf = |p| leaf(seed, p);
        let expected = by_rule(root, &all, &leaf).unwrap();
        assert_eq!(
            bits(&streamed(root, &all, &leaf)),
            bits(&expected),
            "streamed, seed {seed}"
        );

        let mut nodes = Vec::new();
        random_cover(root, &all, &mut draw, &mut nodes);
        draw.shuffle(&mut nodes);
        let parts: Vec<Vec<f32>> = nodes
            .iter()
            .map(|n| by_rule(*n, &all, &leaf).unwrap())
            .collect();
        let inputs: Vec<(Node, &[f32])> = nodes
            .iter()
            .copied()
            .zip(parts.iter().map(Vec::as_slice))
            .collect();
        let mut out = vec![f32::NAN; LENGTH];
        sum.sum(root, &all, &inputs, &mut out);
        assert_eq!(
            bits(&out),
            bits(&expected),
            "whole, seed {seed}, nodes {nodes:?}"
        );

        let cut = draw.below(LENGTH as u32) as usize;
        let (low, high) = out.split_at_mut(cut);
        sum.run(&inputs, 0, low);
        sum.run(&inputs, cut, high);
        assert_eq!(bits(&out), bits(&expected), "cut at {cut}, seed {seed}");

        let scalars: Vec<(Node, f64)> = inputs.iter().map(|(n, v)| (*n, f64::from(v[0]))).collect();
        let leaf64 = |p| f64::from(leaf(p)[0]);
        if nodes.iter().all(|n| n.level == 0) {
            let scalar = tree_sum_f64(root, &all, &scalars);
            assert_eq!(
                scalar,
                scalar_by_rule(root, &all, &leaf64).unwrap(),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn the_newest_sums_are_added_as_if_one_after_the_other() {
    for count in 0..4 {
        for values in [0..0, 0..16, 3..40, 5..LENGTH] {
            let sums: Vec<_> = (0..count).map(|partition| leaf(7, partition)).collect();
            let mut left = leaf(8, 0);
            let mut expected = (left.clone(), sums.clone());
            add_newest(&mut left[values.clone()], &sums, values.start);
            while let Some(newest) = expected.1.pop() {
                let below = expected.1.last_mut().unwrap_or(&mut expected.0);
                add(&mut below[values.clone()], &newest[values.clone()]);
            }
            assert_eq!(bits(&left), bits(&expected.0), "{count} sums at {values:?}");
        }
    }
}

fn scalar_by_rule(node: Node, all: &PartitionSet, leaf: &dyn Fn(u32) -> f64) -> Option<f64> {
    let Some((left, right)) = node.children() else {
        return all
            .contains(PartitionId(node.index))
            .then(|| leaf(node.index));
    };
    match (
        scalar_by_rule(left, all, leaf),
        scalar_by_rule(right, all, leaf),
    ) {
        (Some(l), Some(r)) => Some(l + r),
        (Some(only), None) | (None, Some(only)) => Some(only),
        (None, None) => None,
    }
}

#[test]
fn scalars_of_many_leaves_are_added_in_tree_order() {
    for partitions in [1, 2, 3, 7, 16, 100] {
        let all: PartitionSet = (0..partitions).map(PartitionId).collect();
        let root = Tree::new(partitions).root();
        let value = |p: u32| 1.0 / f64::from(p + 1);
        let inputs: Vec<_> = (0..partitions)
            .map(|p| (Node::leaf(PartitionId(p)), value(p)))
            .collect();
        let expected = scalar_by_rule(root, &all, &value).unwrap();
        assert_eq!(
            tree_sum_f64(root, &all, &inputs).to_bits(),
            expected.to_bits()
        );
    }
}

#[test]
fn an_absent_sibling_adds_nothing_not_even_zero() {
    let all: PartitionSet = [PartitionId(2)].into_iter().collect();
    let mut out = [1.0];
    let node = Node::leaf(PartitionId(2));
    TreeSum::default().sum(Tree::new(4).root(), &all, &[(node, &[-0.0])], &mut out);
    assert_eq!(out[0].to_bits(), (-0.0f32).to_bits());
}

#[test]
fn nans_come_out_in_one_pattern() {
    let all: PartitionSet = (0..2).map(PartitionId).collect();
    let leaf = |p| Node::leaf(PartitionId(p));
    let odd = [f32::from_bits(0xffc1_2345)];
    let mut out = [0.0];
    let inputs: [(Node, &[f32]); 2] = [(leaf(1), &odd), (leaf(0), &[1.0])];
    TreeSum::default().sum(Tree::new(2).root(), &all, &inputs, &mut out);
    assert_eq!(out[0].to_bits(), 0x7fc0_0000);
}

#[test]
#[should_panic(expected = "no sum given for 0/1")]
fn a_missing_partition_is_found() {
    let all: PartitionSet = (0..2).map(PartitionId).collect();
    let inputs: [(Node, &[f32]); 1] = [(Node::leaf(PartitionId(0)), &[1.0])];
    TreeSum::default().sum(Tree::new(2).root(), &all, &inputs, &mut [0.0]);
}

#[test]
#[should_panic(expected = "nodes overlap")]
fn an_overlap_is_found() {
    let all: PartitionSet = (0..2).map(PartitionId).collect();
    let root = Tree::new(2).root();
    let inputs: [(Node, &[f32]); 2] = [(root, &[1.0]), (Node::leaf(PartitionId(1)), &[1.0])];
    TreeSum::default().sum(root, &all, &inputs, &mut [0.0]);
}

fn sum_of_squares(values: &[f32]) -> f64 {
    let mut squares = Squares::default();
    squares.add(values);
    squares.total()
}

#[test]
fn squares_do_not_depend_on_how_values_are_cut() {
    let values: Vec<f32> = (0..1000).map(|i| (i as f32 * 0.37).sin()).collect();
    for tile in [16, 48, 512] {
        let mut squares = Squares::default();
        values.chunks(tile).for_each(|part| squares.add(part));
        assert_eq!(squares.total(), sum_of_squares(&values), "tiles of {tile}");
    }
}

#[test]
fn squares_and_finiteness_look_at_every_value() {
    for length in [1, 15, 16, 17, 33] {
        let ones = vec![-2.0f32; length];
        assert_eq!(sum_of_squares(&ones), 4.0 * length as f64);
        assert!(all_finite(&ones));
        for place in 0..length {
            for broken in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut values = ones.clone();
                values[place] = broken;
                assert!(!all_finite(&values), "{broken} at {place} of {length}");
                assert!(
                    !sum_of_squares(&values).is_finite(),
                    "{broken} at {place} of {length}"
                );
            }
        }
    }
    assert!(sum_of_squares(&[f32::MAX; 64]).is_finite());
}
