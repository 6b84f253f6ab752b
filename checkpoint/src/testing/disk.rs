//! A disk that fails on demand, with records beside the files that fail with it.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use super::handles::{FaultyFiles, FaultyRecords, User};
use super::tree::{Inode, Tree};

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
pub(super) struct State {
    pub(super) tree: Tree,
    pub(super) records: BTreeMap<Vec<u8>, Vec<u8>>,
    fault: Option<Fault>,
    operations: u64,
    capacity: u64,
    crashed: bool,
    /// Everything that was opened in an earlier life is dead.
    life: u64,
    pub(super) random: Random,
}

/// What becomes of an operation.
pub(super) enum Fate {
    Works,
    /// The sync does nothing.
    Pretends,
    /// It happens in part, then the power is gone.
    Crashes,
}

/// SplitMix64.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    /// A number below `bound`.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

impl State {
    pub(super) fn alive(&self) -> io::Result<()> {
        if self.crashed {
            return Err(io::Error::other("the power is gone"));
        }
        Ok(())
    }

    pub(super) fn alive_in(&self, life: u64) -> io::Result<()> {
        if self.life != life {
            return Err(io::Error::other("it was open before the restart"));
        }
        Ok(())
    }

    pub(super) fn fate(&mut self) -> io::Result<Fate> {
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
    pub(super) fn whole<T>(
        &mut self,
        operation: impl FnOnce(&mut Tree) -> io::Result<T>,
    ) -> io::Result<T> {
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

    pub(super) fn sync(
        &mut self,
        operation: impl FnOnce(&mut Tree) -> io::Result<()>,
    ) -> io::Result<()> {
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

    pub(super) fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.tree.used())
    }

    pub(super) fn write(&mut self, inode: Inode, bytes: &[u8]) -> io::Result<()> {
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

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
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

    /// Cuts the power, unless it is gone already, and starts again without a fault. Whatever was
    /// open before is dead.
    pub fn restart(&self) {
        let mut state = self.state();
        let State { tree, random, .. } = &mut *state;
        tree.cut_power(|bound| random.below(bound));
        state.fault = None;
        state.crashed = false;
        state.life += 1;
    }

    /// Ends the process that uses the disk: nothing is lost, but whatever it has open is dead.
    pub fn end_process(&self) {
        self.state().life += 1;
    }

    /// Whether the power is gone.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state().crashed
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

    /// The disk as a file system, for a process that starts now.
    #[must_use]
    pub fn files(&self) -> Arc<FaultyFiles> {
        Arc::new(FaultyFiles::new(self.user()))
    }

    /// The disk's records, for a process that starts now.
    #[must_use]
    pub fn records(&self) -> Box<FaultyRecords> {
        Box::new(FaultyRecords::new(self.user()))
    }

    fn user(&self) -> User {
        User::new(self.clone(), self.state().life)
    }
}
