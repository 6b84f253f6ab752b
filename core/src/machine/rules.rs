//! What every machine of a run knows from the start.

use crate::id::{RunId, Step};
use crate::job::Bits;
use crate::layout::SliceMap;
use crate::machine::audit::AuditRules;
use crate::sampling::Sampling;
use crate::time::Span;
use crate::tree::Tree;
use crate::vote::VoteRules;

/// Constants of a run, the same in every process.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The run.
    pub run: RunId,
    /// Which samples a partition contributes.
    pub sampling: Sampling,
    /// The summation tree.
    pub tree: Tree,
    /// Which blocks each slice has.
    pub slices: SliceMap,
    /// What decisions depend on.
    pub votes: VoteRules,
    /// Whether the same evaluation has the same bits, wherever and whenever it is made.
    pub bits: Bits,
    /// Versions that are multiples of this, and the last, are scored on the test rows; `None`
    /// without test rows.
    pub evaluate_every: Option<u64>,
    /// Evaluation tasks: fixed ranges of test rows.
    pub evaluation_tasks: u32,
    /// The one number every liveness time-out derives from.
    pub lease: Span,
    /// Which leaves a second member evaluates.
    pub audit: AuditRules,
    /// How long a drain or a stop may take before it is forced.
    pub grace: Span,
    /// A checkpoint whenever this long passed since the last one.
    pub cut_interval: Option<Span>,
}

impl Rules {
    /// The version at which the run is over.
    #[must_use]
    pub fn last(&self) -> Step {
        Step(self.votes.total_steps)
    }

    /// Whether a version is scored on the test rows.
    #[must_use]
    pub fn evaluated(&self, version: Step) -> bool {
        self.evaluate_every.is_some_and(|every| {
            version.0 > 0 && (version.0.is_multiple_of(every) || version == self.last())
        })
    }

    /// The first leaf below a node that has rows at a step.
    ///
    /// # Panics
    /// If none has.
    #[must_use]
    pub fn first_leaf(&self, step: Step, node: crate::tree::Node) -> crate::PartitionId {
        let with_samples = self.sampling.with_samples(step);
        let mut leaves = (node.first()..node.end()).map(crate::PartitionId);
        let leaf = leaves.find(|leaf| with_samples.contains(*leaf));
        leaf.expect("a node that is evaluated has rows")
    }

    /// Rows below a node at a step.
    #[must_use]
    pub fn samples(&self, step: Step, node: crate::tree::Node) -> u64 {
        (node.first()..node.end().min(self.tree.partitions()))
            .map(|p| {
                let positions = self.sampling.positions(step, crate::PartitionId(p));
                positions.end - positions.start
            })
            .sum()
    }

    /// How long to wait before asking again for what has not come.
    #[must_use]
    pub fn retry(&self) -> Span {
        self.lease.part(2)
    }

    /// Time between two heartbeats.
    #[must_use]
    pub fn heartbeat(&self) -> Span {
        self.lease.part(4)
    }
}
