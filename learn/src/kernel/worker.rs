//! A worker's arithmetic: the gradient of a tree node, summed in tree order as leaves appear.
//!
//! Memory: one flat vector for each level of the node that waits for its right sibling, kept from
//! step to step.

use std::sync::Arc;

use resilin_core::machine::audit::AuditRules;
use resilin_core::tree::{Node, PartitionSet};
use resilin_core::{PartitionId, Step};

use super::digest::{BlockHasher, Digest};
use super::stack::{Early, Stack, Summed};
use crate::dataset::{Batch, DataError};
use crate::model::{Microbatch, ModelError, Outcome, Workspace};
use crate::task::Task;

/// Microbatches handed to the model at once: bounds the rows held, and cannot change bits.
const MICROBATCHES: usize = 64;

/// Why a node could not be evaluated.
#[derive(Debug, thiserror::Error)]
pub enum EvaluateError {
    /// Rows could not be read.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The model does not take the rows.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// What a node's gradient comes with.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeResult {
    /// Samples, weight and loss, added in tree order.
    pub outcome: Outcome,
    /// Partitions whose own gradient has a NaN or an infinity, with its digest; the node must not
    /// be sent then, but these be reported (PROTOCOL 16). Empty where only the sum overflows.
    pub non_finite: Vec<(PartitionId, Digest)>,
    /// Leaves below the node that are audited, with the digest of their gradient as it went into the
    /// sum (PROTOCOL 33).
    pub audited: Vec<(PartitionId, Digest)>,
    /// Whether the sum went to [`Early`], and so is not in the output.
    pub taken: bool,
}

/// Evaluates nodes of a task on one thread.
pub struct Evaluator {
    pub(super) task: Arc<Task>,
    pub(super) workspace: Workspace,
    pub(super) ids: Vec<u32>,
    pub(super) batches: Vec<Batch>,
    /// The step and the leaves whose rows are in `batches`, if whole rows of a step are.
    pub(super) read: Option<(Step, Vec<PartitionId>)>,
    /// Row ids of an epoch in its order.
    order: Option<(u64, Vec<u32>)>,
    with_samples: PartitionSet,
    leaves: Vec<PartitionId>,
    waiting: Vec<Vec<f32>>,
    outcomes: Vec<Outcome>,
    audit: AuditRules,
    /// Audited ones of `leaves`.
    drawn: PartitionSet,
    audited: Vec<(PartitionId, Digest)>,
    hasher: BlockHasher,
}

impl Evaluator {
    /// An evaluator with memory of its own.
    #[must_use]
    pub fn new(task: Arc<Task>) -> Self {
        Self {
            workspace: task.model.workspace(),
            audit: task.audit_rules(),
            task,
            ids: Vec::new(),
            batches: Vec::new(),
            read: None,
            order: None,
            with_samples: PartitionSet::default(),
            leaves: Vec::new(),
            waiting: Vec::new(),
            outcomes: Vec::new(),
            drawn: PartitionSet::default(),
            audited: Vec::new(),
            hasher: BlockHasher::default(),
        }
    }

    /// Writes the sum of the gradients of all samples below `node` at `step` to `out`, one value a
    /// parameter. `weights` are those of the step, whole.
    ///
    /// # Errors
    /// If rows cannot be read or do not fit the model; `out` is then unspecified.
    ///
    /// # Panics
    /// If no partition below the node has samples, or lengths differ from the layout's.
    pub fn evaluate(
        &mut self,
        weights: &[f32],
        step: Step,
        node: Node,
        out: &mut [f32],
    ) -> Result<NodeResult, EvaluateError> {
        self.evaluate_early(weights, step, node, out, None)
    }

    /// As [`Self::evaluate`]; but if the model makes gradients in parts, the sum goes to `early` part by
    /// part, and `out` has nothing in the end.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    ///
    /// # Panics
    /// As [`Self::evaluate`].
    pub fn evaluate_early(
        &mut self,
        weights: &[f32],
        step: Step,
        node: Node,
        out: &mut [f32],
        early: Option<&mut dyn Early>,
    ) -> Result<NodeResult, EvaluateError> {
        let length = self.task.layout.len();
        assert_eq!(
            (weights.len(), out.len()),
            (length, length),
            "whole flat vectors"
        );
        self.enter(step, node);
        assert!(
            !self.leaves.is_empty(),
            "no partition below {node} has samples at step {step}"
        );
        self.drawn = self
            .audit
            .drawn(step, &self.leaves.iter().copied().collect());
        self.audited.clear();
        let sum = self.sum_leaves(weights, step, node, out, early)?;
        self.drawn = PartitionSet::default();
        let mut non_finite = Vec::new();
        if !sum.is_finite(out) {
            for index in 0..self.leaves.len() {
                let partition = self.leaves[index];
                let leaf = self.leaf(weights, step, partition, out)?;
                if !leaf.is_finite(out) {
                    non_finite.push((partition, self.hasher.digest(out)));
                }
            }
            if non_finite.is_empty() && !sum.taken {
                self.sum_leaves(weights, step, node, out, None)?;
            }
        }
        Ok(NodeResult {
            outcome: sum.outcome,
            non_finite,
            audited: self.audited.clone(),
            taken: sum.taken,
        })
    }

