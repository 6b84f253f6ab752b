//! The records in sled, kept at arm's length: sled can panic or refuse while it opens, and can
//! hang for ever after the disk was full (both measured), so no caller ever runs it itself.
//!
//! A worker thread owns the database. A call that misses its deadline leaves the worker to its
//! fate and every later call is refused; a call that fails makes the worker open the database
//! again before the next one, because sled's memory may then differ from its log.

use std::fmt;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use crate::error::{Result, StoreError};
use crate::records::{Batch, Pair, Records, VALUE_LIMIT};

/// Name of the thread that opens sled: a panic in it is caught, so a process-wide panic hook that
/// aborts must spare it.
pub const OPENING_THREAD: &str = "store-open";

/// sled's page cache in bytes. Measured: a larger one buys nothing for a few records.
const CACHE: u64 = 16 << 20;

type Work = Box<dyn FnOnce(&mut Database) + Send>;

/// Records in a sled database.
pub(crate) struct SledRecords {
    path: PathBuf,
    /// Taken when dropped: the end of the queue ends the worker.
    work: Option<Sender<Work>>,
    /// Closes when the worker has closed the database.
    closed: Mutex<Receiver<()>>,
    deadline: Duration,
    stuck: AtomicBool,
}

impl fmt::Debug for SledRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SledRecords")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// Why sled did not open.
#[derive(Debug)]
pub(crate) enum OpenFailure {
    /// Its files are damaged; the text is sled's.
    Damaged(String),
    /// Somebody has it open: its files may be well.
    Locked(StoreError),
    /// Anything else: its files may be well.
    Other(StoreError),
}

impl SledRecords {
    /// Opens or creates the database in directory `path`; `deadline` holds for this and each call.
    pub(crate) fn open(path: &Path, deadline: Duration) -> std::result::Result<Self, OpenFailure> {
        let db = open_guarded(path, deadline)?;
        let mut database = Database {
            path: path.to_path_buf(),
            db: Some(db),
            deadline,
        };
        let (work, queue) = mpsc::channel::<Work>();
        let (closing, closed) = mpsc::channel();
        thread::Builder::new()
            .name("store-records".into())
            .spawn(move || {
                for job in queue {
                    job(&mut database);
                }
                drop(database);
                drop(closing);
            })
            .map_err(|error| {
                OpenFailure::Other(StoreError::io("start a thread for", path)(error))
            })?;
        Ok(Self {
            path: path.to_path_buf(),
            work: Some(work),
            closed: Mutex::new(closed),
            deadline,
            stuck: AtomicBool::new(false),
        })
    }

    /// Runs `call` on the worker thread and waits for it, up to the deadline.
    fn run<T: Send + 'static>(
        &self,
        doing: &'static str,
        call: impl FnOnce(&sled::Db, &Path) -> sled::Result<T> + Send + 'static,
    ) -> Result<T> {
        let unknown = || StoreError::Unknown {
            doing,
            path: self.path.clone(),
            seconds: self.deadline.as_secs(),
        };
        if self.stuck.load(Ordering::Acquire) {
            return Err(unknown());
        }
        let (answer, answered) = mpsc::channel();
        let job: Work = Box::new(move |database| {
            // The caller may have given up; then nobody wants the answer.
            drop(answer.send(database.run(doing, call)));
        });
        let work = self.work.as_ref().expect("taken only when dropped");
        if work.send(job).is_ok()
            && let Ok(result) = answered.recv_timeout(self.deadline)
        {
            return result;
        }
        self.stuck.store(true, Ordering::Release);
        Err(unknown())
    }
}

impl Drop for SledRecords {
    /// Waits for sled to let go of its lock, but not for ever: it can hang here too (measured).
    fn drop(&mut self) {
        self.work = None;
        if !self.stuck.load(Ordering::Acquire)
            && let Ok(closed) = self.closed.get_mut()
        {
            // Nothing is ever sent: the channel closes or the deadline passes.
            closed.recv_timeout(self.deadline).unwrap_or_default();
        }
    }
}

impl Records for SledRecords {
    fn scan(&self, prefix: &[u8]) -> Result<Vec<Pair>> {
        let prefix = prefix.to_vec();
        self.run("read", move |db, _| {
            db.scan_prefix(prefix)
                .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())))
                .collect()
        })
    }

    fn apply(&self, batch: &Batch) -> Result<()> {
        let mut changes = sled::Batch::default();
        for (key, value) in batch.changes() {
            match value {
                Some(value) => {
                    assert!(value.len() <= VALUE_LIMIT, "Batch::put limits values");
                    changes.insert(key, value);
                }
                None => changes.remove(key),
            }
        }
        self.run("write", move |db, path| {
            db.apply_batch(changes)?;
            db.flush()?;
            sync_log(path)
        })
    }
}

/// sled's flush only calls `sync_file_range`, which does not reach the drive; a sync through a
/// second descriptor of its log does.
fn sync_log(path: &Path) -> sled::Result<()> {
    fs::File::open(path.join("db"))?.sync_all()?;
    Ok(())
}

/// What the worker thread owns.
struct Database {
    path: PathBuf,
    db: Option<sled::Db>,
    deadline: Duration,
}

impl Database {
    fn run<T>(
        &mut self,
        doing: &'static str,
        call: impl FnOnce(&sled::Db, &Path) -> sled::Result<T>,
    ) -> Result<T> {
        let db = match self.db.take() {
            Some(db) => db,
            None => self.reopen()?,
        };
        match call(&db, &self.path) {
            Ok(value) => {
                self.db = Some(db);
                Ok(value)
            }
            Err(error) => Err(failure(doing, &self.path, error)),
        }
    }

