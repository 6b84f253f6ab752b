//! Who serves each slice: one durable view after the other (PROTOCOL 3).
//!
//! What is decided is a function of the views that were written down and of who is here, taken again
//! after every event; nothing is told before it is durable, and one write is under way at a time.

use super::branch::Keeping;
use super::crew::machine;
use super::hosts::{Presence, replicas};
use super::placement::{Candidates, Copies, Placed, backup_for, place};
use super::{Effect, Job};
use crate::fact::Fact;
use crate::id::{Incarnation, SliceId, View};
use crate::machine::saver;
use crate::message::{Backup, HostTold, Peer, SliceView};
use crate::sorted::SortedMap;
use crate::time::Time;
use crate::tree::PartitionSet;

/// What becomes of a slice.
enum Change {
    /// Another view, and why.
    View(SliceView, &'static str),
    /// Nobody has what was published: all slices go back.
    Lost(String),
}

impl Job {
    /// Does what the hosts that are here allow: new views, a new branch, the first placement.
    pub(super) fn settle(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let Some(settings) = self.settings.hosts else {
            return;
        };
        self.expire_returning(now, effects);
        if !self.may_keep(now) || self.ending.is_some() {
            return;
        }
        if self.views.is_empty() {
            return self.place_all(now, usize::from(settings.processes), effects);
        }
        match self.changes(now) {
            Ok(changes) if changes.is_empty() => self.release_hosts(effects),
            Ok(changes) => self.keep_views(changes, effects),
            Err(cause) => self.roll_back(cause, effects),
        }
    }

    /// The views that are to follow, with a cause each; or why there are none.
    fn changes(&mut self, now: Time) -> Result<Vec<(SliceView, String)>, String> {
        if let Some((slice, host, cause)) = self.hosting.failed.take()
            && self.is_primary(host, slice)
        {
            return Err(format!("slice {slice}: shard process {host}: {cause}"));
        }
        if let Some(kept) = self.hosting.gap {
            return Err(format!(
                "the ledger lacks steps {} to {kept}, which it had acknowledged",
                self.recorded
            ));
        }
        let mut changes = Vec::new();
        let mut placed = self.placed();
        for view in &self.views {
            match self.change(now, view, &placed) {
                None => {}
                Some(Change::Lost(cause)) => return Err(cause),
                Some(Change::View(next, cause)) => {
                    placed.extend(Some(view.slice).zip(placed_by(&next)));
                    changes.push((next, cause.to_owned()));
                }
            }
        }
        if changes.is_empty() {
            changes.extend(self.balance(now, &placed));
        }
        Ok(changes)
    }

    fn change(
        &self,
        now: Time,
        view: &SliceView,
        placed: &SortedMap<SliceId, Placed>,
    ) -> Option<Change> {
        let primary = view.primary.expect("hosts serve, and views name them");
        let backup = view.backup.as_ref();
        let state = backup.map(|known| self.presence(known.peer.incarnation));
        let in_sync = backup.is_some_and(|known| known.in_sync);
        let held = self.holds_back(now);
        let told = backup.is_some() && self.hosting.synced.get(&view.slice) == Some(&view.view);
        let synced = || Change::View(with_backup(view, backup.cloned(), true), "backup in sync");
        let promoted = |cause| backup.map(|known| Change::View(promotion(view, known), cause));
        match (self.presence(primary), state) {
            (Presence::Here, Some(Presence::Away | Presence::Gone)) if !held => Some(Change::View(
                with_backup(view, None, false),
                "its backup was lost",
            )),
            (Presence::Here, Some(Presence::Here)) if self.is_unfit(now, backup) => Some(
                Change::View(with_backup(view, None, false), "its backup cannot serve it"),
            ),
            (Presence::Here, Some(Presence::Here)) if self.is_unfollowed(now, view.slice) => Some(
                Change::View(with_backup(view, None, false), "its backup does not follow"),
            ),
            (_, Some(_)) if told && !in_sync => Some(synced()),
            (Presence::Here, Some(Presence::Here)) if in_sync && self.leaves(primary) => {
                promoted("its primary leaves")
            }
            (Presence::Here, Some(Presence::Here)) if self.is_leaving(backup) => {
                let next = with_backup(view, None, false);
                Some(Change::View(next, "its backup leaves")).filter(|_| !self.leaves(primary))
            }
            (Presence::Here, None) => self.new_backup(now, view, placed),
            (Presence::Away | Presence::Gone, Some(Presence::Here)) if in_sync && !held => {
                promoted("its primary was lost")
            }
            (Presence::Gone, Some(Presence::Away)) if in_sync => None,
            (Presence::Gone, _) if !held => Some(Change::Lost(format!(
                "slice {}: shard process {primary} was lost and no other has what it had",
                view.slice
            ))),
            (Presence::Here | Presence::Away | Presence::Gone, _) => None,
        }
    }

