//! The first rows before a run: a model that nobody vouches for is evaluated twice on a microbatch,
//! so that one whose results vary is refused by name instead of spoiling weights; and before anybody
//! is started for a new run, all that the run asks of its model is tried once.

use std::sync::Arc;

use resilin_core::job::Bits;

use resilin_core::Step;

use crate::kernel::{EvaluateError, Evaluator, Which, score_range};
use crate::model::{ModelError, Outcome, Repeats, Score};
use crate::task::Task;

/// How often the first rows are tried before what fails is called the model's fault: a command may
/// have been killed by somebody else.
const TRIES: u32 = 2;

/// Why a model takes no part.
#[derive(Debug, thiserror::Error)]
pub enum RehearsalError {
    /// It could not be evaluated at all.
    #[error(transparent)]
    Evaluate(#[from] EvaluateError),
    /// The second result differs from the first.
    #[error(
        "{model} gives two results for the same microbatch, so that no weights would come out \
         again; make it repeat itself, or set [run] bits = \"off\", which keeps exactly-once and \
         recovery and promises no bits"
    )]
    Varies {
        /// The model, by name.
        model: String,
    },
}

/// Evaluates the first microbatch of the run twice, on the initial weights, unless the model's
/// results repeat by construction. A run without promised bits takes any two results; it is
/// rehearsed all the same, so that a model that fails does so before it is counted on.
///
/// # Errors
/// Rows or model fail, or the results differ in a run that promises bits.
pub fn rehearse(task: &Arc<Task>) -> Result<(), RehearsalError> {
    match task.model.repeats() {
        Repeats::ByConstruction => return Ok(()),
        Repeats::Unproven => {}
    }
    let repeats = Evaluator::new(Arc::clone(task)).repeats(&task.initial_weights())?;
    match task.job.run.bits {
        Bits::On if !repeats => Err(RehearsalError::Varies {
            model: task.model_name(),
        }),
        Bits::On | Bits::Off => Ok(()),
    }
}

/// All that a run asks of its model, on the first rows and the initial weights: a gradient, twice as
/// in [`rehearse`] if nobody vouches for it, and a score. What is wrong with a model shows itself
/// here, before anybody is started who would try it in vain.
///
/// # Errors
/// As [`rehearse`], or sums that do not count the rows they are of.
pub fn rehearse_all(task: &Arc<Task>) -> Result<(), RehearsalError> {
    let mut tried = try_all(task);
    for _ in 1..TRIES {
        match &tried {
            Err(RehearsalError::Evaluate(_)) => tried = try_all(task),
            Ok(()) | Err(RehearsalError::Varies { .. }) => break,
        }
    }
    tried
}

fn try_all(task: &Arc<Task>) -> Result<(), RehearsalError> {
    rehearse(task)?;
    let weights = task.initial_weights();
    let mut evaluator = Evaluator::new(Arc::clone(task));
    let first = task.sampling.with_samples(Step(0)).iter().next();
    let partition = first.expect("a run has rows");
    let rows = task.sampling.positions(Step(0), partition);
    let mut gradient = vec![0.0; task.layout.len()];
    let (outcome, _) = evaluator.digest_leaf(&weights, Step(0), partition, &mut gradient)?;
    check_outcome(task, outcome, rows.end - rows.start)?;
    let test = score_range(Which::Test.rows(task), 0);
    let rows = test.end - test.start;
    if rows > 0 {
        check_score(task, &evaluator.score(&weights, Which::Test, test)?, rows)?;
    }
    Ok(())
}

fn check_outcome(task: &Task, outcome: Outcome, rows: u64) -> Result<(), EvaluateError> {
    let Outcome {
        samples, weight, ..
    } = outcome;
    if samples != rows {
        return Err(miscounted(task, samples, rows));
    }
    if weight.is_finite() && weight > 0.0 {
        return Ok(());
    }
    let model = task.model_name();
    let text = format!("{model} gives {rows} rows a weight of {weight}; a weight is above 0");
    Err(ModelError(text).into())
}

fn check_score(task: &Task, score: &Score, rows: u64) -> Result<(), EvaluateError> {
    if score.rows != rows {
        return Err(miscounted(task, score.rows, rows));
    }
    match score.correct {
        Some(correct) if correct > rows => {
            let model = task.model_name();
            let text = format!("{model} predicts {correct} of {rows} rows right; count each once");
            Err(ModelError(text).into())
        }
        Some(_) | None => Ok(()),
    }
}

fn miscounted(task: &Task, counted: u64, rows: u64) -> EvaluateError {
    let model = task.model_name();
    let text = format!("{model} counts {counted} rows where there are {rows}; count each once");
    ModelError(text).into()
}
