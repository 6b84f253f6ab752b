//! What a start does before anything else: take up full sets that have no record, then clean up.
//!
//! Cleaning removes what no record names, so it must not run in or after a rebuild (PROTOCOL 27):
//! the marker [`records::complete_key`] says that the records were not begun anew.

use std::path::Path;

use resilin_core::ledger::Record;
use resilin_core::{Step, Timeline};

use crate::error::Result;
use crate::files::{self, Files};
use crate::ledger::LEDGER;
use crate::line;
use crate::manifest::{Manifest, directory_name, parse_directory_name};
use crate::records::{self, Batch, Kind, commit_key, run_key};
use crate::restore::{Depth, check};
use crate::run::{CommitRecord, Finished, RunRecord};
use crate::shared::{Shared, TEMPORARY};

/// What a start found and did; for the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// The damaged record store that was set aside, and why.
    pub set_aside: Option<SetAside>,
    /// Checkpoints that were taken up again from their manifests, as `RUN/CHECKPOINT`.
    pub adopted: Vec<String>,
    /// Checkpoint directories without a record that are not full sets, and why.
    pub refused: Vec<String>,
    /// Temporary and unnamed entries that were removed.
    pub removed: Vec<String>,
    /// What could not be done, each with its reason.
    pub warnings: Vec<String>,
}

/// A damaged record store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// Its new name in the state directory.
    pub name: String,
    /// What was wrong.
    pub why: String,
}

/// Ends removals, takes up full sets without a record, and cleans if the records were complete.
pub(crate) fn recover(state: &Shared, report: &mut OpenReport) -> Result<()> {
    let complete: Option<bool> = state.get(&records::complete_key())?;
    for (key, value) in state.scan(records::REMOVAL)? {
        finish_removal(state, &key, &value, report)?;
    }
    for run in files::list(state.files(), state.root())? {
        if !run.ends_with(TEMPORARY) {
            adopt(state, &run, report)?;
        }
    }
    if complete == Some(true) {
        return clean(state, report);
    }
    let mut batch = Batch::default();
    batch.put(records::complete_key(), &true)?;
    state.apply(&batch)
}

/// Takes up all full sets of a run's directory that have no record, in one batch. On a healthy
/// store that is at most the set whose commit a crash cut off; but sled can lose the end of its log
/// without a word (measured: flipped and zeroed bytes), and then these are what was announced.
fn adopt(state: &Shared, run: &str, report: &mut OpenReport) -> Result<()> {
    let committed = state.commits(run)?;
    let mut batch = Batch::default();
    let mut newest: Option<Manifest> = None;
    for name in checkpoints(state.files(), &state.root().join(run)) {
        if committed.iter().any(|commit| commit.directory == name) {
            continue;
        }
        let path = state.root().join(run).join(&name);
        let (manifest, sha256) = match check(state.files(), &path, Depth::Lengths) {
            Ok(checked) if belongs(&checked.0, run, &name) => checked,
            Ok(_) => {
                let why = "its manifest is another checkpoint's";
                report.refused.push(format!("{}: {why}", path.display()));
                continue;
            }
            Err(error) => {
                report.refused.push(error.to_string());
                continue;
            }
        };
        let key = commit_key(run, manifest.timeline, manifest.step);
        batch.put(key, &rebuilt_commit(&manifest, &name, sha256))?;
        report.adopted.push(format!("{run}/{name}"));
        if newest
            .as_ref()
            .is_none_or(|known| place(known) < place(&manifest))
        {
            newest = Some(manifest);
        }
    }
    let Some(newest) = newest else {
        return Ok(());
    };
    let last = committed
        .last()
        .map(|commit| (commit.timeline, commit.step));
    complete_records(state, run, &newest, last, &mut batch)?;
    state.apply(&batch)
}

fn place(manifest: &Manifest) -> (Timeline, Step) {
    (manifest.timeline, manifest.step)
}

/// Adds what the manifest of the newest adopted set knows beyond the records of the run, whose last
/// commit was `last`.
fn complete_records(
    state: &Shared,
    run: &str,
    newest: &Manifest,
    last: Option<(Timeline, Step)>,
    batch: &mut Batch,
) -> Result<()> {
    let stored = state.run(run)?;
    let ended = stored
        .as_ref()
        .is_some_and(|record| record.finished.is_some());
    if stored.is_none() || (!ended && newest.finished && last < Some(place(newest))) {
        batch.put(run_key(run, Kind::Info), &rebuilt_record(newest))?;
    }
    let key = run_key(run, Kind::Timeline);
    let issued: Option<Timeline> = state.get(&key)?;
    batch.put(key, &issued.unwrap_or_default().max(newest.timeline))
}

