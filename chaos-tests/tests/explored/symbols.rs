//! Arithmetic as symbols: a tensor is a number that tells from which weights and rows it was made.

use std::fmt::{self, Debug, Write};
use std::hash::{DefaultHasher, Hash, Hasher};

use resilin_core::sorted::SortedMap;
use resilin_core::tree::Node;
use resilin_core::{PartitionId, SliceId, Step};

/// Partitions of the explored job.
pub(crate) const PARTITIONS: u32 = 2;

/// Its slices.
pub(crate) const SLICES: u16 = 2;

/// Its steps.
pub(crate) const STEPS: u64 = 2;

/// One slice's weights of a version.
pub(crate) type Weights = u64;

/// A gradient: for each partition the weights of all slices that it was evaluated on.
pub(crate) type Gradient = SortedMap<PartitionId, Vec<Weights>>;

/// A number for whatever has a text.
pub(crate) fn digest(what: &impl Debug) -> u64 {
    struct Text(DefaultHasher);
    impl Write for Text {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.write(text.as_bytes());
            Ok(())
        }
    }
    let mut text = Text(DefaultHasher::new());
    write!(text, "{what:?}").expect("a hasher takes everything");
    text.0.finish()
}

fn hash(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// A slice's first weights.
pub(crate) fn initial(slice: SliceId) -> Weights {
    hash(("initial", slice.0))
}

/// The gradient of a node on these weights.
pub(crate) fn gradient(node: Node, weights: &[Weights]) -> Gradient {
    let partitions = (node.first()..node.end().min(PARTITIONS)).map(PartitionId);
    partitions.map(|p| (p, weights.to_vec())).collect()
}

/// The weights after a step.
pub(crate) fn next(slice: SliceId, step: Step, before: Weights, root: &Gradient) -> Weights {
    hash((slice.0, step.0, before, root))
}

/// What the serial run has: weights by version and slice.
pub(crate) fn serial() -> Vec<Vec<Weights>> {
    let slices = || (0..SLICES).map(SliceId);
    let mut versions = vec![slices().map(initial).collect::<Vec<_>>()];
    for step in (0..STEPS).map(Step) {
        let weights = versions.last().expect("the initial ones").clone();
        let root = (0..PARTITIONS)
            .flat_map(|p| gradient(Node::leaf(PartitionId(p)), &weights))
            .collect();
        let made = slices().map(|s| next(s, step, weights[usize::from(s.0)], &root));
        versions.push(made.collect());
    }
    versions
}

/// Weights as the digests of a slice's blocks.
pub(crate) fn blocks(weights: Weights, count: usize) -> Vec<[u8; 32]> {
    let mut block = [0; 32];
    block[..8].copy_from_slice(&weights.to_le_bytes());
    vec![block; count]
}
