//! Real files and real records that stand still for ever at one operation, so that a parent can kill
//! the process exactly there. What they did before is in the kernel's hands, as after any SIGKILL.

use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use resilin_checkpoint::{Batch, Files, Pair, RealFiles, Records, Result, Writing};

/// Where in an operation the process stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    Before,
    /// Half of a write is done. What cannot be halved is done or not, by its number.
    Within,
    After,
}

pub(crate) const MOMENTS: [Moment; 3] = [Moment::Before, Moment::Within, Moment::After];

/// What is said on standard output when the process stands still.
pub(crate) const STOPPED: &str = "stopped";

/// Counts the operations that change something, from 1, over files and records.
#[derive(Clone, Debug)]
pub(crate) struct Stops {
    at: u64,
    moment: Moment,
    operations: Arc<AtomicU64>,
}

impl Stops {
    /// Stands still at operation `at`; 0 is never reached.
    pub(crate) fn new(at: u64, moment: Moment) -> Self {
        Self {
            at,
            moment,
            operations: Arc::default(),
        }
    }

    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    fn count(&self) -> Option<Moment> {
        let number = self.operations.fetch_add(1, Ordering::Relaxed) + 1;
        (number == self.at).then_some(self.moment)
    }

    /// An operation that happens as a whole.
    fn whole<T>(&self, operation: impl FnOnce() -> T) -> T {
        let now = match self.count() {
            Some(Moment::Within) if self.at.is_multiple_of(2) => Some(Moment::After),
            Some(Moment::Within) => Some(Moment::Before),
            other => other,
        };
        if now == Some(Moment::Before) {
            stand_still();
        }
        let done = operation();
        if now == Some(Moment::After) {
            stand_still();
        }
        done
    }
}

fn stand_still() -> ! {
    println!("{STOPPED}");
    io::stdout().flush().unwrap();
    loop {
        thread::park();
    }
}

struct StoppingWriting(Stops, Box<dyn Writing>);

impl Writing for StoppingWriting {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let half = bytes.len() / 2;
        match self.0.count() {
            None => self.1.write_all(bytes),
            Some(Moment::Before) => stand_still(),
            Some(Moment::Within) => {
                self.1.write_all(&bytes[..half])?;
                stand_still()
            }
            Some(Moment::After) => {
                self.1.write_all(bytes)?;
                stand_still()
            }
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.whole(|| self.1.sync())
    }
}

/// The machine's files.
#[derive(Debug)]
pub(crate) struct StoppingFiles(pub(crate) Stops);

impl Files for StoppingFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Writing>> {
        let file = self.0.whole(|| RealFiles.create(path))?;
        Ok(Box::new(StoppingWriting(self.0.clone(), file)))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Writing>> {
        let file = self.0.whole(|| RealFiles.append(path))?;
        Ok(Box::new(StoppingWriting(self.0.clone(), file)))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        RealFiles.open(path)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.whole(|| RealFiles.create_dir(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.whole(|| RealFiles.rename(from, to))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.whole(|| RealFiles.sync_dir(dir))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.whole(|| RealFiles.remove_file(path))
    }

    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.whole(|| RealFiles.remove_dir(dir))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealFiles.list(dir)
    }

    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        RealFiles.length(path)
    }

    fn free_space(&self, dir: &Path) -> io::Result<u64> {
        RealFiles.free_space(dir)
    }
}

/// Records in a real sled.
#[derive(Debug)]
pub(crate) struct StoppingRecords(pub(crate) Stops, pub(crate) Box<dyn Records>);

impl Records for StoppingRecords {
    fn scan(&self, prefix: &[u8]) -> Result<Vec<Pair>> {
        self.1.scan(prefix)
    }

    fn apply(&self, batch: &Batch) -> Result<()> {
        self.0.whole(|| self.1.apply(batch))
    }
}
