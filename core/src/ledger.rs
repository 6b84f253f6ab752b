//! What a run writes down about its steps: the records of the append-only ledger (PROTOCOL 26).
//!
//! Only data: machines emit the records, the checkpoint crate stores and reads them. A chain line
//! of step `t` stands for the weights `t`, so the record of step `t` carries line `t + 1`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::{Incarnation, Step, Timeline};
use crate::job::Effective;
use crate::message::PARTS;
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
    /// What the run is: enough to say which samples a step applies, without the rows themselves.
    Job {
        /// Rows of the training set.
        rows: u64,
        /// Every key with its value, without descriptions.
        job: Effective,
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
        /// The same of each loss that the model names, to the last that is not 0.
        #[serde(default, skip_serializing_if = "is_zero", with = "maybe_finite_parts")]
        parts: [f64; PARTS],
    },
}

fn is_zero(parts: &[f64; PARTS]) -> bool {
    *parts == [0.0; PARTS]
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
    /// [`marks`] of the blocks of weights `step + 1`: where to look when the line differs.
    #[serde(default)]
    pub marks: String,
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

/// Most marks of a step: a record stays short, whatever the model.
const MARKS: usize = 64;

/// Blocks that share a mark.
#[must_use]
pub fn blocks_a_mark(blocks: usize) -> usize {
    blocks.div_ceil(MARKS).max(1)
}

/// Eight hex digits for each [`blocks_a_mark`] consecutive blocks: the beginning of BLAKE3 over
/// their digests. They find the block that differs; what proves a difference is the chain line.
#[must_use]
pub fn marks(digests: &[[u8; 32]]) -> String {
    let groups = digests.chunks(blocks_a_mark(digests.len()));
    let mark = |group: &[[u8; 32]]| {
        let hash = blake3::hash(group.as_flattened()).to_hex();
        hash.as_str()[..8].to_owned()
    };
    groups.map(mark).collect()
}

/// The blocks of the first mark that differs; `None` if all are the same or one side has no marks.
#[must_use]
pub fn first_difference(ours: &str, theirs: &str, blocks: usize) -> Option<std::ops::Range<usize>> {
    if ours.len() != theirs.len() {
        return None;
    }
    let mut pairs = ours.as_bytes().chunks(8).zip(theirs.as_bytes().chunks(8));
    let at = pairs.position(|(ours, theirs)| ours != theirs)?;
    let each = blocks_a_mark(blocks);
    Some(at * each..((at + 1) * each).min(blocks))
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

/// [`maybe_finite`] for the parts of a loss.
mod maybe_finite_parts {
    use super::{Deserialize, Deserializer, PARTS, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(parts: &[f64; PARTS], s: S) -> Result<S::Ok, S::Error> {
        parts
            .map(|part| part.is_finite().then_some(part))
            .serialize(s)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<[f64; PARTS], D::Error> {
        let parts = <[Option<f64>; PARTS]>::deserialize(d)?;
        Ok(parts.map(|part| part.unwrap_or(f64::NAN)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_find_the_blocks_that_differ_and_stay_short() {
        for (blocks, changed, found) in [(1, 0, 0..1), (13, 12, 12..13), (130, 100, 99..102)] {
            let digests: Vec<[u8; 32]> = (0..blocks).map(|block| [block as u8; 32]).collect();
            let mut other = digests.clone();
            other[changed][31] ^= 1;
            let (ours, theirs) = (marks(&digests), marks(&other));
            assert!(ours.len() <= 8 * MARKS);
            assert_eq!(first_difference(&ours, &theirs, blocks), Some(found));
            assert_eq!(first_difference(&ours, &ours, blocks), None);
            assert_eq!(first_difference(&ours, "", blocks), None);
        }
    }
}
