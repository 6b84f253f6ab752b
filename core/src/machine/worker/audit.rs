//! Leaves that are evaluated for comparison, not for their sum (PROTOCOL 33).
//!
//! A step never waits for them: the shell keeps the weights of an audited step for a few versions
//! more, so that an evaluation, or a third one, can come after the step.

use std::collections::{BTreeMap, BTreeSet};

use super::{Effect, Worker};
use crate::id::{PartitionId, Step, Timeline};
use crate::message::{Opinion, Question, WorkerSays};
use crate::tree::PartitionSet;

/// What this worker knows of audited leaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Audits {
    /// Steps whose weights the shell keeps.
    kept: BTreeSet<Step>,
    /// The newest evaluation of each leaf of those: how many there were, and its digest.
    made: BTreeMap<(Step, PartitionId), (u32, [u8; 32])>,
    /// The newest step whose leaves were asked for.
    asked: Option<Step>,
    /// Evaluations under way.
    under_way: BTreeSet<(Step, PartitionId)>,
}

impl Worker {
    /// Has the leaves of the open step evaluated that others hold and this worker audits, after its
    /// own, which are asked for already.
    pub(super) fn audit(&mut self, effects: &mut Vec<Effect>) {
        let (step, versions) = (self.step, self.rules.audit.versions);
        let open = self.rules.audit.rate > 0.0 && self.audits.asked != Some(step);
        let Some(timeline) = self.timeline().filter(|_| open) else {
            return;
        };
        let with_samples = self.rules.sampling.with_samples(step);
        let drawn = self.rules.audit.drawn(step, &with_samples);
        if drawn.is_empty() {
            self.audits.asked = Some(step);
            return;
        }
        if self.audits.kept.insert(step) {
            effects.push(Effect::Retain(step));
            let below = Step((step.0 + 1).saturating_sub(versions));
            self.release_audits(below, effects);
        }
        // What an earlier step asked for is still under way: its own work of this one comes next.
        if self.computing.is_some_and(|computing| computing != step) {
            return;
        }
        self.audits.asked = Some(step);
        let assignment = self.assignment.as_ref().expect("it has a timeline");
        let own: PartitionSet = self
            .leases()
            .filter(|lease| lease.covers(step))
            .map(|lease| lease.partition)
            .collect();
        let leaves: Vec<PartitionId> = assignment
            .audits
            .iter()
            .copied()
            .filter(|leaf| drawn.contains(*leaf) && !own.contains(*leaf))
            .collect();
        self.evaluate_leaves(timeline, step, leaves, effects);
    }

    fn evaluate_leaves(
        &mut self,
        timeline: Timeline,
        step: Step,
        mut leaves: Vec<PartitionId>,
        effects: &mut Vec<Effect>,
    ) {
        leaves.retain(|leaf| self.audits.under_way.insert((step, *leaf)));
        if !leaves.is_empty() {
            effects.push(Effect::Audit {
                timeline,
                step,
                leaves,
            });
        }
    }

    /// The weights of steps before this one are not needed for audits any more.
    pub(super) fn release_audits(&mut self, below: Step, effects: &mut Vec<Effect>) {
        if self.audits.kept.first().is_none_or(|kept| *kept >= below) {
            return;
        }
        self.audits.asked = self.audits.asked.filter(|asked| *asked >= below);
        self.audits.kept.retain(|kept| *kept >= below);
        self.audits.made.retain(|(step, _), _| *step >= below);
        self.audits.under_way.retain(|(step, _)| *step >= below);
        effects.push(Effect::Release(below));
    }

    /// An evaluation of an audited leaf is over: its own, within a node, or one for comparison.
    pub(super) fn audited(
        &mut self,
        timeline: Timeline,
        step: Step,
        partition: PartitionId,
        digest: [u8; 32],
        effects: &mut Vec<Effect>,
    ) {
        if self.timeline() != Some(timeline) || !self.audits.kept.contains(&step) {
            return;
        }
        let leaf = (step, partition);
        self.audits.under_way.remove(&leaf);
        let made = self.audits.made.entry(leaf).or_insert((0, digest));
        *made = (made.0 + 1, digest);
        let evaluations = made.0;
        say(timeline, leaf, evaluations, Some(digest), effects);
    }

    /// Somebody's evaluations differ, or a report was lost.
    pub(super) fn asked_to_audit(&mut self, question: Question, effects: &mut Vec<Effect>) {
        let Question {
            timeline,
            step,
            partition,
            known,
        } = question;
        if self.timeline() != Some(timeline) {
            return;
        }
        let leaf = (step, partition);
        match self.audits.made.get(&leaf).copied() {
            Some((evaluations, digest)) if evaluations > known => {
                say(timeline, leaf, evaluations, Some(digest), effects);
            }
            Some(_) | None if self.audits.kept.contains(&step) => {
                self.evaluate_leaves(timeline, step, vec![partition], effects);
            }
            // Its weights are still to come: it is asked again.
            Some(_) | None if step >= self.step => {}
            Some(_) | None => say(timeline, leaf, known, None, effects),
        }
    }
}

fn say(
    timeline: Timeline,
    (step, partition): (Step, PartitionId),
    evaluations: u32,
    digest: Option<[u8; 32]>,
    effects: &mut Vec<Effect>,
) {
    effects.push(Effect::Say(WorkerSays::Audited(Opinion {
        timeline,
        step,
        partition,
        evaluations,
        digest,
    })));
}
