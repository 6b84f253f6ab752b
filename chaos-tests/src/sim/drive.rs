//! The disk of the coordinator's host: it outlives coordinators, and fails as the schedule says.

use std::path::{Path, PathBuf};

use resilin_checkpoint::testing::{self, Disk, Fault};
use resilin_checkpoint::{Files, LEDGER, MANIFEST, Result, StateDir};
use resilin_core::ledger::Record;
use resilin_core::machine::Rules;
use resilin_core::sorted::SortedSet;
use resilin_core::time::Time;
use resilin_core::{MapNumber, Step};
use resilin_learn::kernel::Digest;

use super::kept::Kept;

/// The state directory.
const ROOT: &str = "/state";

/// Room enough for everything.
const ROOMY: u64 = 64 << 20;

/// Room enough for the checkpoints, but not for the reserve beside them.
const TIGHT: u64 = (4 << 20) - 1;

/// Damage that excuses a loss, since the last start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Damage {
    /// Of checkpoints.
    pub(super) checkpoints: bool,
    /// Of the ledger.
    pub(super) ledger: bool,
    /// All records are lost: what is damaged has no record by which it could be skipped.
    pub(super) records: bool,
}

/// The disk.
pub(super) struct Drive {
    pub(super) disk: Disk,
    capacity: u64,
    /// What an operation to come will meet.
    armed: Option<Fault>,
    /// A sync did nothing, and the power has not gone since.
    pretended: bool,
    pub(super) read_only_until: Time,
    pub(super) full_until: Time,
    damage: Damage,
    map: (MapNumber, u16),
    /// Versions that were ever committed.
    pub(super) committed: SortedSet<Step>,
}

impl Drive {
    /// An empty one; in one seed of eight with room for the store's reserve, which costs time.
    pub(super) fn new(seed: u64) -> Self {
        let capacity = if seed % 8 == 1 { ROOMY } else { TIGHT };
        let disk = Disk::new(capacity, seed);
        let files = disk.files();
        files
            .create_dir(Path::new(ROOT))
            .and_then(|()| files.sync_dir(Path::new("/")))
            .expect("an empty disk takes a directory");
        Self {
            disk,
            capacity,
            armed: None,
            pretended: false,
            read_only_until: Time(0),
            full_until: Time(0),
            damage: Damage::default(),
            map: (MapNumber(0), 0),
            committed: SortedSet::new(),
        }
    }

    /// Takes the state for a new coordinator.
    pub(super) fn state(&self) -> Result<StateDir> {
        StateDir::with(Path::new(ROOT), self.disk.files(), self.disk.records())
    }

    /// Makes the disk what it is at this moment.
    pub(super) fn tune(&self, now: Time) {
        let read_only = now < self.read_only_until;
        let fault = if read_only {
            Some(Fault::ReadOnly)
        } else {
            self.armed
        };
        self.disk.set_fault(fault);
        let full = now < self.full_until;
        let room = if full {
            self.disk.used()
        } else {
            self.capacity
        };
        self.disk.set_capacity(room);
    }

    /// The operation that many from now meets a fault; it is counted when it comes.
    pub(super) fn arm(&mut self, fault: fn(u64) -> Fault, after: u64) {
        self.pretended |= self.has_pretended();
        self.armed = Some(fault(self.disk.operations() + 1 + after));
    }

    /// Whether the sync that was to do nothing has come.
    fn has_pretended(&self) -> bool {
        matches!(self.armed, Some(Fault::LoseSyncAt(at)) if at <= self.disk.operations())
    }

    /// Faults are over.
    pub(super) fn calm(&mut self, now: Time) {
        self.pretended |= self.has_pretended();
        (self.read_only_until, self.full_until, self.armed) = (now, now, None);
        self.tune(now);
    }

    /// The power goes, and comes back. A sync that did nothing before is a loss that the store
    /// cannot know of.
    pub(super) fn cut_power(&mut self) {
        let lost = std::mem::take(&mut self.pretended) || self.has_pretended();
        self.damage.checkpoints |= lost;
        self.damage.ledger |= lost;
        self.armed = None;
        self.disk.restart();
    }

    /// Flips a bit of a file, or of the newest checkpoint if there is one.
    pub(super) fn rot(&mut self, which: Rot, pick: u32) {
        let mut files = self.files_below(Path::new(ROOT));
        if which == Rot::Newest {
            let newest = files.iter().rev().find(|path| path.ends_with(MANIFEST));
            let newest = newest.and_then(|path| path.parent()).map(PathBuf::from);
            files.retain(|path| path.parent().map(Path::to_path_buf) == newest);
        }
        if files.is_empty() {
            return;
        }
        let path = &files[pick as usize % files.len()];
        let length = self.disk.files().length(path);
        let length = length.ok().flatten().filter(|length| *length > 0);
        let Some(length) = length else {
            return;
        };
        let byte = (u64::from(pick) * 7919 % length) as usize;
        self.disk
            .flip(path, byte, (pick % 8) as u8)
            .expect("the file is there");
        let ledger = path.ends_with(LEDGER);
        self.damage.ledger |= ledger;
        self.damage.checkpoints |= !ledger;
    }

    /// Loses all records.
    pub(super) fn lose_records(&mut self) {
        self.disk.lose_records();
        self.damage.records = true;
    }

    /// What was damaged since the last start.
    pub(super) fn damage(&mut self) -> Damage {
        std::mem::take(&mut self.damage)
    }

    /// All files below a directory, by name.
    fn files_below(&self, dir: &Path) -> Vec<PathBuf> {
        let mut all = Vec::new();
        let files = self.disk.files();
        for name in files.list(dir).unwrap_or_default() {
            let path = dir.join(name);
            match files.list(&path) {
                Ok(_) => all.extend(self.files_below(&path)),
                Err(_) => all.push(path),
            }
        }
        all
    }

    /// The number of the slice layout for so many slices.
    pub(super) fn map_for(&mut self, rules: &Rules) -> MapNumber {
        let slices = rules.slices.slices();
        if self.map.1 != slices {
            self.map = (self.map.0.next(), slices);
        }
        self.map.0
    }

    /// What is left at the end of a run.
    pub(super) fn kept(&self) -> Kept {
        let files = self.disk.files();
        let all = self.files_below(Path::new(ROOT));
        let ledger = all.iter().find(|path| path.ends_with(LEDGER));
        let ledger = ledger.map_or_else(Vec::new, |path| records(files.as_ref(), path));
        let directories = all.iter().filter(|path| path.ends_with(MANIFEST));
        let checkpoints = directories.filter_map(|path| {
            let name = path.parent()?.file_name()?.to_str()?;
            Some(resilin_checkpoint::parse_directory_name(name)?.0)
        });
        Kept {
            checkpoints: checkpoints.collect(),
            ledger,
        }
    }
}

fn records(files: &dyn Files, path: &Path) -> Vec<Record> {
    testing::ledger(files, path).expect("the disk can be read at the end")
}

/// What rots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rot {
    /// Any file of the state.
    Any,
    /// A file of the newest checkpoint.
    Newest,
}

/// Whether a line of each version up to a step is among a ledger's.
pub(super) fn lines_to(lines: &[(Step, Digest)]) -> Step {
    let mut next = Step(0);
    for (line, _) in lines {
        if *line == next {
            next = next.next();
        }
    }
    next
}
