//! The living children of a supervisor, for whoever makes them fail on purpose: by signal, by id,
//! and no process that is not a child.

use std::sync::{Arc, Mutex, MutexGuard};

use resilin_core::sorted::SortedMap;
use rustix::process::{Pid, Signal, kill_process};

use super::Role;

/// The children that live; copies share them.
///
/// An id is here from the start of its process until the moment it was waited for, so it is never
/// another process's.
#[derive(Clone, Debug, Default)]
pub struct Children(Arc<Mutex<SortedMap<u32, Living>>>);

#[derive(Clone, Copy, Debug)]
struct Living {
    role: Role,
    /// When it was started, counted in children.
    number: u64,
    fate: Fate,
}

/// Whose doing the end of a child is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its own, or a stranger's.
    Own,
    /// It was killed through [`Children`]: it counts for no budget.
    Killed,
}

impl Children {
    /// The living children of a kind, the oldest first.
    #[must_use]
    pub fn living(&self, role: Role) -> Vec<u32> {
        let all = self.lock();
        let mut found: Vec<(u64, u32)> = (all.iter())
            .filter(|(_, child)| child.role == role && child.fate == Fate::Own)
            .map(|(pid, child)| (child.number, *pid))
            .collect();
        found.sort_unstable();
        found.into_iter().map(|(_, pid)| pid).collect()
    }

    /// Kills a child with SIGKILL; it is replaced, and no restart is counted. False if it does not
    /// live any more.
    #[must_use]
    pub fn kill(&self, pid: u32) -> bool {
        let mut all = self.lock();
        let Some(child) = all.get_mut(&pid) else {
            return false;
        };
        child.fate = Fate::Killed;
        send(pid, Signal::KILL)
    }

    /// Lets a child stand still. False if it does not live any more.
    #[must_use]
    pub fn freeze(&self, pid: u32) -> bool {
        let all = self.lock();
        all.contains_key(&pid) && send(pid, Signal::STOP)
    }

    /// Lets a child go on. False if it does not live any more.
    pub fn thaw(&self, pid: u32) -> bool {
        let all = self.lock();
        all.contains_key(&pid) && send(pid, Signal::CONT)
    }

    pub(super) fn started(&self, pid: u32, role: Role) {
        let mut all = self.lock();
        let newest = all.values().map(|child| child.number).max();
        let child = Living {
            role,
            number: newest.map_or(0, |number| number + 1),
            fate: Fate::Own,
        };
        all.insert(pid, child);
    }

    /// It was waited for: its id is free.
    pub(super) fn gone(&self, pid: u32) -> Fate {
        let child = self.lock().remove(&pid);
        child.map_or(Fate::Own, |child| child.fate)
    }

    fn lock(&self) -> MutexGuard<'_, SortedMap<u32, Living>> {
        self.0
            .lock()
            .expect("nothing panics while the children are held")
    }
}

fn send(pid: u32, signal: Signal) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| kill_process(pid, signal).is_ok())
}
