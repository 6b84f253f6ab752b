//! What is said through the pipe, as one line of JSON each: a request, and its answer. Described
//! for those who write the other side in docs/foreign-models.md.

use serde::{Deserialize, Serialize};

/// Version of all of this.
pub(crate) const PROTOCOL: u32 = 1;

/// A request.
#[derive(Debug, Serialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub(crate) enum Ask {
    /// What are you? The first request.
    Describe {
        protocol: u32,
        /// File descriptor of the memory.
        memory: i32,
        seed: u64,
        data: Data,
    },
    /// Write the initial weights.
    Initialise(Space),
    /// The gradient of these rows.
    Gradient {
        #[serde(flatten)]
        space: Space,
        step: u64,
        partition: u32,
        /// Seed of all random draws; below 2^53.
        draw: u64,
        rows: Rows,
    },
    /// The loss of these rows, without draws.
    Score {
        #[serde(flatten)]
        space: Space,
        rows: Rows,
    },
    /// What the model gives for these rows, which have no targets. Asked only of who says that it
    /// predicts.
    Predict {
        #[serde(flatten)]
        space: Space,
        rows: Rows,
        /// Where the values go.
        outputs: u64,
        /// How many have room there.
        room: usize,
    },
}

/// The whole data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Data {
    /// Training rows.
    pub(crate) rows: u64,
    /// Values in a row.
    pub(crate) width: u32,
    pub(crate) kind: Kind,
    /// Classes, values in a target, or numbers in all.
    pub(crate) outputs: u32,
}

/// What the targets of rows are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A class each, as u32.
    Classes,
    /// So many f32 each.
    Values,
    /// The number of the row, as u32: the command has the rows.
    Numbers,
}

/// The memory at the time of a request; positions are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Space {
    /// Size of the memory.
    pub(crate) bytes: u64,
    /// f32 in the order of the tensors.
    pub(crate) weights: u64,
    /// Another number means other weights than before.
    pub(crate) version: u64,
    /// Where a gradient is written, as weights are.
    pub(crate) gradient: u64,
}

/// Rows in the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Rows {
    pub(crate) count: usize,
    /// f32, row by row.
    pub(crate) features: u64,
    /// By kind, row by row; not for a prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) targets: Option<u64>,
}

/// An answer.
#[derive(Debug, Deserialize)]
#[serde(tag = "answer", rename_all = "lowercase")]
pub(crate) enum Answer {
    /// To `describe`.
    Description {
        protocol: u32,
        tensors: Vec<Tensor>,
        /// What must be the same for all processes beside the tensors.
        #[serde(default)]
        fingerprint: String,
        /// Whether it answers `predict`.
        #[serde(default)]
        predicts: bool,
    },
    /// To `initialise`.
    Initial {
        /// Values written.
        values: usize,
    },
    /// To `gradient`.
    Gradient {
        /// Values written.
        values: usize,
        /// Rows evaluated.
        samples: u64,
        /// What the summed gradient is divided by at the step.
        weight: f64,
        /// Sum over the rows; none where it is not finite.
        loss_sum: Option<f64>,
    },
    /// To `score`.
    Score {
        rows: u64,
        /// Rows predicted right; none where there are no classes.
        correct: Option<u64>,
        loss_sum: Option<f64>,
    },
    /// To `predict`.
    Prediction {
        /// Values a row. Where there is no room for those of all rows, nothing is written.
        width: usize,
        /// Values written.
        values: usize,
    },
    /// To any request.
    Failed { why: String },
}

/// A tensor of the model.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    #[serde(default)]
    pub(crate) role: Role,
}

/// What becomes of a tensor's sum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// The optimizer applies it.
    #[default]
    Trained,
    /// It is replaced by the weighted mean of what rows made of it.
    Buffer,
}
