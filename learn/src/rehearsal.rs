//! One microbatch before a run: a model that nobody vouches for is evaluated twice on it, so that
//! one whose results vary is refused by name instead of spoiling weights.

use std::sync::Arc;

use resilin_core::job::Bits;

use crate::kernel::{EvaluateError, Evaluator};
use crate::model::Repeats;
use crate::task::Task;

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
