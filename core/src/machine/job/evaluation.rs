//! Scoring the test rows on a version: pure tasks, each counted once, added up in task order.
//!
//! Slices keep one version for it, and stay at the next one that is to be scored until this one is
//! over: so what is late is asked of somebody else as well, and the first score counts.

use serde::{Deserialize, Serialize};

use super::{Effect, Job, SliceState};
use crate::fact::Fact;
use crate::id::{Incarnation, SliceId, Step, Timeline};
use crate::ledger::Record;
use crate::message::{CoordinatorSays, PARTS, ShardOrder, TaskScore};
use crate::sorted::{SortedMap, SortedSet};
use crate::time::Time;
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
    #[serde(deserialize_with = "crate::nan::read")]
    pub loss_sum: f64,
    /// The same of each loss that the model names; 0 beyond them.
    #[serde(default, deserialize_with = "crate::nan::read_parts")]
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
    open: SortedMap<u32, Asked>,
    scores: SortedMap<u32, TaskScore>,
}

/// Who was last asked for a task, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    by: Option<Incarnation>,
    since: Time,
}

impl Job {
    /// Begins once every slice keeps the version. If one is past it and does not, the others let go
    /// of it.
    pub(super) fn begin_evaluation(&mut self, heard: SliceId, effects: &mut Vec<Effect>) {
        self.judge_passed(effects);
        let mut slices = self.slices.values();
        let pinned = slices.clone().filter_map(|slice| slice.pinned).min();
        let idle = |version: &Step| self.evaluation.is_none() && !self.untaken.contains(version);
        let Some(version) = pinned.filter(idle) else {
            return;
        };
        let missed = self.is_gone(version);
        // A report from before a slice let go of it may come late.
        let over = self.metrics.contains_key(&version) || self.unscored.contains(&version);
        let order = ShardOrder::Evaluated { version };
        if over {
            let pins = |slice: &SliceState| slice.pinned == Some(version);
            if self.slices.get(&heard).is_some_and(pins) {
                self.order_slice(heard, order, effects);
            }
            return;
        }
        if missed {
            self.not_evaluated(version, effects);
            effects.push(Effect::Order(order));
            return;
        }
        if slices.any(|slice| slice.pinned != Some(version)) {
            return;
        }
        let open = (0..self.rules.evaluation_tasks)
            .map(|task| {
                let since = self.now;
                (task, Asked { by: None, since })
            })
            .collect();
        self.evaluation = Some(Evaluation {
            version,
            open,
            scores: SortedMap::new(),
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

    /// Says of which versions before the base of a new branch nobody has the weights any more.
    pub(super) fn leave_unscored(&mut self, base: Step, effects: &mut Vec<Effect>) {
        let under_way = self.evaluation.as_ref().map(|e| e.version);
        let pinned = self.slices.values().filter_map(|slice| slice.pinned);
        let left = pinned.chain(under_way).chain([self.judged]).min();
        for version in (left.map_or(base.0, |step| step.0)..base.0).map(Step) {
            let over = self.metrics.contains_key(&version) || self.unscored.contains(&version);
            if self.rules.evaluated(version) && !over {
                self.not_evaluated(version, effects);
            }
        }
    }

    /// Gives every task without an evaluator to the active member that has the fewest.
    pub(super) fn hand_out(&mut self, effects: &mut Vec<Effect>) {
        let Some(evaluation) = &self.evaluation else {
            return;
        };
        let open = evaluation.open.iter();
        let free = open.filter(|(_, asked)| asked.by.is_none());
        let free: Vec<u32> = free.map(|(task, _)| *task).collect();
        // Tasks are few: as many members are enough.
        let active = self.members.accepting().iter().take(free.len());
        let able = active.copied().collect();
        self.hand_to(free, able, effects);
    }

    /// Asks for each of the tasks whoever of these has the fewest of them.
    fn hand_to(&mut self, free: Vec<u32>, able: Vec<Incarnation>, effects: &mut Vec<Effect>) {
        let Some(evaluation) = &mut self.evaluation else {
            return;
        };
        let mut loads: SortedMap<Incarnation, Vec<u32>> = able
            .into_iter()
            .map(|member| (member, Vec::new()))
            .collect();
        if loads.is_empty() {
            return;
        }
        for task in free {
            let (member, tasks) = loads
                .iter_mut()
                .min_by_key(|(member, tasks)| (tasks.len(), **member))
                .expect("there is an active member");
            tasks.push(task);
            let (by, since) = (Some(*member), self.now);
            evaluation.open.insert(task, Asked { by, since });
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
            for asked in evaluation.open.values_mut() {
                asked.by = asked.by.filter(|by| *by != lost);
            }
            self.hand_out(effects);
        }
    }

    /// What takes too long is asked of members that have nothing else to score, as somebody may be
    /// stuck; it is given up if a slice does not have the version any more.
    fn evaluation_late(&mut self, effects: &mut Vec<Effect>) {
        let (now, patience) = (self.now, self.patience());
        let Some(Evaluation { version, open, .. }) = &self.evaluation else {
            return;
        };
        let version = *version;
        let late = open
            .iter()
            .filter(|(_, asked)| asked.since + patience <= now);
        let late: Vec<u32> = late.map(|(task, _)| *task).collect();
        if late.len() == open.len() && self.is_gone(version) {
            self.evaluation = None;
            self.not_evaluated(version, effects);
            effects.push(Effect::Order(ShardOrder::Evaluated { version }));
            return;
        }
        let busy: SortedSet<Incarnation> = open.values().filter_map(|asked| asked.by).collect();
        let idle = self.active().filter(|member| !busy.contains(member));
        let idle = idle.take(late.len()).collect();
        self.hand_to(late, idle, effects);
    }

    /// Whether a slice is past the version and does not keep it: another process serves it, which
    /// was made its backup later.
    fn is_gone(&self, version: Step) -> bool {
        let gone = |slice: &SliceState| slice.seen > version && slice.pinned != Some(version);
        self.slices.values().any(gone)
    }

    /// Whose scores an evaluation waits for that the next step has to wait for.
    pub(super) fn waiting_for_scores(&self) -> Option<String> {
        let evaluation = self.evaluation.as_ref()?;
        let next = self.reached();
        let waits = self.rules.evaluated(next) && next > evaluation.version;
        let asked = evaluation.open.values().next().filter(|_| waits)?;
        let by = asked.by.and_then(|by| Some((by, self.members.get(by)?)));
        let who = match by {
            Some((by, state)) => {
                format!("worker {} ({})", by.within(self.settings.reign), state.name)
            }
            None => "a worker".into(),
        };
        let version = evaluation.version;
        Some(format!(
            "{who} to score version {version}; then version {next} is scored and step {next} goes on"
        ))
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
        // Shard processes outlive a coordinator that knows the score, and its record may not.
        if self.settings.hosts.is_some() {
            self.untaken.insert(version);
        } else {
            effects.push(Effect::Order(ShardOrder::Evaluated { version }));
        }
    }

    /// The slices may let go of the version.
    pub(super) fn score_taken(
        &mut self,
        timeline: Timeline,
        version: Step,
        effects: &mut Vec<Effect>,
    ) {
        if timeline == self.branch.timeline && self.untaken.remove(&version) {
            effects.push(Effect::Order(ShardOrder::Evaluated { version }));
        }
    }

    /// Slices that were told of a score which is lost let go of the last version, and the run does
    /// not end without it.
    fn last_score_again(&self, effects: &mut Vec<Effect>) {
        let version = self.rules.last();
        let wanted = self.rules.evaluated(version) && !self.metrics.contains_key(&version);
        let unpinned = |slice: &SliceState| slice.pinned.is_none();
        if wanted && self.resting_at() == Some(version) && self.slices.values().any(unpinned) {
            effects.push(Effect::Order(ShardOrder::Pin { version }));
        }
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

    /// Repeats what may have been lost, and looks at what is late.
    pub(super) fn evaluation_again(&mut self, effects: &mut Vec<Effect>) {
        let Some(evaluation) = &self.evaluation else {
            return self.last_score_again(effects);
        };
        let mut tasks: SortedMap<Incarnation, Vec<u32>> = SortedMap::new();
        for (task, asked) in &evaluation.open {
            if let Some(member) = asked.by {
                tasks.entry(member).or_default().push(*task);
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
        self.evaluation_late(effects);
    }
}

/// Whether a score can be of one task, which is a small range of rows: so that no sum of scores
/// overflows.
fn is_plausible(score: &TaskScore) -> bool {
    score.rows <= u64::from(u32::MAX) && score.correct.is_none_or(|correct| correct <= score.rows)
}
