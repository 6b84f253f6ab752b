//! A run's event file: what happened, for people. It decides nothing and is never read back by a
//! run, so writing it may fail without harm.
//!
//! Each line is whole by itself: `{"check":"C","event":E}` with C the first eight bytes of BLAKE3
//! over the bytes of E. What a process wrote survives its end; the machine's own crash may take the
//! newest lines. A torn last line is cut off at the next start, damaged lines are passed over by
//! readers. At [`EVENTS_LIMIT`] the file takes the place of the one before it: two live at most.

use std::collections::VecDeque;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use resilin_core::fact::{Dated, Fact};

use crate::digest::hex;
use crate::error::{Result, StoreError};
use crate::files::{self, Files, Writing, rename_durably};

/// Name of the event file in a run's directory.
pub const EVENTS: &str = "events.jsonl";

/// Name of the file that was full.
pub const OLDER_EVENTS: &str = "events-1.jsonl";

/// Bytes at which the file becomes the older one.
pub const EVENTS_LIMIT: u64 = 8 << 20;

/// Facts kept while the file cannot be written; older ones are counted and dropped.
const WAITING_LIMIT: usize = 4096;

const HEAD: &[u8] = b"{\"check\":\"";
const MIDDLE: &[u8] = b"\",\"event\":";
const TAIL: &[u8] = b"}\n";
const CHECK: usize = 16;

/// The open event file of a run.
pub struct Events {
    files: Arc<dyn Files>,
    dir: PathBuf,
    file: Option<Box<dyn Writing>>,
    bytes: u64,
    waiting: VecDeque<Dated>,
    dropped: u64,
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events")
            .field("dir", &self.dir)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

impl Events {
    /// The event file of the run in `dir`; nothing is opened yet.
    pub(crate) fn new(files: Arc<dyn Files>, dir: &Path) -> Self {
        Self {
            files,
            dir: dir.to_path_buf(),
            file: None,
            bytes: 0,
            waiting: VecDeque::new(),
            dropped: 0,
        }
    }

    /// Writes facts down, after those that wait from a call that failed.
    ///
    /// # Errors
    /// The file system's; the facts wait for the next call.
    pub fn append(&mut self, facts: impl IntoIterator<Item = Dated>) -> Result<()> {
        self.waiting.extend(facts);
        while self.waiting.len() > WAITING_LIMIT {
            self.waiting.pop_front();
            self.dropped += 1;
        }
        let Some(newest) = self.waiting.back() else {
            return Ok(());
        };
        let mut lines = Vec::new();
        if self.dropped > 0 {
            let fact = Fact::Unwritten {
                facts: self.dropped,
            };
            encode(
                &Dated {
                    fact,
                    ..newest.clone()
                },
                &mut lines,
            );
        }
        self.waiting
            .iter()
            .for_each(|fact| encode(fact, &mut lines));
        if let Err(error) = self.write(&lines) {
            // The line under way may be torn: the next call cuts it off.
            self.file = None;
            return Err(error);
        }
        self.waiting.clear();
        self.dropped = 0;
        Ok(())
    }