    /// Reads the rows that [`Self::evaluate`] of a node will need, which takes no weights: for a
    /// thread that waits for these. Rows that are not asked for next are read again.
    ///
    /// # Errors
    /// If rows cannot be read.
    pub fn read_ahead(&mut self, step: Step, node: Node) -> Result<(), EvaluateError> {
        self.enter(step, node);
        let leaves = &self.leaves[..self.leaves.len().min(MICROBATCHES)];
        let (order, read) = (self.order.as_ref(), &mut self.read);
        read_leaves(&self.task, order, step, leaves, &mut self.batches, read)?;
        Ok(())
    }

    /// Evaluates one partition apart: its outcome and the digest of its gradient, which is left in
    /// `out`. Audits and the confirmation of a non-finite leaf compare the digest.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub fn digest_leaf(
        &mut self,
        weights: &[f32],
        step: Step,
        partition: PartitionId,
        out: &mut [f32],
    ) -> Result<(Outcome, Digest), EvaluateError> {
        self.enter(step, Node::leaf(partition));
        let leaf = self.leaf(weights, step, partition, out)?;
        Ok((leaf.outcome, self.hasher.digest(out)))
    }

    /// Whether the model gives the same bits twice for the first partition of step 0: one that does
    /// not cannot be trained with `bits = "on"`.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub fn repeats(&mut self, weights: &[f32]) -> Result<bool, EvaluateError> {
        let mut out = vec![0.0; self.task.layout.len()];
        let first = self.task.sampling.with_samples(Step(0)).iter().next();
        let partition = first.expect("a run has rows");
        let (once, digest) = self.digest_leaf(weights, Step(0), partition, &mut out)?;
        let (twice, again) = self.digest_leaf(weights, Step(0), partition, &mut out)?;
        let same_loss = once.loss_sum.to_bits() == twice.loss_sum.to_bits();
        Ok(same_loss && once.weight == twice.weight && digest == again)
    }

    /// Makes the epoch's order and the leaves of a node current.
    fn enter(&mut self, step: Step, node: Node) {
        let sampling = &self.task.sampling;
        let epoch = sampling.position(step).epoch;
        if self.order.as_ref().is_none_or(|(of, _)| *of != epoch) {
            self.order = Some((epoch, sampling.order(epoch)));
        }
        self.with_samples = sampling.with_samples(step);
        let below = (node.first()..node.end()).map(PartitionId);
        self.leaves.clear();
        self.leaves
            .extend(below.filter(|p| self.with_samples.contains(*p)));
    }

    fn sum_leaves(
        &mut self,
        weights: &[f32],
        step: Step,
        node: Node,
        out: &mut [f32],
        early: Option<&mut dyn Early>,
    ) -> Result<Summed, EvaluateError> {
        let Self {
            task,
            workspace,
            batches,
            read,
            order,
            with_samples,
            leaves,
            waiting,
            outcomes,
            drawn,
            audited,
            hasher,
            ..
        } = self;
        outcomes.clear();
        let mut stack = Stack {
            node,
            with_samples,
            leaves: &[],
            next: 0,
            count: leaves.len(),
            out,
            waiting,
            outcomes,
            drawn,
            audited,
            hasher,
            finite: None,
            early,
            taken: false,
        };
        for leaves in leaves.chunks(MICROBATCHES) {
            read_leaves(task, order.as_ref(), step, leaves, batches, read)?;
            let microbatches: Vec<Microbatch<'_>> = leaves
                .iter()
                .zip(&*batches)
                .map(|(partition, batch)| microbatch(task, step, *partition, batch))
                .collect();
            (stack.leaves, stack.next) = (leaves, 0);
            task.model
                .evaluate(weights, &microbatches, workspace, &mut stack)?;
            assert_eq!(stack.next, leaves.len(), "the model left microbatches out");
        }
        Ok(stack.result())
    }

    fn leaf(
        &mut self,
        weights: &[f32],
        step: Step,
        partition: PartitionId,
        out: &mut [f32],
    ) -> Result<Summed, EvaluateError> {
        let leaves = std::mem::replace(&mut self.leaves, vec![partition]);
        let sum = self.sum_leaves(weights, step, Node::leaf(partition), out, None);
        self.leaves = leaves;
        sum
    }
}

fn microbatch<'a>(
    task: &Task,
    step: Step,
    partition: PartitionId,
    batch: &'a Batch,
) -> Microbatch<'a> {
    Microbatch {
        seed: task.job.run.seed,
        step,
        partition,
        batch,
    }
}

fn read_leaves(
    task: &Task,
    order: Option<&(u64, Vec<u32>)>,
    step: Step,
    leaves: &[PartitionId],
    batches: &mut Vec<Batch>,
    read: &mut Option<(Step, Vec<PartitionId>)>,
) -> Result<(), DataError> {
    let here = read.take();
    if here
        .as_ref()
        .is_some_and(|(of, held)| *of == step && held == leaves)
    {
        *read = here;
        return Ok(());
    }
    let (_, order) = order.expect("an epoch was entered");
    batches.resize_with(batches.len().max(leaves.len()), Batch::default);
    for (partition, batch) in leaves.iter().zip(batches) {
        let positions = task.sampling.positions(step, *partition);
        let ids = &order[positions.start as usize..positions.end as usize];
        task.split.train.read(ids, batch)?;
    }
    let mut held = here.map_or_else(Vec::new, |(_, held)| held);
    held.clear();
    held.extend_from_slice(leaves);
    *read = Some((step, held));
    Ok(())
}
