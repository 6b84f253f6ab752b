//! A disk that fails on demand, with records beside the files that fail with it.

use std::collections::BTreeMap;
use std::io::{self, Cursor, ErrorKind, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use super::tree::{Inode, Tree};
use crate::error::{Result, StoreError};
use crate::files::{Files, Writing};
use crate::records::{Batch, Pair, Records};

/// What goes wrong. Operations that change something are counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The power goes within that operation: it may have happened in part, and nothing works until
    /// [`Disk::restart`].
    CrashAt(u64),
    /// That operation fails, having done nothing.
    FailAt(u64),
    /// Every sync says that it worked and does nothing.
    LoseSyncs,
    /// The same for that operation, if it is a sync.
    LoseSyncAt(u64),
    /// Nothing can be changed.
    ReadOnly,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    tree: Tree,
    records: BTreeMap<Vec<u8>, Vec<u8>>,
    fault: Option<Fault>,
    operations: u64,
    capacity: u64,
    crashed: bool,
    /// Handles of an earlier life are dead.
    life: u64,
    random: Random,
}

/// What becomes of an operation.
enum Fate {
    Works,
    /// The sync does nothing.
    Pretends,
    /// It happens in part, then the power is gone.
    Crashes,
}

/// SplitMix64.
#[derive(Debug)]
struct Random(u64);

impl Random {
    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

impl State {
    fn alive(&self) -> io::Result<()> {
        if self.crashed {
            return Err(io::Error::other("the power is gone"));
        }
        Ok(())
    }

    fn fate(&mut self) -> io::Result<Fate> {
        self.alive()?;
        self.operations += 1;
        match self.fault {
            Some(Fault::CrashAt(at)) if at == self.operations => {
                self.crashed = true;
                Ok(Fate::Crashes)
            }
            Some(Fault::FailAt(at)) if at == self.operations => {
                Err(io::Error::other("the operation was made to fail"))
            }
            Some(Fault::LoseSyncs) => Ok(Fate::Pretends),
            Some(Fault::LoseSyncAt(at)) if at == self.operations => Ok(Fate::Pretends),
            Some(Fault::ReadOnly) => Err(ErrorKind::ReadOnlyFilesystem.into()),
            Some(Fault::CrashAt(_) | Fault::FailAt(_) | Fault::LoseSyncAt(_)) | None => {
                Ok(Fate::Works)
            }
        }
    }

    /// An operation that happens as a whole or not at all.
    fn whole<T>(&mut self, operation: impl FnOnce(&mut Tree) -> io::Result<T>) -> io::Result<T> {
        match self.fate()? {
            Fate::Works | Fate::Pretends => operation(&mut self.tree),
            Fate::Crashes => {
                if self.random.below(2) == 1 {
                    operation(&mut self.tree)?;
                }
                Err(io::Error::other("the power went"))
            }
        }
    }

    fn sync(&mut self, operation: impl FnOnce(&mut Tree) -> io::Result<()>) -> io::Result<()> {
        match self.fate()? {
            Fate::Works => operation(&mut self.tree),
            Fate::Pretends => Ok(()),
            Fate::Crashes => {
                if self.random.below(2) == 1 {
                    operation(&mut self.tree)?;
                }
                Err(io::Error::other("the power went"))
            }
        }
    }

    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.tree.used())
    }

    fn write(&mut self, inode: Inode, bytes: &[u8]) -> io::Result<()> {
        let fate = self.fate()?;
        let room = usize::try_from(self.free()).unwrap_or(usize::MAX);
        let (count, result) = match fate {
            Fate::Works | Fate::Pretends if bytes.len() <= room => (bytes.len(), Ok(())),
            Fate::Works | Fate::Pretends => (room, Err(ErrorKind::StorageFull.into())),
            Fate::Crashes => (
                self.random.below(bytes.len().min(room) + 1),
                Err(io::Error::other("the power went")),
            ),
        };
        self.tree.bytes(inode)?.extend_from_slice(&bytes[..count]);
        result
    }
}

