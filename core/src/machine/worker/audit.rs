//! Leaves that are evaluated for comparison, not for their sum (PROTOCOL 33).
//!
//! A step never waits for them: the shell keeps the weights of an audited step for a few versions
//! more, so that an evaluation, or a third one, can come after the step.

use super::{Effect, Worker};
use crate::id::{PartitionId, Step, Timeline};
use crate::message::{LEAVES, Opinion, Question, WorkerSays};
use crate::sorted::{SortedMap, SortedSet};
use crate::tree::PartitionSet;

/// What this worker knows of audited leaves.
#[derive(Clone, Debug, Default)]
pub(super) struct Audits {
    /// Steps whose weights the shell keeps.
    kept: SortedSet<Step>,
    /// The newest evaluation of each leaf of those: how many there were, and its digest.
    made: SortedMap<(Step, PartitionId), (u32, [u8; 32])>,
    /// The newest step whose leaves were asked for.
    asked: Option<Step>,
    /// Evaluations under way.
    under_way: SortedSet<(Step, PartitionId)>,
    /// What is to be told of a step, once nothing more of it is under way.
    untold: SortedMap<Step, Vec<Opinion>>,
}

impl Audits {
    /// Nobody wants to hear of this branch any more.
    pub(super) fn forget(&mut self) {
        self.untold.clear();
    }

    /// Another life has evaluated nothing yet: what an earlier one made must not be heard twice, as
    /// two members' opinions. The weights are still here to evaluate anew.
    pub(super) fn begin_again(&mut self) {
        self.made.clear();
        self.untold.clear();
    }
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
        let later = self.audits.untold.split_off(&below);
        let told = std::mem::replace(&mut self.audits.untold, later);
        for opinions in told.values().filter(|_| self.incarnation.is_some()) {
            say(opinions, effects);
        }
        effects.push(Effect::Release(below));
    }

    /// An evaluation of an audited leaf is over: its own, within a node, or one for comparison.
    pub(super) fn audited(
        &mut self,
        timeline: Timeline,
        step: Step,
        partition: PartitionId,
        digest: [u8; 32],
    ) {
        if self.timeline() != Some(timeline) || !self.audits.kept.contains(&step) {
            return;
        }
        let leaf = (step, partition);
        self.audits.under_way.remove(&leaf);
        let made = self.audits.made.entry(leaf).or_insert((0, digest));
        *made = (made.0 + 1, digest);
        let opinion = Opinion {
            timeline,
            step,
            partition,
            evaluations: made.0,
            digest: Some(digest),
        };
        self.audits.untold.entry(step).or_default().push(opinion);
    }

    /// Tells what is known of steps of which nothing is under way any more: a step is one message,
    /// not one a leaf.
    pub(super) fn tell_audits(&mut self, effects: &mut Vec<Effect>) {
        if self.incarnation.is_none() {
            return;
        }
        let Audits {
            untold,
            under_way,
            asked,
            ..
        } = &mut self.audits;
        let all = (PartitionId(0), PartitionId(u32::MAX));
        untold.retain(|step, opinions| {
            let own = self.computing == Some(*step);
            let others = under_way.range((*step, all.0)..=(*step, all.1));
            let to_come = *step == self.step && *asked != Some(*step);
            let over = !own && !to_come && others.count() == 0;
            if over {
                say(opinions, effects);
            }
            !over
        });
    }

    /// Somebody's evaluations differ, or a report was lost.
    pub(super) fn asked_to_audit(&mut self, questions: Vec<Question>, effects: &mut Vec<Effect>) {
        let mut answers = Vec::new();
        let mut open: SortedMap<(Timeline, Step), Vec<PartitionId>> = SortedMap::new();
        for question in questions.into_iter().take(LEAVES) {
            let Question {
                timeline,
                step,
                partition,
                known,
            } = question;
            if self.timeline() != Some(timeline) {
                continue;
            }
            let (evaluations, digest) = match self.audits.made.get(&(step, partition)) {
                Some((evaluations, digest)) if *evaluations > known => {
                    (*evaluations, Some(*digest))
                }
                Some(_) | None if self.audits.kept.contains(&step) => {
                    open.entry((timeline, step)).or_default().push(partition);
                    continue;
                }
                // Its weights are still to come: it is asked again.
                Some(_) | None if step >= self.step => continue,
                Some(_) | None => (known, None),
            };
            answers.push(Opinion {
                timeline,
                step,
                partition,
                evaluations,
                digest,
            });
        }
        say(&answers, effects);
        for ((timeline, step), leaves) in open {
            self.evaluate_leaves(timeline, step, leaves, effects);
        }
    }
}

fn say(opinions: &[Opinion], effects: &mut Vec<Effect>) {
    for part in opinions.chunks(LEAVES) {
        effects.push(Effect::Say(WorkerSays::Audited(part.to_vec())));
    }
}
