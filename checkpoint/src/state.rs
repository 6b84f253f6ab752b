//! The state directory: who owns it, what its records say, and the runs in it.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use resilin_core::job::Effective;

use crate::error::{Result, StoreError};
use crate::files::{self, Files, RealFiles, free_name, rename_durably, sync_dir};
use crate::ledger::{Cut, Ledger};
use crate::lock::{LOCK_RETRY, LOCK_WAIT, Lock};
use crate::records::{self, Batch, Kind, RUNS, Records, removal_key, run_key};
use crate::recover::{self, OpenReport, SetAside};
use crate::reserve::Reserve;
use crate::run::{Run, RunRecord};
use crate::shared::{Shared, TEMPORARY};
use crate::sled_records::{OpenFailure, SledRecords};

const SLED: &str = "sled";
const LOCK: &str = "lock";

/// Longest name of a run, in bytes.
const NAME_LIMIT: usize = 100;

/// How patient an open is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long another process's lock is waited for.
    pub lock: Duration,
    /// How long one call of the record store may take.
    pub call: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            lock: LOCK_WAIT,
            call: Duration::from_secs(30),
        }
    }
}

/// A state directory that this process owns.
#[derive(Debug)]
pub struct StateDir {
    shared: Arc<Shared>,
    report: OpenReport,
}

/// Whether a run goes on or starts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// From its newest checkpoint, if there is one.
    Resume,
    /// All that the state has of it is removed first.
    Fresh,
}

/// Which run to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunIdentity {
    /// Name in the job file: letters, digits, `.`, `_` and `-`.
    pub name: String,
    /// The effective job: its digest tells runs of one name apart.
    pub job: Effective,
}

/// A run that was opened.
#[derive(Debug)]
pub struct Opened {
    /// The run.
    pub run: Run,
    /// Whether the state knew it before.
    pub known: bool,
    /// For a new run, the newest other run of its name: `Effective::differences` names the keys.
    pub other: Option<RunRecord>,
    /// What was cut off the ledger.
    pub cut: Option<Cut>,
    /// The newest checkpoint that was written after records which the ledger lacks now: training
    /// can go on, but the chain up to it is incomplete.
    pub ledger_lacks: Option<String>,
}

impl StateDir {
    /// Takes the state directory `root` (created if missing) for this process and opens its
    /// records; damaged records are set aside and rebuilt from the manifests.
    ///
    /// # Errors
    /// Another process holds it, or it cannot be read and written; nothing was moved then.
    pub fn open(root: &Path, patience: Patience) -> Result<Self> {
        create_root(root)?;
        let lock = Lock::take(&root.join(LOCK), patience.lock)?;
        // sled does not open on a full disk.
        Reserve::new(root).make_room(&RealFiles)?;
        let mut report = OpenReport::default();
        let records = open_records(root, patience, &mut report)?;
        Self::assemble(
            root,
            Arc::new(RealFiles),
            Box::new(records),
            Some(lock),
            report,
        )
    }

    /// A state directory from other parts than the machine's: what tests and the simulator use.
    ///
    /// # Errors
    /// Those of the parts.
    pub fn with(root: &Path, files: Arc<dyn Files>, records: Box<dyn Records>) -> Result<Self> {
        Self::assemble(root, files, records, None, OpenReport::default())
    }

    fn assemble(
        root: &Path,
        files: Arc<dyn Files>,
        records: Box<dyn Records>,
        lock: Option<Lock>,
        mut report: OpenReport,
    ) -> Result<Self> {
        let shared = Shared::new(root, files, records, lock);
        recover::recover(&shared, &mut report)?;
        shared.restore_reserve();
        Ok(Self {
            shared: Arc::new(shared),
            report,
        })
    }

    /// What opening found and did.
    #[must_use]
    pub fn report(&self) -> &OpenReport {
        &self.report
    }

    /// Begins a reign: a number above every reign that the state has a trace of, at least
    /// `unix_seconds`; durable on return (PROTOCOL 1).
    ///
    /// # Errors
    /// The record store's: the number must then not be used.
    pub fn next_reign(&self, unix_seconds: u64) -> Result<u64> {
        let stored: u64 = self.shared.get(&records::reign_key())?.unwrap_or(0);
        let found = recover::highest_reign(&self.shared)?;
        let reign = unix_seconds.max(stored + 1).max(found + 1);
        let mut batch = Batch::default();
        batch.put(records::reign_key(), &reign)?;
        self.shared.apply(&batch)?;
        self.shared.set_reign(reign);
        Ok(reign)
    }

