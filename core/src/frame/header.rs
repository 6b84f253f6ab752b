//! The header of a data frame: what a piece of a tensor is, and where it belongs.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{FrameError, PIECE_VALUES};
use crate::id::{Incarnation, MapNumber, RunId, Step, Timeline, View};
use crate::tree::Node;

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// A summed gradient of a tree node, towards a slice.
    Gradient,
    /// A summed weight difference after a communication window.
    Delta,
    /// What a slot owns between steps.
    SlotState,
    /// The weights of a slice at a step.
    Weights,
    /// Per-block values of a vote.
    Vote,
    /// The summed and prepared gradient of a slice, from primary to backup.
    Root,
    /// One tensor of a slice's whole state: weights or a moment, in this order.
    State,
}

/// How the values are written in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// Raw little-endian f32.
    F32,
    /// The upper half of each f32.
    Bf16,
    /// Eight-bit integers with a scale a group.
    Int8,
    /// Indices and values of the largest entries.
    TopK,
    /// Runs of values of a piece that is mostly zero, such as the rows of a table that a step touched.
    SparseRows {
        /// Values of the piece.
        values: u32,
    },
    /// Runs of values of a piece of which the rest is as in the version that it is based on.
    ChangedRows {
        /// Values of the piece.
        values: u32,
    },
}

/// Header of one piece of a tensor; all pieces of a tensor differ only in `offset`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataHeader {
    /// The run.
    pub run: RunId,
    /// What the tensor is.
    pub kind: Kind,
    /// Branch of the run's history; receivers drop lower ones.
    pub timeline: Timeline,
    /// Number of the slice layout.
    pub map: MapNumber,
    /// Who serves the slice, as the sender believes.
    pub view: View,
    /// Life of the sending process.
    pub incarnation: Incarnation,
    /// Number of the tensor on its link, from 0; set by the link.
    pub sequence: u64,
    /// The step, or in asynchronous modes the slot's clock.
    pub step: Step,
    /// Version of the slice that the tensor was computed from, in asynchronous modes; of weights, the
    /// one before, if the receiver holds it and changes since will do.
    pub based_on: Option<Step>,
    /// The tree node that is summed, for gradients, deltas and slot state.
    pub node: Option<Node>,
    /// The blocks of the layout that the tensor covers.
    pub blocks: Range<usize>,
    /// First value of this piece within the tensor.
    pub offset: u64,
    /// Number of values of the whole tensor.
    pub total: u64,
    /// How the payload is written.
    pub encoding: Encoding,
    /// Samples summed.
    pub samples: u64,
    /// Weight summed; the divisor of the sum.
    pub weight: f64,
    /// Loss summed over the samples.
    pub loss_sum: f64,
}

impl DataHeader {
    /// Checks the header against the length of its payload in bytes and returns the number of
    /// values in the piece. f32 and rows are defined so far.
    pub fn check(&self, payload: usize) -> Result<usize, FrameError> {
        let fault = |text: String| Err(FrameError::Data(text));
        match self.encoding {
            Encoding::F32 => {}
            Encoding::SparseRows { values } => return self.check_runs(values as usize, payload),
            Encoding::ChangedRows { .. } if self.based_on.is_none() => {
                return fault("changes since no version".into());
            }
            Encoding::ChangedRows { values } => {
                return self.check_runs(values as usize, payload);
            }
            Encoding::Bf16 | Encoding::Int8 | Encoding::TopK => {
                return fault(format!("encoding {:?} is not supported", self.encoding));
            }
        }
        if !payload.is_multiple_of(4) {
            return fault(format!("{payload} bytes are no whole number of f32"));
        }
        let values = payload / 4;
        if values == 0 && self.total > 0 {
            return fault("a piece without values".into());
        }
        match self.offset.checked_add(values as u64) {
            Some(end) if end <= self.total => Ok(values),
            Some(_) | None => fault(format!(
                "values {}+{values} of a tensor of {}",
                self.offset, self.total
            )),
        }
    }

    /// A piece in runs has values that there could be in its place, and fewer bytes.
    fn check_runs(&self, values: usize, payload: usize) -> Result<usize, FrameError> {
        let left = self.total.saturating_sub(self.offset);
        let most = left.min(PIECE_VALUES as u64) as usize;
        if values == 0 || values > most || payload > values * 4 {
            return Err(FrameError::Data(format!(
                "{payload} bytes for {values} of the {left} values that are left, in runs"
            )));
        }
        Ok(values)
    }

    /// Whether this piece belongs to the same tensor of a link as `other`.
    #[must_use]
    pub fn continues(&self, other: &Self) -> bool {
        (self.kind, self.sequence, self.total) == (other.kind, other.sequence, other.total)
    }
}
