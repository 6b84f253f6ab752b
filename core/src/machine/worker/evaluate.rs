//! Scoring test rows on a pinned version, beside training.

use super::{Effect, Worker};
use crate::id::{SliceId, Step, Timeline};
use crate::message::{TaskScore, Use, WorkerSays};
use crate::sorted::SortedSet;

/// Tasks on one version.
#[derive(Clone, Debug)]
pub(super) struct Evaluation {
    version: Step,
    tasks: SortedSet<u32>,
    scoring: SortedSet<u32>,
    here: SortedSet<SliceId>,
}

impl Worker {
    pub(super) fn evaluate(
        &mut self,
        timeline: Timeline,
        version: Step,
        tasks: Vec<u32>,
        effects: &mut Vec<Effect>,
    ) {
        if self.timeline() != Some(timeline) {
            return;
        }
        let mut evaluation = match self.evaluation.take() {
            Some(known) if known.version == version => known,
            Some(_) | None => {
                effects.push(Effect::Forget(Use::Evaluate, version));
                let (tasks, scoring, here) = Default::default();
                Evaluation {
                    version,
                    tasks,
                    scoring,
                    here,
                }
            }
        };
        evaluation.tasks.extend(tasks);
        self.evaluation = Some(evaluation);
        if let Some(assignment) = self.assignment.clone().filter(|_| self.links.is_empty()) {
            self.dial(&assignment, effects);
        }
        self.evaluation_again(effects);
    }

    /// Pulls what the evaluation lacks from every slice that is linked.
    pub(super) fn evaluation_again(&self, effects: &mut Vec<Effect>) {
        for slice in self.up() {
            self.evaluation_pull(slice, effects);
        }
    }

    pub(super) fn evaluation_pull(&self, slice: SliceId, effects: &mut Vec<Effect>) {
        if let Some(evaluation) = self
            .evaluation
            .as_ref()
            .filter(|e| !e.here.contains(&slice))
        {
            self.pull(slice, evaluation.version, Use::Evaluate, effects);
        }
    }

    pub(super) fn evaluation_weights(
        &mut self,
        slice: SliceId,
        version: Step,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(evaluation) = self.evaluation.as_mut().filter(|e| e.version == version) {
            evaluation.here.insert(slice);
            self.score(effects);
        }
    }

    /// Hands the tasks to the compute threads once every slice is here.
    pub(super) fn score(&mut self, effects: &mut Vec<Effect>) {
        let slices = usize::from(self.rules.slices.slices());
        let (Some(timeline), Some(evaluation)) = (self.timeline(), &mut self.evaluation) else {
            return;
        };
        let tasks: Vec<u32> = evaluation
            .tasks
            .difference(&evaluation.scoring)
            .copied()
            .collect();
        if evaluation.here.len() == slices && !tasks.is_empty() {
            evaluation.scoring.extend(&tasks);
            effects.push(Effect::Score {
                timeline,
                version: evaluation.version,
                tasks,
            });
        }
    }

    pub(super) fn scored(
        &mut self,
        timeline: Timeline,
        version: Step,
        task: u32,
        score: TaskScore,
        effects: &mut Vec<Effect>,
    ) {
        if self.timeline() != Some(timeline) {
            return;
        }
        effects.push(Effect::Say(WorkerSays::Evaluated {
            timeline,
            version,
            task,
            score,
        }));
        let Some(evaluation) = self.evaluation.as_mut().filter(|e| e.version == version) else {
            return;
        };
        evaluation.tasks.remove(&task);
        evaluation.scoring.remove(&task);
        if evaluation.tasks.is_empty() {
            self.evaluation_over(effects);
        }
    }

    /// The version was freed: every task of it has been scored by somebody.
    pub(super) fn evaluation_gone(&mut self, version: Step, effects: &mut Vec<Effect>) {
        if self
            .evaluation
            .as_ref()
            .is_some_and(|e| e.version == version)
        {
            self.evaluation_over(effects);
        }
    }

    fn evaluation_over(&mut self, effects: &mut Vec<Effect>) {
        self.evaluation = None;
        effects.push(Effect::Forget(Use::Evaluate, Step(u64::MAX)));
        if self.leases().next().is_none() && self.is_linked() {
            self.hang_up(effects);
        }
    }
}
