//! A look at a task before its run: rows that the model does not take are found at the start and not
//! at some step, and what a person would want to know is said.

use crate::dataset::{Batch, Dataset};
use crate::kernel::{Which, score_range, score_tasks};
use crate::model::{Model, ModelError};
use crate::task::Task;

/// Bytes of an epoch's order from which on it is worth a word.
const LARGE_ORDER: u64 = 1 << 28;

/// Whether the model takes every training and test row; looked at only for models that are choosy
/// about values.
///
/// # Errors
/// The first row that it does not take or that cannot be read, in one line.
pub fn check_rows(task: &Task) -> Result<(), ModelError> {
    if !task.model.is_choosy() {
        return Ok(());
    }
    let test = task.split.test.as_ref().map(|rows| ("test", rows));
    for (name, rows) in std::iter::once(("training", &task.split.train)).chain(test) {
        check_some(task.model.as_ref(), rows.as_ref())
            .map_err(|(row, error)| ModelError(format!("{name} row {row}: {error}")))?;
    }
    Ok(())
}

/// The first row that does not fit, and why.
fn check_some(model: &dyn Model, rows: &dyn Dataset) -> Result<(), (u64, String)> {
    let (mut batch, count) = (Batch::default(), rows.manifest().rows);
    for task in 0..score_tasks(count) {
        let range = score_range(count, task);
        let ids: Vec<u32> = range.clone().map(id).collect();
        let read = rows.read(&ids, &mut batch);
        read.map_err(|error| (range.start, error.to_string()))?;
        let Err(fault) = model.check(&batch) else {
            continue;
        };
        for row in 0..batch.rows {
            let found = model.check(&batch.rows(row..row + 1));
            found.map_err(|error| (range.start + row as u64, error.to_string()))?;
        }
        // Each row is taken alone, so what is wrong is their number or what they are together.
        return Err((range.start, fault.to_string()));
    }
    Ok(())
}

fn id(row: u64) -> u32 {
    u32::try_from(row).expect("a data set has fewer than 2^32 rows")
}

/// What a person would want to know before the run, a line each.
#[must_use]
pub fn notes(task: &Task) -> Vec<String> {
    let mut notes = Vec::new();
    notes.extend(task.model.advice(task.job.run.microbatch()));
    let order = 4 * Which::Train.rows(task);
    if order >= LARGE_ORDER {
        notes.push(format!(
            "{} training rows: every worker keeps the order of an epoch, {} MiB, and makes it anew at \
             each; the first step takes a while",
            Which::Train.rows(task),
            order >> 20
        ));
    }
    notes
}
