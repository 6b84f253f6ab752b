//! What slices were at the base of a branch: a checkpoint, or the initial weights.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use resilin_checkpoint::{Restored, Run};
use resilin_core::message::Branch;
use resilin_core::{SliceId, Step};
use resilin_learn::task::Task;

use crate::link::SharedValues;

/// Reads slices back; the checkpoint that was read last is not searched again.
#[derive(Default)]
pub(in crate::coordinator) struct Source(Mutex<Option<Restored>>);

impl Source {
    /// The slice's tensors, weights first, or why there are none. It blocks.
    pub(super) fn read(
        &self,
        run: &Run,
        task: &Task,
        slice: SliceId,
        branch: Branch,
    ) -> Result<Vec<SharedValues>, String> {
        let blocks = task.slices(branch.shards).range(slice);
        let shared = |values: Vec<f32>| SharedValues::new(Arc::new(values));
        match self.checkpoint(run, branch.base)? {
            Some(restored) => {
                let loaded = restored.load(blocks).map_err(|error| {
                    // It is damaged by now: the next look is a whole one.
                    *self.last() = None;
                    error.to_string()
                })?;
                Ok(loaded
                    .into_iter()
                    .map(|(_, values)| shared(values))
                    .collect())
            }
            None if branch.base == Step(0) => {
                let initial = task.slice_plan(blocks).initial(&task.initial_weights());
                Ok(initial.into_iter().map(shared).collect())
            }
            None => Err(format!(
                "no good checkpoint of step {} is left",
                branch.base
            )),
        }
    }

    /// The lock is held while the files are checked: whoever asks meanwhile needs the same.
    fn checkpoint(&self, run: &Run, step: Step) -> Result<Option<Restored>, String> {
        let mut last = self.last();
        if last.as_ref().is_none_or(|last| last.manifest.step != step) {
            *last = run.at(step).map_err(|error| error.to_string())?;
        }
        Ok(last.clone())
    }

    fn last(&self) -> MutexGuard<'_, Option<Restored>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