    /// Opens a run, `now` in seconds since 1970. Before its `next_reign` a state has no runs to
    /// write to.
    ///
    /// # Errors
    /// A name that is no file name, or the file system's or record store's.
    pub fn open_run(&self, identity: RunIdentity, start: Start, now: u64) -> Result<Opened> {
        check_name(&identity.name)?;
        let mut record = RunRecord {
            name: identity.name,
            digest: identity.job.digest(),
            job: identity.job.bare(),
            created: now,
            finished: None,
        };
        let directory = record.directory();
        if start == Start::Fresh {
            self.remove_run(&directory)?;
        }
        let stored = self.shared.run(&directory)?;
        if let Some(stored) = &stored {
            if stored.digest != record.digest {
                return Err(StoreError::Refused(format!(
                    "another run already has the directory {directory}; give the job another name"
                )));
            }
            record.created = stored.created;
            record.finished = stored.finished.clone();
        }
        let other = match stored {
            Some(_) => None,
            None => self.newest_other(&record)?,
        };
        let dir = self.shared.root().join(&directory);
        self.shared.ensure_dir(&dir)?;
        if stored.as_ref() != Some(&record) {
            let mut batch = Batch::default();
            batch.put(run_key(&directory, Kind::Info), &record)?;
            self.shared.apply(&batch)?;
        }
        let (ledger, cut) = Ledger::open(self.shared.shared_files(), &dir)?;
        // Rebuilt commit records do not know how long the ledger was.
        let ledger_lacks = self
            .shared
            .commits(&directory)?
            .into_iter()
            .rfind(|commit| commit.ledger.bytes > ledger.mark().bytes)
            .map(|commit| commit.directory);
        Ok(Opened {
            run: Run::new(Arc::clone(&self.shared), record, ledger),
            known: stored.is_some(),
            other,
            cut,
            ledger_lacks,
        })
    }

    fn newest_other(&self, record: &RunRecord) -> Result<Option<RunRecord>> {
        let others = self.shared.runs()?.into_iter();
        Ok(others
            .filter(|other| other.name == record.name && other.digest != record.digest)
            .max_by_key(|other| other.created))
    }

    /// Removes all of a run but its newest timeline number. The marker outlives a crash, so that the
    /// next clean start ends what was begun.
    fn remove_run(&self, directory: &str) -> Result<()> {
        let shared = &self.shared;
        let taken = files::list(shared.files(), shared.root())?;
        let temporary = free_name(&taken, directory, TEMPORARY);
        let marker = removal_key(&temporary);
        let timeline = run_key(directory, Kind::Timeline);
        let mut batch = Batch::default();
        batch.put(marker.clone(), &directory)?;
        let prefix = [RUNS, directory.as_bytes(), b"/"].concat();
        for (key, _) in shared.scan(&prefix)? {
            if key != timeline {
                batch.remove(key);
            }
        }
        shared.apply(&batch)?;
        if taken.iter().any(|name| name == directory) {
            rename_durably(shared.files(), shared.root(), directory, &temporary)?;
            let path = shared.root().join(&temporary);
            shared
                .files()
                .remove_dir(&path)
                .map_err(StoreError::io("remove", &path))?;
            sync_dir(shared.files(), shared.root())?;
        }
        let mut batch = Batch::default();
        batch.remove(marker);
        shared.apply(&batch)
    }

    /// All runs that the state knows.
    ///
    /// # Errors
    /// The record store's.
    pub fn runs(&self) -> Result<Vec<RunRecord>> {
        self.shared.runs()
    }

    /// Whether the reserve is unspent: if not, the disk is or was full (PROTOCOL 28).
    #[must_use]
    pub fn has_reserve(&self) -> bool {
        self.shared.has_reserve()
    }
}

fn create_root(root: &Path) -> Result<()> {
    if root.is_dir() {
        return Ok(());
    }
    std::fs::create_dir_all(root).map_err(StoreError::io("create", root))?;
    match root.parent() {
        Some(parent) if parent != Path::new("") => sync_dir(&RealFiles, parent),
        Some(_) | None => sync_dir(&RealFiles, Path::new(".")),
    }
}

/// Opens sled, or what takes its place if it is damaged.
fn open_records(root: &Path, patience: Patience, report: &mut OpenReport) -> Result<SledRecords> {
    let path = root.join(SLED);
    let until = Instant::now() + patience.lock;
    loop {
        match SledRecords::open(&path, patience.call) {
            Ok(records) => {
                // sled does not sync the entries of what it creates.
                sync_dir(&RealFiles, &path)?;
                sync_dir(&RealFiles, root)?;
                return Ok(records);
            }
            Err(OpenFailure::Damaged(why)) if report.set_aside.is_none() => {
                report.set_aside = Some(set_aside(root, why)?);
            }
            Err(OpenFailure::Damaged(why)) => return Err(StoreError::damaged(&path, why)),
            // A killed holder's locks end one after the other.
            Err(OpenFailure::Locked(_)) if Instant::now() < until => thread::sleep(LOCK_RETRY),
            Err(OpenFailure::Locked(error) | OpenFailure::Other(error)) => return Err(error),
        }
    }
}

fn set_aside(root: &Path, why: String) -> Result<SetAside> {
    let taken = files::list(&RealFiles, root)?;
    let name = free_name(&taken, "sled-damaged", "");
    rename_durably(&RealFiles, root, SLED, &name)?;
    Ok(SetAside { name, why })
}

fn check_name(name: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_".contains(c);
    if name.is_empty()
        || name.len() > NAME_LIMIT
        || name.starts_with('.')
        || !name.chars().all(plain)
    {
        return Err(StoreError::Refused(format!(
            "run name `{name}`: use 1 to {NAME_LIMIT} letters, digits, `.`, `_` and `-`, not beginning with `.`"
        )));
    }
    Ok(())
}
