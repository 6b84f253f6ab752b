//! The fixed binary tree over the partitions: it alone fixes the order of every sum (DESIGN 1).
//!
//! Node `(level, index)` covers `2^level` partitions. A parent is left + right; where a child has
//! no samples at a step the parent *is* the other child, bit for bit.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::id::PartitionId;

/// A node of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Node {
    /// Height above the leaves; a leaf is one partition.
    pub level: u8,
    /// Position within the level, from the left.
    pub index: u32,
}

impl Node {
    /// The leaf of a partition.
    #[must_use]
    pub fn leaf(partition: PartitionId) -> Self {
        Self {
            level: 0,
            index: partition.0,
        }
    }

    /// Left and right child; `None` for a leaf.
    #[must_use]
    pub fn children(self) -> Option<(Self, Self)> {
        let level = self.level.checked_sub(1)?;
        Some((
            Self {
                level,
                index: self.index.saturating_mul(2),
            },
            Self {
                level,
                index: self.index.saturating_mul(2).saturating_add(1),
            },
        ))
    }

    /// The node above.
    #[must_use]
    pub fn parent(self) -> Self {
        Self {
            level: self.level.saturating_add(1),
            index: self.index / 2,
        }
    }

    /// First partition covered.
    #[must_use]
    pub fn first(self) -> u32 {
        self.leaf_at(self.index.into())
    }

    /// First partition after those covered; may lie beyond the last partition of the run.
    #[must_use]
    pub fn end(self) -> u32 {
        self.leaf_at(u64::from(self.index) + 1)
    }

    /// The first leaf below the node `index` of this level; saturates, as a node may come from
    /// anybody.
    fn leaf_at(self, index: u64) -> u32 {
        let shift = u32::from(self.level).min(31);
        u32::try_from(index << shift).unwrap_or(u32::MAX)
    }

    /// Whether `other` is this node or lies below it.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        let above = |levels: u8| other.index.checked_shr(levels.into()).unwrap_or(0);
        let levels = self.level.checked_sub(other.level);
        levels.is_some_and(|levels| above(levels) == self.index)
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.level, self.index)
    }
}

/// A set of partitions, as a bitmap.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionSet(Vec<u64>);

impl PartitionSet {
    /// Whether the partition is in the set.
    #[must_use]
    pub fn contains(&self, partition: PartitionId) -> bool {
        let (word, bit) = (partition.0 as usize / 64, partition.0 % 64);
        self.0.get(word).is_some_and(|w| w >> bit & 1 == 1)
    }

    /// Adds one partition.
    pub fn insert(&mut self, partition: PartitionId) {
        let (word, bit) = (partition.0 as usize / 64, partition.0 % 64);
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << bit;
    }

    /// Adds the partitions below `node` that are in `within`.
    pub fn insert_node(&mut self, node: Node, within: &Self) {
        for partition in (node.first()..node.end()).map(PartitionId) {
            if within.contains(partition) {
                self.insert(partition);
            }
        }
    }

    /// Whether every partition of `other` is in `self`.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        let mine = self.0.iter().copied().chain(std::iter::repeat(0));
        other
            .0
            .iter()
            .zip(mine)
            .all(|(theirs, mine)| theirs & !mine == 0)
    }

    /// Whether all partitions of `within` below `node` are in the set.
    #[must_use]
    pub fn includes_node(&self, node: Node, within: &Self) -> bool {
        (node.first()..node.end())
            .map(PartitionId)
            .all(|partition| !within.contains(partition) || self.contains(partition))
    }

    /// The partitions in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = PartitionId> + '_ {
        self.0.iter().enumerate().flat_map(|(word, bits)| {
            (0..64)
                .filter(move |bit| bits >> bit & 1 == 1)
                .map(move |bit| {
                    PartitionId(u32::try_from(word * 64 + bit).expect("partitions are u32"))
                })
        })
    }

    /// Number of partitions in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether the set has no member.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }
}

impl FromIterator<PartitionId> for PartitionSet {
    fn from_iter<I: IntoIterator<Item = PartitionId>>(partitions: I) -> Self {
        let mut set = Self::default();
        for partition in partitions {
            set.insert(partition);
        }
        set
    }
}

/// The tree of a run with `partitions` leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    partitions: u32,
}

impl Tree {
    /// A tree over `partitions` leaves; at least one, at most 2^24.
    #[must_use]
    pub fn new(partitions: u32) -> Self {
        assert!(
            (1..=1 << 24).contains(&partitions),
            "a run has 1 to 2^24 partitions"
        );
        Self { partitions }
    }

    /// Number of leaves.
    #[must_use]
    pub fn partitions(self) -> u32 {
        self.partitions
    }

    /// The node that covers every partition.
    #[must_use]
    pub fn root(self) -> Node {
        let level = self.partitions.next_power_of_two().trailing_zeros();
        Node {
            level: u8::try_from(level).expect("at most 24 levels"),
            index: 0,
        }
    }

    /// Whether the node lies in this tree.
    #[must_use]
    pub fn contains(self, node: Node) -> bool {
        node.level <= self.root().level && node.index < self.partitions.div_ceil(1 << node.level)
    }

