//! Scoring the test rows on a version: pure tasks, each counted once, added up in task order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Effect, Job};
use crate::fact::Fact;
use crate::id::{Incarnation, Step};
use crate::ledger::Record;
use crate::message::{CoordinatorSays, PARTS, ShardOrder, TaskScore};
use crate::tree::Tree;

/// How good a version is on the test rows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// The version.
    pub version: Step,
    /// The pass over the data that had ended, from 1.
    pub epoch: u64,
    /// Rows, each counted once.
    pub rows: u64,
    /// Rows whose class was predicted; `None` for models without classes.
    pub correct: Option<u64>,
    /// Sum of per-row losses.
    pub loss_sum: f64,
    /// The same of each loss that the model names; 0 beyond them.
    #[serde(default)]
    pub parts: [f64; PARTS],
}

impl Metrics {
    /// Share of rows predicted right.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        self.correct
            .map(|correct| correct as f64 / self.rows as f64)
    }
}

/// An evaluation under way.
#[derive(Clone, Debug)]
pub(super) struct Evaluation {
    pub(super) version: Step,
    open: BTreeMap<u32, Option<Incarnation>>,
    scores: BTreeMap<u32, TaskScore>,
}

impl Job {
    /// Begins once every slice keeps the version. One that was past it before an earlier evaluation
    /// had ended never will: the others let go of it then.
    pub(super) fn begin_evaluation(&mut self, effects: &mut Vec<Effect>) {
        self.judge_passed(effects);
        let mut slices = self.slices.values();
        let pinned = slices.clone().filter_map(|slice| slice.pinned).min();
        let Some(version) = pinned.filter(|_| self.evaluation.is_none()) else {
            return;
        };
        let mut others = slices.clone().filter(|s| s.pinned != Some(version));
        let missed = others.any(|slice| slice.seen > version);
        // A report from before a slice let go of it may come late.
        let over = self.metrics.contains_key(&version) || self.unscored.contains(&version);
        if missed || over {
            if !over {
                self.not_evaluated(version, effects);
            }
            effects.push(Effect::Order(ShardOrder::Evaluated { version }));
            return;
        }
        if slices.any(|slice| slice.pinned != Some(version)) {
            return;
        }
        let open = (0..self.rules.evaluation_tasks)
            .map(|task| (task, None))
            .collect();
        self.evaluation = Some(Evaluation {
            version,
            open,
            scores: BTreeMap::new(),
        });
        self.hand_out(effects);
    }

    /// Says of which versions that all slices are past nobody kept the weights.
    fn judge_passed(&mut self, effects: &mut Vec<Effect>) {
        let seen = self.slices.values().map(|slice| slice.seen).min();
        while Some(self.judged) < seen {
            let version = self.judged;
            self.judged = version.next();
            let kept = self.slices.values().any(|s| s.pinned == Some(version));
            let under_way = self.evaluation.as_ref().map(|e| e.version) == Some(version);
            let scored = self.metrics.contains_key(&version);
            if self.rules.evaluated(version) && !kept && !under_way && !scored {
                self.not_evaluated(version, effects);
            }
        }
    }

    /// Gives every task without an evaluator to the active member that has the fewest.
    pub(super) fn hand_out(&mut self, effects: &mut Vec<Effect>) {
        let Some(evaluation) = &mut self.evaluation else {
            return;
        };
        let free: Vec<u32> = evaluation
            .open
            .iter()
            .filter(|(_, by)| by.is_none())
            .map(|(task, _)| *task)
            .collect();
        // Tasks are few: as many members are enough.
        let active = self.members.accepting().iter().take(free.len());
        let mut loads: BTreeMap<Incarnation, Vec<u32>> =
            active.map(|member| (*member, Vec::new())).collect();
        if loads.is_empty() {
            return;
        }
        for task in free {
            let (member, tasks) = loads
                .iter_mut()
                .min_by_key(|(member, tasks)| (tasks.len(), **member))
                .expect("there is an active member");
            tasks.push(task);
            evaluation.open.insert(task, Some(*member));
        }
        let (timeline, version) = (self.branch.timeline, evaluation.version);
        for (member, tasks) in loads.into_iter().filter(|(_, tasks)| !tasks.is_empty()) {
            let says = CoordinatorSays::Evaluate {
                timeline,
                version,
                tasks,
            };
            effects.push(Effect::Say(member, says));
        }
    }