    fn write(&mut self, lines: &[u8]) -> Result<()> {
        let path = self.dir.join(EVENTS);
        if self.file.is_none() {
            self.bytes = mend(self.files.as_ref(), &self.dir)?;
            let file = self.files.append(&path);
            self.file = Some(file.map_err(StoreError::io("open", &path))?);
        }
        if self.bytes > 0 && self.bytes + lines.len() as u64 > EVENTS_LIMIT {
            rename_durably(self.files.as_ref(), &self.dir, EVENTS, OLDER_EVENTS)?;
            let file = self.files.append(&path);
            self.file = Some(file.map_err(StoreError::io("open", &path))?);
            self.bytes = 0;
        }
        let file = self.file.as_mut().expect("just opened");
        file.write_all(lines)
            .map_err(StoreError::io("write", &path))?;
        self.bytes += lines.len() as u64;
        Ok(())
    }
}

/// Cuts a torn last line off; returns how long the file is.
fn mend(files: &dyn Files, dir: &Path) -> Result<u64> {
    let path = dir.join(EVENTS);
    let Some(bytes) = files::read(files, &path, 2 * EVENTS_LIMIT)? else {
        return Ok(0);
    };
    let whole = bytes.iter().rposition(|byte| *byte == b'\n');
    let whole = whole.map_or(0, |last| last + 1);
    if whole < bytes.len() {
        let mended = "events.jsonl.tmp";
        let temporary = dir.join(mended);
        if files::list(files, dir)?.iter().any(|name| name == mended) {
            files
                .remove_file(&temporary)
                .map_err(StoreError::io("remove", &temporary))?;
        }
        files::create_synced(files, &temporary, &bytes[..whole])?;
        rename_durably(files, dir, mended, EVENTS)?;
    }
    Ok(whole as u64)
}

fn check(event: &[u8]) -> String {
    hex(&blake3::hash(event).as_bytes()[..CHECK / 2])
}

fn encode(event: &Dated, out: &mut Vec<u8>) {
    let body = serde_json::to_vec(event).expect("an event has string keys only");
    out.extend_from_slice(HEAD);
    out.extend_from_slice(check(&body).as_bytes());
    out.extend_from_slice(MIDDLE);
    out.extend_from_slice(&body);
    out.extend_from_slice(TAIL);
}

fn decode(line: &[u8]) -> Option<Dated> {
    let (sum, rest) = line.strip_prefix(HEAD)?.split_at_checked(CHECK)?;
    let body = rest.strip_prefix(MIDDLE)?.strip_suffix(TAIL)?;
    let fits = check(body).as_bytes() == sum;
    fits.then(|| read_event(serde_json::from_slice(body).ok()?).ok())?
}

/// An event from its JSON. Facts are of many kinds, and reading them is long: it is compiled here,
/// once for whoever does.
///
/// # Errors
/// It is no event.
pub fn read_event(event: serde_json::Value) -> serde_json::Result<Dated> {
    serde_json::from_value(event)
}

/// What a reader finds on a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Line {
    /// An event. Boxed, since it is many times larger than the other.
    Event(Box<Dated>),
    /// A line that is not as it was written.
    Damaged {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        number: u64,
    },
}

/// Reads a run's events in order, and goes on where it stopped when more were written.
#[derive(Debug)]
pub struct EventReader {
    dir: PathBuf,
    /// Bytes and lines of [`EVENTS`] that were read; `None` before the first read.
    read: Option<(u64, u64)>,
}

impl EventReader {
    /// A reader of the run in `dir`, at the oldest event.
    #[must_use]
    pub fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_path_buf(),
            read: None,
        }
    }

    /// Reads what is new. A last line that is being written, or was torn by a crash, is left for
    /// the next call.
    ///
    /// # Errors
    /// The file system's.
    pub fn read(&mut self, files: &dyn Files) -> Result<Vec<Line>> {
        let mut lines = Vec::new();
        let path = self.dir.join(EVENTS);
        let length = files
            .length(&path)
            .map_err(StoreError::io("look at", &path))?
            .unwrap_or(0);
        let from = match self.read {
            None => {
                self.part(files, OLDER_EVENTS, (0, 0), &mut lines)?;
                (0, 0)
            }
            // What was read became the older file meanwhile.
            Some((bytes, number)) if bytes > length => {
                self.part(files, OLDER_EVENTS, (bytes, number), &mut lines)?;
                (0, 0)
            }
            Some(read) => read,
        };
        self.read = Some(self.part(files, EVENTS, from, &mut lines)?);
        Ok(lines)
    }

    /// The last line that is not whole, if there is one: torn, or being written.
    ///
    /// # Errors
    /// The file system's.
    pub fn is_torn(&self, files: &dyn Files) -> Result<bool> {
        let path = self.dir.join(EVENTS);
        let length = files
            .length(&path)
            .map_err(StoreError::io("look at", &path))?;
        Ok(length.unwrap_or(0) > self.read.map_or(0, |(bytes, _)| bytes))
    }

    fn part(
        &self,
        files: &dyn Files,
        name: &str,
        (mut bytes, mut number): (u64, u64),
        lines: &mut Vec<Line>,
    ) -> Result<(u64, u64)> {
        let path = self.dir.join(name);
        let failed = || StoreError::io("read", &path);
        if files.length(&path).map_err(failed())?.is_none() {
            return Ok((bytes, number));
        }
        let mut file = files.open(&path).map_err(failed())?;
        std::io::copy(&mut file.by_ref().take(bytes), &mut std::io::sink()).map_err(failed())?;
        let mut rest = Vec::new();
        file.take(2 * EVENTS_LIMIT)
            .read_to_end(&mut rest)
            .map_err(failed())?;
        for line in rest.split_inclusive(|byte| *byte == b'\n') {
            if !line.ends_with(b"\n") {
                break;
            }
            number += 1;
            bytes += line.len() as u64;
            lines.push(match decode(line) {
                Some(event) => Line::Event(Box::new(event)),
                None => Line::Damaged {
                    file: path.clone(),
                    number,
                },
            });
        }
        Ok((bytes, number))
    }
}
