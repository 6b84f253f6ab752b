//! What a process has of a [`Disk`]: files and records that are dead once it has ended.

use std::io::{self, Cursor, ErrorKind, Read};
use std::path::Path;
use std::sync::MutexGuard;

use super::disk::{Disk, Fate, State};
use super::tree::Inode;
use crate::error::{Result, StoreError};
use crate::files::{Files, Writing};
use crate::records::{Batch, Pair, Records};

/// A process that uses a disk.
#[derive(Clone, Debug)]
pub(super) struct User {
    disk: Disk,
    life: u64,
}

impl User {
    pub(super) fn new(disk: Disk, life: u64) -> Self {
        Self { disk, life }
    }

    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        state.alive_in(self.life)?;
        Ok(state)
    }
}

/// The files of a [`Disk`].
#[derive(Clone, Debug)]
pub struct FaultyFiles(User);

struct FaultyWriting {
    user: User,
    inode: Inode,
}

impl Writing for FaultyWriting {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.user.state()?.write(self.inode, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        let inode = self.inode;
        self.user.state()?.sync(|tree| tree.sync_file(inode))
    }
}

impl FaultyFiles {
    pub(super) fn new(user: User) -> Self {
        Self(user)
    }

    fn writing(&self, inode: Inode) -> Box<dyn Writing> {
        let user = self.0.clone();
        Box::new(FaultyWriting { user, inode })
    }
}

impl Files for FaultyFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Writing>> {
        let mut state = self.0.state()?;
        let inode = state.whole(|tree| tree.add_file(path))?;
        Ok(self.writing(inode))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Writing>> {
        let mut state = self.0.state()?;
        let inode = state.whole(|tree| tree.find(path).or_else(|_| tree.add_file(path)))?;
        Ok(self.writing(inode))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let mut state = self.0.state()?;
        state.alive()?;
        let inode = state.tree.find(path)?;
        Ok(Box::new(Cursor::new(state.tree.bytes(inode)?.clone())))
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.state()?.whole(|tree| tree.add_directory(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.state()?.whole(|tree| tree.rename(from, to))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.state()?.sync(|tree| tree.sync_directory(dir))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.state()?.whole(|tree| {
            let inode = tree.find(path)?;
            tree.bytes(inode)?;
            tree.remove(path)
        })
    }

    /// Entry by entry, so that a crash can leave a part.
    fn remove_dir(&self, dir: &Path) -> io::Result<()> {
        for name in self.list(dir)? {
            let path = dir.join(name);
            self.remove_file(&path)
                .or_else(|error| match error.kind() {
                    ErrorKind::IsADirectory => self.remove_dir(&path),
                    _ => Err(error),
                })?;
        }
        self.0.state()?.whole(|tree| tree.remove(dir))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.0.state()?;
        state.alive()?;
        state.tree.names(dir)
    }

    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        let mut state = self.0.state()?;
        state.alive()?;
        match state.tree.find(path) {
            // As on a real disk, a directory has some length too.
            Ok(inode) => Ok(Some(state.tree.bytes(inode).map_or(0, |b| b.len() as u64))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn free_space(&self, _dir: &Path) -> io::Result<u64> {
        let state = self.0.state()?;
        state.alive()?;
        Ok(state.free())
    }
}

/// The records of a [`Disk`]: a batch is one operation, which happens as a whole or not at all.
#[derive(Clone, Debug)]
pub struct FaultyRecords(User);

impl FaultyRecords {
    pub(super) fn new(user: User) -> Self {
        Self(user)
    }
}

fn records_failed(doing: &'static str) -> impl FnOnce(io::Error) -> StoreError {
    StoreError::io(doing, Path::new("records"))
}

impl Records for FaultyRecords {
    fn scan(&self, prefix: &[u8]) -> Result<Vec<Pair>> {
        let state = self.0.state().map_err(records_failed("read"))?;
        state.alive().map_err(records_failed("read"))?;
        let pairs = state.records.range(prefix.to_vec()..);
        Ok(pairs
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn apply(&self, batch: &Batch) -> Result<()> {
        let mut state = self.0.state().map_err(records_failed("write"))?;
        let fate = state.fate().map_err(records_failed("write"))?;
        let (applies, result) = match fate {
            Fate::Works | Fate::Pretends => (true, Ok(())),
            Fate::Crashes => (
                state.random.below(2) == 1,
                Err(records_failed("write")(io::Error::other("the power went"))),
            ),
        };
        if applies {
            for (key, value) in batch.changes() {
                match value {
                    Some(value) => drop(state.records.insert(key.to_vec(), value.to_vec())),
                    None => drop(state.records.remove(key)),
                }
            }
        }
        result
    }
}