    pub(super) fn evaluation_lost(&mut self, lost: Incarnation, effects: &mut Vec<Effect>) {
        if let Some(evaluation) = &mut self.evaluation {
            for by in evaluation.open.values_mut().filter(|by| **by == Some(lost)) {
                *by = None;
            }
            self.hand_out(effects);
        }
    }

    /// The first score of a task counts; all are the same bits.
    pub(super) fn evaluated(
        &mut self,
        version: Step,
        task: u32,
        score: TaskScore,
        effects: &mut Vec<Effect>,
    ) {
        let current = self.evaluation.as_mut().filter(|e| e.version == version);
        let Some(evaluation) = current.filter(|_| is_plausible(&score)) else {
            return;
        };
        if evaluation.open.remove(&task).is_some() {
            evaluation.scores.insert(task, score);
        }
        if evaluation.open.is_empty() {
            let evaluation = self.evaluation.take().expect("just looked at");
            self.evaluation_done(&evaluation, effects);
        }
    }

    fn evaluation_done(&mut self, evaluation: &Evaluation, effects: &mut Vec<Effect>) {
        let metrics = self.add_up(evaluation);
        let Metrics {
            version,
            epoch,
            rows,
            correct,
            loss_sum,
            parts,
        } = metrics;
        self.metrics.insert(version, metrics);
        effects.push(Effect::Append(Record::Evaluation {
            timeline: self.branch.timeline,
            epoch: epoch - 1,
            step: version,
            rows,
            correct,
            loss_sum,
            parts,
        }));
        effects.push(Effect::Tell(Fact::Evaluated(metrics)));
        effects.push(Effect::Order(ShardOrder::Evaluated { version }));
    }

    fn add_up(&self, evaluation: &Evaluation) -> Metrics {
        let scores = &evaluation.scores;
        let mut correct = Some(0);
        for score in scores.values() {
            correct = correct.zip(score.correct).map(|(sum, one)| sum + one);
        }
        let tree = Tree::new(self.rules.evaluation_tasks);
        let sum = |of: &dyn Fn(&TaskScore) -> f64| {
            let task = |node: crate::tree::Node| {
                let task = scores.get(&node.index).filter(|_| node.level == 0)?;
                Some(of(task))
            };
            tree.sum(&task).unwrap_or(0.0)
        };
        let version = evaluation.version;
        Metrics {
            version,
            epoch: self.rules.sampling.position(Step(version.0 - 1)).epoch + 1,
            rows: scores.values().map(|score| score.rows).sum(),
            correct,
            loss_sum: sum(&|score| score.loss_sum),
            parts: std::array::from_fn(|part| sum(&|score| score.parts[part])),
        }
    }

    pub(super) fn evaluation_again(&self, effects: &mut Vec<Effect>) {
        let Some(evaluation) = &self.evaluation else {
            return;
        };
        let mut tasks: BTreeMap<Incarnation, Vec<u32>> = BTreeMap::new();
        for (task, by) in &evaluation.open {
            if let Some(member) = by {
                tasks.entry(*member).or_default().push(*task);
            }
        }
        let (timeline, version) = (self.branch.timeline, evaluation.version);
        for (member, tasks) in tasks {
            let says = CoordinatorSays::Evaluate {
                timeline,
                version,
                tasks,
            };
            effects.push(Effect::Say(member, says));
        }
    }
}

/// Whether a score can be of one task, which is a small range of rows: so that no sum of scores
/// overflows.
fn is_plausible(score: &TaskScore) -> bool {
    score.rows <= u64::from(u32::MAX) && score.correct.is_none_or(|correct| correct <= score.rows)
}
