//! The blocking half of a start: from a job file and a state directory to slices in memory.

use std::path::PathBuf;
use std::sync::Arc;

use resilin_checkpoint::{
    History, Newest, Opened as OpenedRun, Patience, Restored, Run, RunIdentity, Start, StateDir,
};
use resilin_core::Step;
use resilin_core::handshake::{Expected, Fingerprint};
use resilin_core::job::Bits;
use resilin_core::ledger::{Members, Record};
use resilin_core::machine::Rules;
use resilin_core::machine::job::{Metrics, Wishes};
use resilin_core::message::Branch;
use resilin_core::sorted::SortedMap;
use resilin_learn::dataset::Manifest;
use resilin_learn::look::{check_rows, notes};
use resilin_learn::numerics;
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;

use super::Options;
use super::announce::Announcement;
use super::common::manifests;
use super::lineage::{self, Lineage};
use super::rehearsal::rehearse;
use crate::clock::unix_seconds;
use crate::exit::Exit;
use crate::process::check_exposure;

/// A run that is ready to be served.
pub(super) struct Opening {
    pub(super) task: Arc<Task>,
    pub(super) rules: Rules,
    /// Keeps the lock on the state.
    pub(super) state: StateDir,
    pub(super) state_path: PathBuf,
    pub(super) run: Run,
    pub(super) reign: u64,
    pub(super) lineage: Lineage,
    pub(super) durable: Option<Step>,
    pub(super) metrics: SortedMap<Step, Metrics>,
    pub(super) members: Members,
    pub(super) wishes: Wishes,
    pub(super) expected: Expected,
    pub(super) listen: String,
    pub(super) advertise: Option<String>,
    pub(super) api: String,
    pub(super) token_file: Option<PathBuf>,
}

/// What opening came to.
pub(super) enum Opened {
    /// There is nothing left to do.
    Finished(Announcement),
    /// There is.
    Ready(Box<Opening>),
}

/// Opens state and run; nobody is told of anything yet.
pub(super) fn open(options: Options, registry: &Registry) -> Result<Opened, Exit> {
    let task = registry.task(options.job.clone(), options.data.as_deref());
    let task = Arc::new(task.map_err(|error| Exit::Usage(error.to_string()))?);
    check_rows(&task).map_err(|error| Exit::Usage(error.to_string()))?;
    for note in notes(&task) {
        tracing::warn!("{note}");
    }
    if let Start::Fresh = options.start {
        // What there is of the run is removed only for one that can begin.
        rehearse(&task)?;
    }
    let numerics = check_numerics(task.job.run.bits)?;
    let cluster = &task.job.cluster;
    let listen = options.listen.unwrap_or_else(|| cluster.listen.clone());
    let api = options.api.unwrap_or_else(|| cluster.api.clone());
    for address in [&listen, &api] {
        check_exposure(address, options.token.as_ref())?;
    }

    let state = StateDir::open(&options.state, Patience::default())?;
    log_open(&state);
    let reign = state.next_reign(unix_seconds())?;
    let identity = RunIdentity {
        name: task.job.run.name.clone(),
        job: task.effective.clone(),
    };
    let opened = state.open_run(identity, options.start, unix_seconds())?;
    if let Some(other) = &opened.other {
        let keys = task.effective.differences(&other.job).join("; ");
        tracing::warn!(
            keys,
            "another job than the newest run of this name: a new run begins"
        );
    }
    log_ledger(&opened);
    let run = opened.run;
    // A finished run's result is that of its rows only.
    let restored = newest(&run, &task)?;
    let ended = run.record().finished.as_ref();
    if let Some(report) = ended.and_then(|finished| finished.report.clone()) {
        let directory = run.path().to_path_buf();
        return Ok(Opened::Finished(Announcement::Finished {
            directory,
            report,
        }));
    }
    if let (None, Start::Resume) = (&restored, options.start) {
        rehearse(&task)?;
    }
    // Workers evaluate.
    task.model.rest();
    let job = Record::Job {
        rows: task.sampling.rows(),
        job: task.effective.bare(),
    };
    run.append(&[Record::Start { reign }, job])?;
    let rules = task.rules(cluster.shards);
    let durable = restored.as_ref().map(|restored| restored.manifest.step);
    let lineage = match cluster.shard_processes {
        0 => lineage::inside(&run, &task, &rules, restored.as_ref())?,
        _ => lineage::outside(&run, &task, &rules, durable)?,
    };
    let history = run.history()?;
    let wishes = run.wishes()?.unwrap_or_default();
    let Branch { timeline, base, .. } = lineage.branch;
    tracing::info!(step = base.0, %timeline, run = %rules.run, "run opened");
    Ok(Opened::Ready(Box::new(Opening {
        expected: Expected {
            run: Some(rules.run),
            token: options.token,
            numerics,
            data: Some(Fingerprint(task.data_digest())),
        },
        durable,
        rules: task.rules(lineage.branch.shards),
        task,
        reign,
        lineage,
        state,
        state_path: options.state,
        run,
        metrics: metrics(&history),
        members: history.members(),
        wishes,
        listen,
        advertise: options.advertise,
        api,
        token_file: options.token_file,
    })))
}