    fn new_backup(
        &self,
        now: Time,
        view: &SliceView,
        placed: &SortedMap<SliceId, Placed>,
    ) -> Option<Change> {
        // Whoever leaves hands over what it has, if somebody is there for it.
        let primary = view.primary.filter(|host| self.leaves(*host));
        if self.copies() == Copies::None && primary.is_none() {
            return None;
        }
        let candidates = self.candidates(now);
        let machines = view.primary.and_then(|host| self.machine(host));
        let mut all = candidates.clone();
        all.extend(view.primary.zip(machines));
        let chosen = backup_for(view.slice, None, &all, placed)?;
        let backup = Backup {
            peer: self.peer(chosen)?,
            in_sync: false,
        };
        candidates.get(&chosen)?;
        let next = with_backup(view, Some(backup), false);
        Some(Change::View(next, "a backup begins"))
    }

    /// The first views of a branch.
    fn place_all(&mut self, now: Time, wanted: usize, effects: &mut Vec<Effect>) {
        let candidates = match self.candidates(now) {
            // Nobody is held back from a run that would otherwise wait.
            none if none.is_empty() => self.fit(now),
            some => some,
        };
        let patient = self.hosting.patience.is_none_or(|until| now < until);
        if candidates.is_empty() || (candidates.len() < wanted && patient) {
            return;
        }
        let slices = self.rules.slices.slices();
        let placed = place(slices, self.copies(), &candidates, &SortedMap::new());
        let views = placed.into_iter().filter_map(|(slice, known)| {
            let backup = known.backup.and_then(|host| self.peer(host));
            let view = SliceView {
                slice,
                view: View::default(),
                address: self.peer(known.primary)?.address,
                primary: Some(known.primary),
                backup: backup.map(|peer| Backup {
                    peer,
                    in_sync: false,
                }),
            };
            Some((view, "placed".to_owned()))
        });
        let views: Vec<_> = views.collect();
        self.keep_views(views, effects);
    }

    fn keep_views(&mut self, mut changes: Vec<(SliceView, String)>, effects: &mut Vec<Effect>) {
        for (view, _) in &mut changes {
            self.hosting.last_view = self.hosting.last_view.next();
            view.view = self.hosting.last_view;
        }
        let views = changes.iter().map(|(view, _)| view.clone()).collect();
        effects.push(Effect::KeepViews(views));
        self.hosting.keeping = Some(Keeping::Views(changes));
    }

    /// They are durable: now everybody is told.
    pub(super) fn views_kept(&mut self, effects: &mut Vec<Effect>) {
        let Some(Keeping::Views(changes)) = self
            .hosting
            .keeping
            .take_if(|k| matches!(k, Keeping::Views(_)))
        else {
            return;
        };
        self.hosting.trouble = None;
        let mut promoted = false;
        for (view, cause) in changes {
            let (slice, number) = (view.slice, view.view);
            self.hosting.backlogs.remove(&slice);
            effects.push(Effect::Tell(Fact::ViewChanged {
                slice,
                view: number,
                cause,
            }));
            match self.views.iter_mut().find(|known| known.slice == slice) {
                None => self.views.push(view),
                Some(known) => {
                    let moved = known.primary != view.primary;
                    *known = view;
                    if moved {
                        self.promoted(slice, effects);
                        promoted = true;
                    }
                }
            }
        }
        if promoted {
            // Before it serves: unsealed it could vote and leave a version that others rest at.
            self.seal_again(effects);
        }
        self.tell_views(effects);
        if promoted {
            self.withhold_again(effects);
        }
    }

    /// Another primary has what was published and votes alike; what else it has it will say.
    fn promoted(&mut self, slice: SliceId, effects: &mut Vec<Effect>) {
        let state = self.slices.get_mut(&slice).expect("views are of slices");
        state.covered = PartitionSet::default();
        (state.resting, state.voted) = (false, false);
        let step = state.step;
        self.hosting.fresh.insert(slice);
        self.reopen_leases();
        effects.push(Effect::Saver(saver::Event::Promoted(slice, step)));
    }

    /// A primary's report under its view.
    pub(super) fn first_heard(
        &mut self,
        slice: SliceId,
        step: crate::id::Step,
        effects: &mut Vec<Effect>,
    ) {
        if self.hosting.fresh.remove(&slice) {
            effects.push(Effect::Saver(saver::Event::Promoted(slice, step)));
        }
        if self.hosting.unheard.remove(&slice) && self.hosting.unheard.is_empty() {
            self.begin_leases_at_low();
            self.replan(effects);
        }
    }

