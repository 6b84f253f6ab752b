//! What a slice is, and which tensors its state is made of.

use std::ops::Range;
use std::sync::Arc;

use resilin_core::layout::Layout;
use resilin_core::tree::Tree;

use crate::optimizer::UpdateRule;
use crate::schedule::MEMORY;

/// Name of the weights among a slice's tensors; the others are the optimizer's moments, and what the
/// schedule remembers.
pub const WEIGHTS: &str = "weights";

/// Name of what an adaptive schedule remembers among a slice's tensors. Every block has the same
/// values, so that any slice can be made of the parts of any others.
pub const SCHEDULE: &str = "schedule";

/// Where the values of some blocks lie in a tensor of the whole model: one a parameter, but
/// [`MEMORY`] a block in what the schedule remembers.
#[must_use]
pub fn extent(name: &str, layout: &Layout, blocks: Range<usize>) -> Range<usize> {
    match name {
        SCHEDULE => MEMORY * blocks.start..MEMORY * blocks.end,
        _ => layout.values(blocks),
    }
}

/// What a slice is.
#[derive(Clone)]
pub struct SlicePlan {
    /// The whole model's layout.
    pub layout: Arc<Layout>,
    /// The slice's blocks.
    pub blocks: Range<usize>,
    /// The tree that contributions are summed over.
    pub tree: Tree,
    /// How weights are updated.
    pub rule: Arc<UpdateRule>,
}

impl SlicePlan {
    /// The slice's values within the flat vector.
    #[must_use]
    pub fn values(&self) -> Range<usize> {
        self.layout.values(self.blocks.clone())
    }

    /// Names of the slice's tensors in the order in which they travel: the weights come first.
    #[must_use]
    pub fn tensors(&self) -> Vec<&'static str> {
        self.rule.tensors()
    }

    /// Values of one of its tensors.
    #[must_use]
    pub fn length(&self, name: &str) -> usize {
        extent(name, &self.layout, self.blocks.clone()).len()
    }

    /// Values of its longest tensor.
    #[must_use]
    pub fn longest(&self) -> usize {
        let lengths = self.tensors().into_iter().map(|name| self.length(name));
        lengths.max().unwrap_or(0)
    }

    /// Its tensors at step 0.
    #[must_use]
    pub fn initial(&self, weights: &[f32]) -> Vec<Vec<f32>> {
        let each = self.tensors().into_iter().map(|name| match name {
            WEIGHTS => weights[self.values()].to_vec(),
            name => vec![0.0; self.length(name)],
        });
        each.collect()
    }
}
