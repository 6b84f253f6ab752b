//! Second opinions: one leaf evaluated by several members, compared by digest (PROTOCOL 33).

use serde::{Deserialize, Serialize};

use crate::id::{PartitionId, Step, Timeline};

/// Leaves that one message asks about or tells of, at most: a step has one message each way, and a
/// long one is sent in parts.
pub const LEAVES: usize = 1024;

/// A leaf, once more: from a member that has the weights of the step still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The branch of history.
    pub timeline: Timeline,
    /// The step.
    pub step: Step,
    /// The leaf.
    pub partition: PartitionId,
    /// Evaluations of it by this member that are known already; one more is wanted.
    pub known: u32,
}

/// A member's evaluation of an audited leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opinion {
    /// The branch of history.
    pub timeline: Timeline,
    /// The step.
    pub step: Step,
    /// The leaf.
    pub partition: PartitionId,
    /// How often the member has evaluated the leaf, from 1; the report may be repeated.
    pub evaluations: u32,
    /// Digest of the gradient's canonical bits; `None` if the weights of the step are gone.
    pub digest: Option<[u8; 32]>,
}