    /// The fewest nodes that cover exactly `held` among the partitions `with_samples`, in order of
    /// their first partition: what a worker that holds `held` pre-sums and sends.
    #[must_use]
    pub fn maximal_nodes(self, held: &PartitionSet, with_samples: &PartitionSet) -> Vec<Node> {
        let mut nodes = Vec::new();
        self.collect(self.root(), held, with_samples, &mut nodes);
        nodes
    }

    /// Adds up values that some nodes have, in the order of the tree; `None` if none has one. This
    /// and the tensors' sum are the only ways that floats are added across partitions.
    #[must_use]
    pub fn sum(self, value: &impl Fn(Node) -> Option<f64>) -> Option<f64> {
        fn below(node: Node, value: &impl Fn(Node) -> Option<f64>) -> Option<f64> {
            if let Some(own) = value(node) {
                return Some(own);
            }
            let (left, right) = node.children()?;
            match (below(left, value), below(right, value)) {
                (Some(left), Some(right)) => Some(left + right),
                (left, right) => left.or(right),
            }
        }
        below(self.root(), value)
    }

    fn collect(self, node: Node, held: &PartitionSet, all: &PartitionSet, out: &mut Vec<Node>) {
        let mut below = (node.first()..node.end().min(self.partitions))
            .map(PartitionId)
            .filter(|p| all.contains(*p));
        if !below.clone().any(|p| held.contains(p)) {
            return;
        }
        if below.all(|p| held.contains(p)) {
            return out.push(self.narrow(node, all));
        }
        let (left, right) = node.children().expect("a leaf is held or not");
        self.collect(left, held, all, out);
        self.collect(right, held, all, out);
    }

    /// Descends while one child is empty: the parent is then the other child, bit for bit, and the
    /// lower name is the one every holder would choose.
    fn narrow(self, mut node: Node, all: &PartitionSet) -> Node {
        let filled = |n: Node| (n.first()..n.end()).any(|p| all.contains(PartitionId(p)));
        while let Some((left, right)) = node.children() {
            node = match (filled(left), filled(right)) {
                (true, false) => left,
                (false, true) => right,
                _ => return node,
            };
        }
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(partitions: &[u32]) -> PartitionSet {
        partitions.iter().map(|p| PartitionId(*p)).collect()
    }

    fn node(level: u8, index: u32) -> Node {
        Node { level, index }
    }

    #[test]
    fn maximal_nodes_are_aligned_complete_subtrees() {
        let tree = Tree::new(12);
        let all = (0..12).map(PartitionId).collect();
        assert_eq!(tree.root(), node(4, 0));
        assert_eq!(tree.maximal_nodes(&all, &all), vec![node(4, 0)]);
        assert_eq!(
            tree.maximal_nodes(&set(&[1, 2, 3, 4, 5, 6, 7, 9]), &all),
            vec![node(0, 1), node(1, 1), node(2, 1), node(0, 9)]
        );
        assert_eq!(
            tree.maximal_nodes(&set(&[8, 9, 10, 11]), &all),
            vec![node(2, 2)]
        );
    }

    #[test]
    fn a_node_of_no_tree_does_no_harm() {
        for bad in [node(200, 1), node(0, u32::MAX), node(255, u32::MAX)] {
            assert!(!Tree::new(12).contains(bad), "{bad}");
            assert!(bad.first() <= bad.end(), "{bad}");
            assert!(bad.covers(bad), "{bad}");
            assert!(!bad.covers(node(0, 3)), "{bad}");
            assert!(bad.parent().level >= bad.level, "{bad}");
            assert_eq!(bad.children().is_some(), bad.level > 0, "{bad}");
        }
        assert!(!node(0, 1).covers(node(200, 1)));
        assert!(node(200, 0).covers(node(1, 7)));
        assert_eq!(
            (node(200, 1).end(), node(0, u32::MAX).end()),
            (u32::MAX, u32::MAX)
        );
    }

    #[test]
    fn empty_partitions_neither_block_nor_widen_a_node() {
        let tree = Tree::new(8);
        let all = set(&[0, 1, 2, 5]);
        assert_eq!(
            tree.maximal_nodes(&set(&[2, 5]), &all),
            vec![node(0, 2), node(0, 5)]
        );
        assert_eq!(
            tree.maximal_nodes(&set(&[0, 1, 2, 3]), &all),
            vec![node(2, 0)]
        );
        assert_eq!(tree.maximal_nodes(&set(&[4, 6, 7]), &all), vec![]);
    }

    #[test]
    fn coverage_counts_only_partitions_with_samples() {
        let all = set(&[0, 1, 2, 70]);
        let mut covered = PartitionSet::default();
        covered.insert_node(node(2, 0), &all);
        assert_eq!(covered, set(&[0, 1, 2]));
        assert!(covered.includes_node(node(2, 0), &all));
        assert!(!covered.includes(&all));
        covered.insert_node(node(0, 70), &all);
        assert!(covered.includes(&all));
        assert_eq!(
            covered.iter().map(|p| p.0).collect::<Vec<_>>(),
            vec![0, 1, 2, 70]
        );
    }
}