    fn reopen(&self) -> Result<sled::Db> {
        open_guarded(&self.path, self.deadline).map_err(|failed| match failed {
            OpenFailure::Damaged(why) => StoreError::damaged(&self.path, why),
            OpenFailure::Locked(error) | OpenFailure::Other(error) => error,
        })
    }
}

fn failure(doing: &'static str, path: &Path, error: sled::Error) -> StoreError {
    match error {
        sled::Error::Io(error) => StoreError::io(doing, path)(error),
        sled::Error::Corruption { .. } => StoreError::damaged(path, error.to_string()),
        sled::Error::CollectionNotFound(_)
        | sled::Error::Unsupported(_)
        | sled::Error::ReportableBug(_) => StoreError::Records {
            doing,
            path: path.to_path_buf(),
            why: error.to_string(),
        },
    }
}

/// Opens sled and reads every record once, in a thread whose panics and delays are caught.
fn open_guarded(path: &Path, deadline: Duration) -> std::result::Result<sled::Db, OpenFailure> {
    let directory = path.to_path_buf();
    let (answer, answered) = mpsc::channel();
    thread::Builder::new()
        .name(OPENING_THREAD.into())
        .spawn(move || {
            let opened = catch_unwind(AssertUnwindSafe(|| open_and_read(&directory)));
            // The caller may have given up; then nobody wants the answer.
            drop(answer.send(opened));
        })
        .map_err(|error| OpenFailure::Other(StoreError::io("start a thread for", path)(error)))?;
    match answered.recv_timeout(deadline) {
        Ok(Ok(Ok(db))) => Ok(db),
        Ok(Ok(Err(error))) if is_damage(&error) => Err(OpenFailure::Damaged(error.to_string())),
        Ok(Ok(Err(error))) if is_lock(&error) => {
            Err(OpenFailure::Locked(failure("open", path, error)))
        }
        Ok(Ok(Err(error))) => Err(OpenFailure::Other(failure("open", path, error))),
        Ok(Err(panic)) => Err(OpenFailure::Damaged(format!(
            "sled panicked: {}",
            panic_text(panic.as_ref())
        ))),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            Err(OpenFailure::Other(StoreError::Unknown {
                doing: "open",
                path: path.to_path_buf(),
                seconds: deadline.as_secs(),
            }))
        }
    }
}

/// The background flusher is off: every batch is flushed by hand, and a thread less can fail.
fn open_and_read(path: &Path) -> sled::Result<sled::Db> {
    let db = sled::Config::new()
        .path(path)
        .cache_capacity(CACHE)
        .flush_every_ms(None)
        .open()?;
    for pair in db.iter() {
        pair?;
    }
    Ok(db)
}

fn is_damage(error: &sled::Error) -> bool {
    match error {
        // What nobody can read in its configuration, sled takes for one of an early version.
        sled::Error::Corruption { .. }
        | sled::Error::ReportableBug(_)
        | sled::Error::Unsupported(_) => true,
        // A log that ends too early, or an unreadable header.
        sled::Error::Io(error) => matches!(
            error.kind(),
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData
        ),
        sled::Error::CollectionNotFound(_) => false,
    }
}

/// sled wraps the system's error in its own text.
fn is_lock(error: &sled::Error) -> bool {
    error.to_string().contains("could not acquire lock")
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(value: &str) -> Batch {
        let mut batch = Batch::default();
        batch.put(b"key".to_vec(), &value).unwrap();
        batch
    }

    #[test]
    fn a_call_past_its_deadline_is_unknown_and_so_is_every_later_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut records = SledRecords::open(dir.path(), Duration::from_secs(30)).unwrap();
        records.apply(&batch("before")).unwrap();
        records.deadline = Duration::from_millis(20);
        let (release, hang) = mpsc::channel::<()>();
        let hung = records.run("write", move |_, _| {
            hang.recv().unwrap_or_default();
            Ok(())
        });
        assert!(matches!(
            hung,
            Err(StoreError::Unknown { doing: "write", .. })
        ));
        records.deadline = Duration::from_secs(30);
        let later = records.scan(b"key");
        assert!(matches!(
            later,
            Err(StoreError::Unknown { doing: "read", .. })
        ));
        drop(release);
    }

    #[test]
    fn a_configuration_that_nobody_can_read_is_damage() {
        let dir = tempfile::tempdir().unwrap();
        drop(SledRecords::open(dir.path(), Duration::from_secs(30)).unwrap());
        let conf = dir.path().join("conf");
        let garbage: Vec<u8> = (0..50).map(|i| i * 5 + 1).collect();
        fs::write(&conf, [fs::read(&conf).unwrap(), garbage].concat()).unwrap();
        let opened = SledRecords::open(dir.path(), Duration::from_secs(30));
        assert!(matches!(opened, Err(OpenFailure::Damaged(_))), "{opened:?}");
    }

    #[test]
    fn a_failed_call_is_followed_by_a_reopen() {
        let dir = tempfile::tempdir().unwrap();
        let records = SledRecords::open(dir.path(), Duration::from_secs(30)).unwrap();
        records.apply(&batch("one")).unwrap();
        let full = || sled::Error::Io(io::ErrorKind::StorageFull.into());
        let failed = records.run::<()>("write", move |_, _| Err(full()));
        assert!(failed.unwrap_err().is_full());
        let stored = |value: &str| vec![(b"key".to_vec(), format!("\"{value}\"").into_bytes())];
        assert_eq!(records.scan(b"k").unwrap(), stored("one"));
        records.apply(&batch("two")).unwrap();
        assert_eq!(records.scan(b"").unwrap(), stored("two"));
    }
}
