//! What a slice keeps of a step beside its tensors: what was summed, and what the ledger gets of it.

use super::{Origin, Shard};
use crate::id::{Step, View};
use crate::message::{Contributor, ReplicaSays, StepRecord};
use crate::vote::{Action, Decision, Vote};

/// The contributions that a root is the sum of.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Summed {
    /// In tree order.
    pub(super) nodes: Vec<Contributor>,
    /// What the sum is divided by.
    pub(super) weight: f64,
    /// Sum of losses, in tree order.
    pub(super) loss_sum: f64,
    /// Rows of contributions that were dropped while the step was open.
    pub(super) discarded: u64,
}

/// A vote before it counts, with all that a backup needs to stand by it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Pledge {
    pub(super) vote: Vote,
    pub(super) summed: Summed,
}

impl Pledge {
    pub(super) fn says(&self, view: View) -> ReplicaSays {
        let Self { vote, summed } = self.clone();
        ReplicaSays::Pledge {
            view,
            vote,
            nodes: summed.nodes,
            weight: summed.weight,
            loss_sum: summed.loss_sum,
            discarded: summed.discarded,
        }
    }

    /// Whether the step has a root that the backup needs.
    pub(super) fn has_root(&self) -> bool {
        !self.vote.flags.withheld
    }
}

impl Summed {
    /// Mean loss of the step's rows.
    pub(super) fn loss(&self) -> f64 {
        self.loss_sum / self.weight
    }

    /// The line of the ledger.
    pub(super) fn record(
        self,
        origin: &Origin,
        step: Step,
        decision: Decision,
        digests: Vec<[u8; 32]>,
    ) -> StepRecord {
        let samples: u64 = self.nodes.iter().map(|node| node.samples).sum();
        let record = StepRecord {
            slice: origin.slice,
            timeline: origin.timeline,
            step,
            nodes: self.nodes,
            samples,
            loss_sum: self.loss_sum,
            weight: self.weight,
            skipped: false,
            cut: decision.cut,
            cut_missed: decision.cut_missed,
            digests,
            discarded: self.discarded,
        };
        match decision.action {
            Action::Apply { .. } => record,
            // Nothing of it is applied; what was there differs from slice to slice.
            Action::Skip => StepRecord {
                nodes: Vec::new(),
                samples: 0,
                loss_sum: 0.0,
                weight: 0.0,
                skipped: true,
                discarded: record.discarded.saturating_add(samples),
                ..record
            },
            Action::Halt => unreachable!("a halted step is not recorded"),
        }
    }
}

impl Shard {
    /// What the open step's root is, or will be, the sum of.
    pub(super) fn summed(&self) -> Summed {
        match &self.inherited {
            Some((inherited, _)) => Summed {
                discarded: inherited.discarded.saturating_add(self.discarded),
                ..inherited.clone()
            },
            None => Summed {
                nodes: self.contributors(),
                weight: self.total(|stored| stored.weight),
                loss_sum: self.total(|stored| stored.loss_sum),
                discarded: self.discarded,
            },
        }
    }
}