fn belongs(manifest: &Manifest, run: &str, name: &str) -> bool {
    rebuilt_record(manifest).directory() == run
        && directory_name(manifest.step, manifest.timeline) == name
}

fn rebuilt_commit(manifest: &Manifest, name: &str, manifest_sha256: String) -> CommitRecord {
    CommitRecord {
        step: manifest.step,
        timeline: manifest.timeline,
        directory: name.into(),
        bytes: manifest.bytes(),
        manifest_sha256,
        finished: manifest.finished,
        ledger: manifest.ledger.unwrap_or_default(),
    }
}

/// The manifest decides whether the run is finished (PROTOCOL 29); its report is lost.
fn rebuilt_record(manifest: &Manifest) -> RunRecord {
    RunRecord {
        name: manifest.run.clone(),
        digest: manifest.digest,
        job: manifest.job.clone(),
        created: manifest.created,
        finished: manifest.finished.then_some(Finished {
            at: 0,
            report: None,
        }),
    }
}

/// Names of the checkpoint directories in a directory; none if it is a plain file.
fn checkpoints(files: &dyn Files, dir: &Path) -> Vec<String> {
    let mut names = files.list(dir).unwrap_or_default();
    names.retain(|name| parse_directory_name(name).is_some());
    names
}

/// Removes what has no record: temporary entries, and checkpoints that are not full sets.
fn clean(state: &Shared, report: &mut OpenReport) -> Result<()> {
    for record in state.runs()? {
        let run = record.directory();
        let named: Vec<_> = state
            .commits(&run)?
            .into_iter()
            .map(|commit| commit.directory)
            .collect();
        for name in files::list(state.files(), &state.root().join(&run))? {
            let unnamed = parse_directory_name(&name).is_some() && !named.contains(&name);
            if unnamed || name.ends_with(TEMPORARY) {
                remove(state, &format!("{run}/{name}"), report);
            }
        }
    }
    Ok(())
}

/// Ends the removal of a run that a crash interrupted.
fn finish_removal(state: &Shared, key: &[u8], value: &[u8], report: &mut OpenReport) -> Result<()> {
    let run: String = records::parse(key, value)?;
    let entries = files::list(state.files(), state.root())?;
    // Both names: a crash can have come before the rename.
    let temporary = String::from_utf8_lossy(&key[records::REMOVAL.len()..]).into_owned();
    let begun_again = state.run(&run)?.is_some();
    for name in [temporary, run] {
        let doomed = name.ends_with(TEMPORARY) || !begun_again;
        if doomed && entries.contains(&name) && !remove(state, &name, report) {
            return Ok(());
        }
    }
    files::sync_dir(state.files(), state.root())?;
    let mut batch = Batch::default();
    batch.remove(key.to_vec());
    state.apply(&batch)
}

/// Whether the entry, a directory or a file, is gone.
fn remove(state: &Shared, name: &str, report: &mut OpenReport) -> bool {
    let path = state.root().join(name);
    let files = state.files();
    let removed = files
        .remove_dir(&path)
        .or_else(|_| files.remove_file(&path));
    match removed {
        Ok(()) => report.removed.push(name.into()),
        Err(ref error) => report
            .warnings
            .push(format!("cannot remove {}: {error}", path.display())),
    }
    removed.is_ok()
}

/// The highest reign that any directory name, manifest or ledger mentions.
pub(crate) fn highest_reign(state: &Shared) -> Result<u64> {
    let mut highest = 0;
    for run in files::list(state.files(), state.root())? {
        let dir = state.root().join(&run);
        for name in checkpoints(state.files(), &dir) {
            let named = parse_directory_name(&name).map_or(0, |(_, timeline)| timeline.reign);
            // A damaged manifest still has its name.
            let written = Manifest::read(state.files(), &dir.join(&name)).map_or(0, |m| m.0.reign);
            highest = highest.max(named).max(written);
        }
        if files::list(state.files(), &dir).is_ok_and(|names| names.iter().any(|n| n == LEDGER)) {
            line::read(state.files(), &dir.join(LEDGER), |record| {
                highest = highest.max(reign_of(&record));
            })?;
        }
    }
    Ok(highest)
}

/// The reign that a record shows; 0 if it shows none.
fn reign_of(record: &Record) -> u64 {
    match record {
        Record::Start { reign } => *reign,
        Record::Initial { timeline, .. }
        | Record::Rollback { timeline, .. }
        | Record::Evaluation { timeline, .. } => timeline.reign,
        Record::Step(step) => step.timeline.reign,
        Record::Job { .. } | Record::Members(_) => 0,
    }
}