impl Disk {
    /// An empty disk of `capacity` bytes; `seed` decides what a crash leaves.
    #[must_use]
    pub fn new(capacity: u64, seed: u64) -> Self {
        Self(Arc::new(Mutex::new(State {
            tree: Tree::new(),
            records: BTreeMap::new(),
            fault: None,
            operations: 0,
            capacity,
            crashed: false,
            life: 0,
            random: Random(seed),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("a test that panicked has failed")
    }

    /// Sets or clears the fault.
    pub fn set_fault(&self, fault: Option<Fault>) {
        self.state().fault = fault;
    }

    /// Sets the size of the disk in bytes.
    pub fn set_capacity(&self, capacity: u64) {
        self.state().capacity = capacity;
    }

    /// Operations so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Bytes of all files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state().tree.used()
    }

    /// Cuts the power, unless it is gone already, and starts again without a fault. Open files of
    /// before are dead.
    pub fn restart(&self) {
        let mut state = self.state();
        let State { tree, random, .. } = &mut *state;
        tree.cut_power(|bound| random.below(bound));
        state.fault = None;
        state.crashed = false;
        state.life += 1;
    }

    /// Flips one bit of a stored file.
    ///
    /// # Errors
    /// No such file.
    pub fn flip(&self, path: &Path, byte: usize, bit: u8) -> io::Result<()> {
        let mut state = self.state();
        let inode = state.tree.find(path)?;
        let bytes = state.tree.bytes(inode)?;
        let byte = bytes.get_mut(byte).ok_or(ErrorKind::UnexpectedEof)?;
        *byte ^= 1 << bit;
        Ok(())
    }

    /// Loses every record, as if the record store was damaged beyond reading.
    pub fn lose_records(&self) {
        self.state().records.clear();
    }

    /// The disk as a file system.
    #[must_use]
    pub fn files(&self) -> Arc<FaultyFiles> {
        Arc::new(FaultyFiles(self.clone()))
    }

    /// The disk's records.
    #[must_use]
    pub fn records(&self) -> Box<FaultyRecords> {
        Box::new(FaultyRecords(self.clone()))
    }
}

/// The files of a [`Disk`].
#[derive(Clone, Debug)]
pub struct FaultyFiles(Disk);

struct FaultyWriting {
    disk: Disk,
    inode: Inode,
    life: u64,
}

impl FaultyWriting {
    fn state(&self) -> io::Result<MutexGuard<'_, State>> {
        let state = self.disk.state();
        if state.life != self.life {
            return Err(io::Error::other("the file was open before the restart"));
        }
        Ok(state)
    }
}

impl Writing for FaultyWriting {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.state()?.write(self.inode, bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        let inode = self.inode;
        self.state()?.sync(|tree| tree.sync_file(inode))
    }
}

impl FaultyFiles {
    fn writing(&self, inode: Inode, life: u64) -> Box<dyn Writing> {
        Box::new(FaultyWriting {
            disk: self.0.clone(),
            inode,
            life,
        })
    }
}

impl Files for FaultyFiles {
    fn create(&self, path: &Path) -> io::Result<Box<dyn Writing>> {
        let mut state = self.0.state();
        let inode = state.whole(|tree| tree.add_file(path))?;
        Ok(self.writing(inode, state.life))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn Writing>> {
        let mut state = self.0.state();
        let inode = state.whole(|tree| tree.find(path).or_else(|_| tree.add_file(path)))?;
        Ok(self.writing(inode, state.life))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        let mut state = self.0.state();
        state.alive()?;
        let inode = state.tree.find(path)?;
        Ok(Box::new(Cursor::new(state.tree.bytes(inode)?.clone())))
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.state().whole(|tree| tree.add_directory(dir))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.state().whole(|tree| tree.rename(from, to))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.0.state().sync(|tree| tree.sync_directory(dir))
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.0.state().whole(|tree| {
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
        self.0.state().whole(|tree| tree.remove(dir))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        let state = self.0.state();
        state.alive()?;
        state.tree.names(dir)
    }

    fn length(&self, path: &Path) -> io::Result<Option<u64>> {
        let mut state = self.0.state();
        state.alive()?;
        match state.tree.find(path) {
            // As on a real disk, a directory has some length too.
            Ok(inode) => Ok(Some(state.tree.bytes(inode).map_or(0, |b| b.len() as u64))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn free_space(&self, _dir: &Path) -> io::Result<u64> {
        let state = self.0.state();
        state.alive()?;
        Ok(state.free())
    }
}

/// The records of a [`Disk`]: a batch is one operation, which happens as a whole or not at all.
#[derive(Clone, Debug)]
pub struct FaultyRecords(Disk);

fn records_failed(doing: &'static str) -> impl FnOnce(io::Error) -> StoreError {
    StoreError::io(doing, Path::new("records"))
}

impl Records for FaultyRecords {
    fn scan(&self, prefix: &[u8]) -> Result<Vec<Pair>> {
        let state = self.0.state();
        state.alive().map_err(records_failed("read"))?;
        let pairs = state.records.range(prefix.to_vec()..);
        Ok(pairs
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn apply(&self, batch: &Batch) -> Result<()> {
        let mut state = self.0.state();
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
