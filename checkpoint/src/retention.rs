//! Which checkpoints stay. Damaged ones and those of branches that were left are never counted, the
//! last good one never goes, and a directory that cannot be deleted is a warning: training does not stop for it.

use crate::error::{Result, StoreError};
use crate::files::{self, free_name, rename_durably};
use crate::records::{Batch, commit_key};
use crate::restore::{Depth, check_committed};
use crate::run::{CommitRecord, Run};
use crate::shared::TEMPORARY;

/// What a deletion did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Names of the checkpoints that are gone.
    pub deleted: Vec<String>,
    /// What could not be done, each with its reason.
    pub warnings: Vec<String>,
}

pub(crate) fn prune(run: &Run, keep: usize) -> Result<Pruned> {
    let keep = keep.max(1);
    let commits = run.commits()?;
    let mut pruned = Pruned::default();
    if commits.len() <= keep {
        return Ok(pruned);
    }
    let mut good = 0;
    let mut rest = commits.into_iter().rev();
    for commit in rest.by_ref() {
        // A start has named it, and it goes once there are enough others.
        if run.left(&commit).is_some() {
            continue;
        }
        match is_good(run, &commit) {
            Ok(()) => good += 1,
            Err(error) => pruned.warnings.push(error.to_string()),
        }
        if good == keep {
            break;
        }
    }
    // Older than enough good ones: they go, damaged or not. There are none if too few are good.
    for commit in rest {
        delete(run, commit, &mut pruned)?;
    }
    Ok(pruned)
}

/// Every byte is read once in a life of the process; later, lengths must do.
fn is_good(run: &Run, commit: &CommitRecord) -> Result<()> {
    let known = run.verified().contains(&commit.directory);
    let depth = if known {
        Depth::Lengths
    } else {
        Depth::Digests
    };
    let path = run.path().join(&commit.directory);
    check_committed(run.state().files(), &path, commit, depth)?;
    run.note_verified(&commit.directory);
    Ok(())
}

/// The record goes first: without it, nobody restores from what is half deleted.
fn delete(run: &Run, commit: CommitRecord, pruned: &mut Pruned) -> Result<()> {
    let mut batch = Batch::default();
    batch.remove(commit_key(run.directory(), commit.timeline, commit.step));
    run.state().apply(&batch)?;
    run.verified().remove(&commit.directory);
    match remove(run, &commit.directory) {
        Ok(()) => pruned.deleted.push(commit.directory),
        Err(error) => pruned.warnings.push(error.to_string()),
    }
    Ok(())
}

/// Under its own name a start would take a full set up again.
fn remove(run: &Run, name: &str) -> Result<()> {
    let files = run.state().files();
    let temporary = free_name(&files::list(files, run.path())?, name, TEMPORARY);
    rename_durably(files, run.path(), name, &temporary)?;
    let path = run.path().join(temporary);
    files
        .remove_dir(&path)
        .map_err(StoreError::io("delete", &path))
}
