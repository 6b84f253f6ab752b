//! How the parameters lie in one flat vector, and how blocks of it are dealt to slices.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::id::SliceId;

/// What happens to an entry's sum at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Summed by the tree, applied by the optimizer.
    Trained,
    /// Summed by the tree, replaced by sum / weight (batch statistics, counters).
    Buffer,
}

/// One named tensor of the flat vector.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Name in checkpoints and exports, such as `layer0.weight`.
    pub name: String,
    /// Dimensions, row-major.
    pub shape: Vec<usize>,
    /// Trained by the optimizer, or a buffer.
    pub role: Role,
}

impl Entry {
    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the entry has no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The flat vector of a model: entries in their fixed order, cut into blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    entries: Vec<Entry>,
    block: usize,
}

impl Layout {
    /// A layout with blocks of `block` values (at least 1).
    #[must_use]
    pub fn new(entries: Vec<Entry>, block: usize) -> Self {
        assert!(block > 0, "a block has at least one value");
        Self { entries, block }
    }

    /// The named tensors in flatten order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Number of values in all.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.iter().map(Entry::len).sum()
    }

    /// Whether there is no value at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Values in a block: the unit of hashing, norms and slice borders.
    #[must_use]
    pub fn block(&self) -> usize {
        self.block
    }

    /// Number of blocks; the last one may be short.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.len().div_ceil(self.block)
    }

    /// Each entry with its range in the flat vector.
    pub fn ranges(&self) -> impl Iterator<Item = (&Entry, Range<usize>)> {
        self.entries.iter().scan(0, |start, entry| {
            let range = *start..*start + entry.len();
            *start = range.end;
            Some((entry, range))
        })
    }

    /// The values of a range of blocks.
    #[must_use]
    pub fn values(&self, blocks: Range<usize>) -> Range<usize> {
        let length = self.len();
        (blocks.start * self.block).min(length)..(blocks.end * self.block).min(length)
    }
}

/// Which blocks each slice has: a pure function of the block count and the slice count; the first
/// slices have one block more (13 over 5: 3, 3, 3, 2, 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceMap {
    blocks: usize,
    slices: u16,
}

impl SliceMap {
    /// `blocks` dealt to at most `slices` slices (at least 1 each): never more slices than blocks,
    /// so that no slice is empty.
    #[must_use]
    pub fn new(blocks: usize, slices: u16) -> Self {
        assert!(
            blocks > 0 && slices > 0,
            "an empty model or no shard is refused before"
        );
        let slices = slices.min(u16::try_from(blocks).unwrap_or(u16::MAX));
        Self { blocks, slices }
    }

    /// The same blocks dealt to another number of slices.
    #[must_use]
    pub fn with_slices(self, slices: u16) -> Self {
        Self::new(self.blocks, slices)
    }

    /// Number of slices.
    #[must_use]
    pub fn slices(self) -> u16 {
        self.slices
    }

    /// The slices in order.
    pub fn ids(self) -> impl Iterator<Item = SliceId> {
        (0..self.slices).map(SliceId)
    }

    /// The blocks of a slice.
    #[must_use]
    pub fn range(self, slice: SliceId) -> Range<usize> {
        let (count, s) = (usize::from(self.slices), usize::from(slice.0));
        let (length, longer) = (self.blocks / count, self.blocks % count);
        let start = s * length + s.min(longer);
        start..start + length + usize::from(s < longer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_tile_the_blocks() {
        let lengths = |blocks, slices| {
            let map = SliceMap::new(blocks, slices);
            map.ids().map(|s| map.range(s).len()).collect::<Vec<_>>()
        };
        assert_eq!(lengths(13, 5), vec![3, 3, 3, 2, 2]);
        assert_eq!(lengths(2, 5), vec![1, 1]);
        assert_eq!(SliceMap::new(13, 5).range(SliceId(3)), 9..11);
    }

    #[test]
    fn entries_and_blocks_cover_the_flat_vector() {
        let entry = |name: &str, shape: &[usize]| Entry {
            name: name.into(),
            shape: shape.into(),
            role: Role::Trained,
        };
        let layout = Layout::new(vec![entry("w", &[3, 4]), entry("b", &[4])], 5);
        assert_eq!((layout.len(), layout.blocks()), (16, 4));
        assert_eq!(layout.values(3..4), 15..16);
        assert_eq!(
            layout.ranges().map(|(_, r)| r).collect::<Vec<_>>(),
            vec![0..12, 12..16]
        );
    }
}