/// A run that promises bits needs a processor that makes them.
fn check_numerics(bits: Bits) -> Result<Option<Fingerprint>, Exit> {
    match bits {
        Bits::On => {
            numerics::check().map_err(Exit::Refused)?;
            Ok(Some(Fingerprint(numerics::fingerprint())))
        }
        Bits::Off => Ok(None),
    }
}

fn log_open(state: &StateDir) {
    let report = state.report();
    if let Some(aside) = &report.set_aside {
        tracing::warn!(
            cause = aside.why,
            kept = aside.name,
            "damaged records were set aside and rebuilt from the checkpoints"
        );
    }
    for adopted in &report.adopted {
        tracing::info!(
            checkpoint = adopted,
            "checkpoint taken up from its manifest"
        );
    }
    for refused in &report.refused {
        tracing::warn!(checkpoint = refused, "not a whole checkpoint");
    }
    for warning in &report.warnings {
        tracing::warn!(warning, "opening the state");
    }
}

fn log_ledger(opened: &OpenedRun) {
    if let Some(cut) = &opened.cut {
        match &cut.kept {
            Some(kept) => tracing::warn!(
                kept = %kept.display(),
                bytes = cut.bytes,
                records = cut.records,
                "the ledger was damaged: it was set aside, and what fits is gone on from"
            ),
            None => tracing::info!(bytes = cut.bytes, "the ledger's torn last line was cut off"),
        }
    }
    if let Some(checkpoint) = &opened.ledger_lacks {
        tracing::warn!(
            checkpoint,
            "the ledger lacks lines that this checkpoint saw: the run goes on, but its hash chain \
             and counts are not whole"
        );
    }
}

fn newest(run: &Run, task: &Task) -> Result<Option<Restored>, Exit> {
    let Newest { restored, skipped } = run.newest()?;
    for skipped in skipped {
        tracing::warn!(
            checkpoint = skipped.name,
            cause = skipped.why,
            "checkpoint skipped"
        );
    }
    let Some(restored) = restored else {
        return Ok(None);
    };
    let manifest = &restored.manifest;
    let manifests = manifests(task);
    let (stored, here) = (digests(&manifest.data), digests(&manifests));
    if stored != here {
        return Err(Exit::Refused(format!(
            "the run was trained on other rows (digests {}) than are here ({}); bring the same \
             files, or start over with --fresh",
            stored.join(", "),
            here.join(", ")
        )));
    }
    if manifest.layout != *task.layout {
        let text = "the checkpoint is of another model: this program builds the job differently; \
                    use the program that began the run, or start over with --fresh";
        return Err(Exit::Refused(text.into()));
    }
    Ok(Some(restored))
}

/// What makes rows the same, whatever files they came from.
fn digests(manifests: &[Manifest]) -> Vec<&str> {
    manifests.iter().map(|rows| rows.digest.as_str()).collect()
}

/// The scores of versions up to the base.
fn metrics(history: &History) -> SortedMap<Step, Metrics> {
    let metrics = history.evaluations().copied();
    metrics.map(|metrics| (metrics.version, metrics)).collect()
}
