//! Scores of a data set in fixed ranges of rows, so that any number of workers gives one result
//! (PROTOCOL 30).

use std::ops::Range;

use resilin_core::PartitionId;
use resilin_core::tree::{Node, Tree};

use super::sum::tree_sum_f64;
use super::worker::{EvaluateError, Evaluator};
use crate::dataset::{Batch, Dataset};
use crate::model::Score;
use crate::task::Task;

/// Rows of one evaluation task.
pub const SCORE_ROWS: u64 = 256;

/// Which rows of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those that are trained on.
    Train,
    /// Those that are only evaluated.
    Test,
}

impl Which {
    fn of(self, task: &Task) -> Option<&dyn Dataset> {
        match self {
            Self::Train => Some(task.split.train.as_ref()),
            Self::Test => task.split.test.as_deref(),
        }
    }

    /// Rows in it; 0 where there is none.
    #[must_use]
    pub fn rows(self, task: &Task) -> u64 {
        self.of(task).map_or(0, |data| data.manifest().rows)
    }
}

/// How many tasks score a data set of `rows`.
#[must_use]
pub fn score_tasks(rows: u64) -> u32 {
    u32::try_from(rows.div_ceil(SCORE_ROWS)).expect("fewer than 2^40 rows")
}

/// The rows of a task.
#[must_use]
pub fn score_range(rows: u64, task: u32) -> Range<u64> {
    let start = u64::from(task) * SCORE_ROWS;
    start..(start + SCORE_ROWS).min(rows)
}

/// Adds the scores of all tasks, in their order; losses over the tree on the tasks. `None` for no
/// task.
#[must_use]
pub fn combine_scores(scores: &[Score]) -> Option<Score> {
    let count = u32::try_from(scores.len()).expect("fewer than 2^32 tasks");
    if count == 0 {
        return None;
    }
    let all = (0..count).map(PartitionId).collect();
    let sum = |of: &dyn Fn(&Score) -> f64| {
        let losses: Vec<(Node, f64)> = (0..count)
            .map(|k| (Node { level: 0, index: k }, of(&scores[k as usize])))
            .collect();
        tree_sum_f64(Tree::new(count).root(), &all, &losses)
    };
    Some(Score {
        rows: scores.iter().map(|s| s.rows).sum(),
        correct: scores.iter().map(|s| s.correct).sum(),
        loss_sum: sum(&|score| score.loss_sum),
        parts: std::array::from_fn(|part| sum(&|score| score.parts[part])),
    })
}

impl Evaluator {
    /// Scores one range of rows.
    ///
    /// # Errors
    /// If rows cannot be read or do not fit the model.
    ///
    /// # Panics
    /// If the task has no such rows.
    pub fn score(
        &mut self,
        weights: &[f32],
        which: Which,
        rows: Range<u64>,
    ) -> Result<Score, EvaluateError> {
        if self.batches.is_empty() {
            self.batches.push(Batch::default());
        }
        let data = which
            .of(&self.task)
            .expect("only rows that exist are scored");
        let id = |row: u64| u32::try_from(row).expect("a data set has fewer than 2^32 rows");
        self.ids.clear();
        self.ids.extend(rows.map(id));
        self.read = None;
        data.read(&self.ids, &mut self.batches[0])?;
        Ok(self
            .task
            .model
            .score(weights, &self.batches[0], &mut self.workspace)?)
    }

    /// Scores all rows; `None` where there is none.
    ///
    /// # Errors
    /// If rows cannot be read or do not fit the model.
    pub fn score_all(
        &mut self,
        weights: &[f32],
        which: Which,
    ) -> Result<Option<Score>, EvaluateError> {
        let rows = which.rows(&self.task);
        let scores = (0..score_tasks(rows))
            .map(|task| self.score(weights, which, score_range(rows, task)))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(combine_scores(&scores))
    }
}
