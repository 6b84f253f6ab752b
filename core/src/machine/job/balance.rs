//! Primaries move to hosts that have few: a host that joins later takes its share.
//!
//! Only while training goes on and every slice has a backup in sync, one change at a time: the backup
//! that takes its primary's place has all that was published, so no step is made again. The slice has
//! one copy only until the next backup is in sync.

use super::Job;
use super::hosts::Presence;
use super::placement::{Copies, Placed};
use super::views::{promotion, with_backup};
use crate::id::{Incarnation, SliceId};
use crate::message::{Backup, SliceView};
use crate::sorted::SortedMap;
use crate::time::Time;

/// A host has so many primaries more than another before one moves: less evens nothing out.
const APART: usize = 2;

impl Job {
    /// The view that follows for the sake of the load, and why.
    pub(super) fn balance(
        &self,
        now: Time,
        placed: &SortedMap<SliceId, Placed>,
    ) -> Option<(SliceView, String)> {
        let calm = self.is_open() && self.stop.is_none() && !self.is_resharding();
        if self.copies() == Copies::None || !calm || !self.views.iter().all(|v| self.is_safe(v)) {
            return None;
        }
        let primaries = |host: Incarnation| placed.values().filter(|p| p.primary == host).count();
        self.hand_over(primaries)
            .or_else(|| self.use_idle(now, placed, primaries))
    }

    /// Whether both replicas of a slice are here to stay, and the backup has all.
    fn is_safe(&self, view: &SliceView) -> bool {
        let stays = |host| self.presence(host) == Presence::Here && !self.leaves(host);
        let backup = view.backup.as_ref().filter(|backup| backup.in_sync);
        let replicas = view.primary.zip(backup);
        replicas.is_some_and(|(host, backup)| stays(host) && stays(backup.peer.incarnation))
    }

    /// A backup that has fewer primaries takes the place of its own.
    fn hand_over(&self, primaries: impl Fn(Incarnation) -> usize) -> Option<(SliceView, String)> {
        let more = |view: &&SliceView| {
            let backup = view.backup.as_ref()?.peer.incarnation;
            primaries(view.primary?).checked_sub(primaries(backup))
        };
        let uneven = self.views.iter().filter(|view| more(view) >= Some(APART));
        let view = uneven.max_by_key(|view| (more(view), u16::MAX - view.slice.0))?;
        let next = promotion(view, view.backup.as_ref()?);
        Some((next, "its backup serves fewer slices".into()))
    }

    /// A host that has nothing becomes the backup of a slice that it is then handed.
    fn use_idle(
        &self,
        now: Time,
        placed: &SortedMap<SliceId, Placed>,
        primaries: impl Fn(Incarnation) -> usize,
    ) -> Option<(SliceView, String)> {
        let candidates = self.candidates(now);
        let has = |host: Incarnation| {
            let mut all = placed.values();
            all.any(|known| known.primary == host || known.backup == Some(host))
        };
        let (idle, machine) = candidates.iter().find(|(host, _)| !has(**host))?;
        let apart = |view: &&SliceView| {
            let at = view.primary.and_then(|host| candidates.get(&host));
            let backup = view.backup.as_ref().map(|known| known.peer.incarnation);
            at != Some(machine) || backup.and_then(|host| candidates.get(&host)) == at
        };
        let load = |view: &&SliceView| view.primary.map(&primaries);
        let views = self.views.iter().filter(apart);
        let uneven = views.filter(|view| load(view) >= Some(APART));
        let view = uneven.max_by_key(|view| (load(view), u16::MAX - view.slice.0))?;
        let backup = Backup {
            peer: self.peer(*idle)?,
            in_sync: false,
        };
        let next = with_backup(view, Some(backup), false);
        Some((
            next,
            "its backup moves to a shard process that has nothing".into(),
        ))
    }
}
