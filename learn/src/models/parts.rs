//! The gradient of dense layers in parts that stay in the cache while all microbatches add to them.

use std::ops::Range;

use super::layers::{Dense, Layers};
use super::pass::Scratch;
use crate::math::{Write, add_sum_of_rows, multiply_rows, multiply_rows_along, sum_rows, view};
use crate::model::Piece;

/// Rows that the kernel of a product makes at once: the last ones of a part that is no multiple of
/// them cost as much as all.
const KERNEL: usize = 16;

/// Rows of a microbatch up to which writing a gradient costs enough to choose the product's way.
const SHORT_ROWS: usize = 64;

/// What a part is.
enum Tensor {
    /// These rows of a layer's weight.
    Weight(Range<usize>),
    /// A layer's bias.
    Bias,
}

/// The parts of a model, in layout order.
pub(super) struct Parts {
    /// Where each lies in the flat vector.
    pub(super) ranges: Vec<Range<usize>>,
    tensors: Vec<(usize, Tensor)>,
}

impl Parts {
    /// A part of so many values fits a second-level cache with the sums that wait for it. Smaller
    /// ones cost more packing of the other factor.
    pub(super) const CACHED: usize = 1 << 17;

    /// Parts of about `most` values at most, unless a few rows have more.
    pub(super) fn of(dense: &[Dense], most: usize) -> Self {
        let mut parts = Self {
            ranges: Vec::new(),
            tensors: Vec::new(),
        };
        for (number, layer) in dense.iter().enumerate() {
            let count = (layer.inputs * layer.outputs).div_ceil(most);
            let height = layer.inputs.div_ceil(count).next_multiple_of(KERNEL);
            for start in (0..layer.inputs).step_by(height) {
                let rows = start..layer.inputs.min(start + height);
                let at = |row: usize| layer.weight.start + row * layer.outputs;
                parts.ranges.push(at(rows.start)..at(rows.end));
                parts.tensors.push((number, Tensor::Weight(rows)));
            }
            if let Some(bias) = &layer.bias {
                parts.ranges.push(bias.clone());
                parts.tensors.push((number, Tensor::Bias));
            }
        }
        parts
    }

    /// Makes a part: rows of x^T dy, or the sum of dy's rows.
    pub(super) fn make(&self, model: &Layers, scratch: &Scratch, piece: Piece<'_>) {
        let Piece {
            k,
            part,
            values,
            write,
        } = piece;
        let (number, tensor) = &self.tensors[part];
        let layer = &model.dense[*number];
        let rows = &scratch.spans[k];
        let above =
            &scratch.gradient(*number)[rows.start * layer.outputs..rows.end * layer.outputs];
        match (tensor, write) {
            (Tensor::Weight(block), write) => {
                let below = scratch.input(*number);
                let below = &below[rows.start * layer.inputs..rows.end * layer.inputs];
                let below = view(below, rows.len(), layer.inputs);
                let (left, block) = (below.reversed_axes(), block.clone());
                let right = view(above, rows.len(), layer.outputs);
                if rows.len() <= SHORT_ROWS {
                    multiply_rows_along(left, block, right, values, write);
                } else {
                    multiply_rows(left, block, right, values, write);
                }
            }
            (Tensor::Bias, Write::Replace) => sum_rows(above, values),
            (Tensor::Bias, Write::Add) => add_sum_of_rows(above, values),
        }
    }
}