    /// Hosts hear of a view no later than workers, who would ask in vain before.
    pub(super) fn tell_views(&mut self, effects: &mut Vec<Effect>) {
        self.generation = self.generation.next();
        self.hosting.served = self.generation;
        let hosts: Vec<Incarnation> = self.hosting.hosts.keys().copied().collect();
        for host in hosts {
            self.serve(host, effects);
        }
        self.assign_all(effects);
    }

    /// Lets go whoever wants to leave and has nothing that is wanted.
    fn release_hosts(&mut self, effects: &mut Vec<Effect>) {
        let named: Vec<Incarnation> = self.views.iter().flat_map(replicas).collect();
        let free = |host: &Incarnation| self.leaves(*host) && !named.contains(host);
        let hosts = self.hosting.hosts.keys().copied();
        let free: Vec<Incarnation> = hosts.filter(free).collect();
        for host in free {
            self.hosting.hosts.remove(&host);
            effects.push(Effect::Host(host, HostTold::Release));
            effects.push(Effect::Tell(Fact::HostLeft { host }));
        }
    }

    /// What must hold of the views that were told.
    pub(super) fn check_views(&self) {
        if self.settings.hosts.is_none() {
            return;
        }
        for view in &self.views {
            assert!(self.slices.contains_key(&view.slice));
            let placed = placed_by(view).expect("hosts serve, and views name them");
            assert_ne!(Some(placed.primary), placed.backup, "replicas are apart");
        }
        let all = self.views.len() == self.slices.len();
        assert!(all || self.views.is_empty(), "every slice has a view");
    }

    pub(super) fn copies(&self) -> Copies {
        match self.settings.hosts.map(|hosts| hosts.replicas) {
            None | Some(0) => Copies::None,
            Some(_) => Copies::One,
        }
    }

    /// Hosts that may be given slices.
    pub(super) fn candidates(&self, now: Time) -> Candidates {
        let mut able = self.fit(now);
        let hosts = &self.hosting.hosts;
        able.retain(|host, _| hosts.get(host).and_then(|h| self.held_back(h)).is_none());
        able
    }

    /// Hosts that could serve.
    fn fit(&self, now: Time) -> Candidates {
        let hosts = self.hosting.hosts.iter();
        let able = hosts.filter(|(incarnation, host)| {
            let unfit = host.unfit.is_some_and(|until| now < until);
            !host.draining && !unfit && self.presence(**incarnation) == Presence::Here
        });
        able.map(|(host, _)| (*host, self.machine(*host).unwrap_or_default()))
            .collect()
    }

    fn machine(&self, host: Incarnation) -> Option<String> {
        let host = self.hosting.hosts.get(&host)?;
        Some(machine(&host.name).to_owned())
    }

    pub(super) fn peer(&self, incarnation: Incarnation) -> Option<Peer> {
        let address = self.hosting.hosts.get(&incarnation)?.address.clone()?;
        Some(Peer {
            incarnation,
            address,
        })
    }

    pub(super) fn leaves(&self, host: Incarnation) -> bool {
        let host = self.hosting.hosts.get(&host);
        host.is_some_and(|host| host.draining)
    }

    fn is_leaving(&self, backup: Option<&Backup>) -> bool {
        backup.is_some_and(|known| self.leaves(known.peer.incarnation))
    }

    fn is_unfit(&self, now: Time, backup: Option<&Backup>) -> bool {
        let host = backup.and_then(|known| self.hosting.hosts.get(&known.peer.incarnation));
        host.is_some_and(|host| host.unfit.is_some_and(|until| now < until))
    }

    fn placed(&self) -> SortedMap<SliceId, Placed> {
        let slices = self.views.iter();
        slices
            .filter_map(|view| Some((view.slice, placed_by(view)?)))
            .collect()
    }
}

fn placed_by(view: &SliceView) -> Option<Placed> {
    let primary = view.primary?;
    let backup = view.backup.as_ref().map(|backup| backup.peer.incarnation);
    Some(Placed { primary, backup })
}

pub(super) fn with_backup(view: &SliceView, backup: Option<Backup>, in_sync: bool) -> SliceView {
    let backup = backup.map(|known| Backup { in_sync, ..known });
    SliceView {
        backup,
        ..view.clone()
    }
}

pub(super) fn promotion(view: &SliceView, backup: &Backup) -> SliceView {
    SliceView {
        address: backup.peer.address.clone(),
        primary: Some(backup.peer.incarnation),
        backup: None,
        ..view.clone()
    }
}
