//! What a run writes down about its steps: the records of the append-only ledger (PROTOCOL 26).
//!
//! Only data: machines emit the records, the checkpoint crate stores and reads them. A chain line
//! of step `t` stands for the weights `t`, so the record of step `t` carries line `t + 1`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{Incarnation, Step, Timeline};
use crate::tree::Node;

/// One line of a run's ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// A coordinator took up the run.
    Start {
        /// Its reign.
        reign: u64,
    },
    /// Chain line 0: the initial weights.
    Initial {
        /// The branch they were made in.
        timeline: Timeline,
        /// BLAKE3 over the block-ordered digests of weights 0.
        #[serde(with = "hex")]
        chain: [u8; 32],
    },
    /// A step was committed.
    Step(StepRecord),
    /// A branch begins on the weights of step `base`: every line after `base` is superseded. The
    /// first branch of a run begins at 0, every restore begins one more.
    Rollback {
        /// The new branch.
        timeline: Timeline,
        /// The step whose weights it begins with.
        base: Step,
    },
    /// The run's membership changed; totals since its first start.
    Members(Members),
    /// Rows that no step trains on were evaluated.
    Evaluation {
        /// The branch.
        timeline: Timeline,
        /// The pass over the data that had ended, from 0.
        epoch: u64,
        /// The step whose weights were evaluated.
        step: Step,
        /// Rows counted, each once.
        rows: u64,
        /// Rows predicted right; `None` where targets are values.
        correct: Option<u64>,
        /// Sum of per-row losses, in tree order.
        #[serde(with = "maybe_finite")]
        loss_sum: f64,
    },
}

/// Who came and went, in all: numbers that only grow, over every life of the coordinator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Members {
    /// Members that became ready.
    pub joined: u64,
    /// Members lost without a word.
    pub lost: u64,
    /// Members that left in peace.
    pub drained: u64,
    /// Leases that moved from one member to another.
    pub reassigned: u64,
}

/// A committed step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// The branch.
    pub timeline: Timeline,
    /// The step: it evaluated weights `step` and made weights `step + 1`.
    pub step: Step,
    /// Chain line of weights `step + 1`.
    #[serde(with = "hex")]
    pub chain: [u8; 32],
    /// The tree nodes that were summed, in order of their first partition.
    pub nodes: Vec<Part>,
    /// Samples that were applied.
    pub samples: u64,
    /// Sum of per-sample losses; may be non-finite in a skipped step.
    #[serde(with = "maybe_finite")]
    pub loss_sum: f64,
    /// What the summed gradient was divided by.
    pub weight: f64,
    /// Whether the policy for non-finite values left the weights as they were.
    pub skipped: bool,
    /// Contributions that arrived a second time or too late, and were thrown away.
    pub discarded: u64,
}

/// One node of a committed step and who sent it: advice, not proof (PROTOCOL 26).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// The node.
    pub node: Node,
    /// The process whose copy arrived first.
    pub contributor: Incarnation,
    /// Samples below the node.
    pub samples: u64,
}

/// Digests as 64 hex digits in texts, as 32 bytes elsewhere; for `#[serde(with)]`.
pub mod hex {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes a digest.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(digest: &[u8; 32], s: S) -> Result<S::Ok, S::Error> {
        if s.is_human_readable() {
            s.serialize_str(blake3::Hash::from_bytes(*digest).to_hex().as_str())
        } else {
            digest.serialize(s)
        }
    }

    /// Reads a digest.
    ///
    /// # Errors
    /// Those of the deserializer, and a text that is not 64 hex digits.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<[u8; 32], D::Error> {
        if d.is_human_readable() {
            let text = String::deserialize(d)?;
            let hash = blake3::Hash::from_hex(text).map_err(serde::de::Error::custom)?;
            Ok(*hash.as_bytes())
        } else {
            <[u8; 32]>::deserialize(d)
        }
    }
}

/// JSON has no NaN: a non-finite sum is written as null and read back as NaN.
mod maybe_finite {
    use super::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, s: S) -> Result<S::Ok, S::Error> {
        value.is_finite().then_some(*value).serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(d)?.unwrap_or(f64::NAN))
    }
}
