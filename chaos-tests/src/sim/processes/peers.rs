//! Whom the replicas of a process speak to: the primaries of all slices, and each replica's other.

use std::collections::VecDeque;

use resilin_core::machine::host::{Place, Routes};
use resilin_core::machine::shard;
use resilin_core::message::SliceSays;
use resilin_core::{LinkId, SliceId};

use super::{Deed, Parcel, at};
use crate::sim::events::{End, Packet, Party, Role};
use crate::sim::{Checked, Sim};

/// Words kept for a link that is not open yet.
const WAITING: usize = 16;

/// Where the words for a slice's primary go.
pub(super) enum Target {
    /// In this process.
    Here,
    /// Elsewhere: the link, once it was dialled, whether it is open, and words that wait for it.
    Away {
        link: Option<LinkId>,
        open: bool,
        waiting: VecDeque<SliceSays>,
    },
}

impl Sim<'_> {
    pub(super) fn take_routes(&mut self, id: u32, routes: Routes) -> Checked {
        let process = self.processes.get_mut(&id).expect("it acts");
        let before = std::mem::replace(&mut process.routes, routes.clone());
        let mut slices: Vec<SliceId> = before.primaries.keys().copied().collect();
        slices.extend(routes.primaries.keys());
        slices.sort_unstable();
        slices.dedup();
        for slice in slices {
            if before.primaries.get(&slice) != routes.primaries.get(&slice) {
                self.route(id, slice);
            }
            if before.mirrors.get(&slice) != routes.mirrors.get(&slice) {
                self.mirror(id, slice)?;
            }
        }
        Ok(())
    }

    /// Words for the primary of the slice go where it is now.
    pub(super) fn route(&mut self, id: u32, slice: SliceId) {
        let process = self.processes.get_mut(&id).expect("it acts");
        let before = process.votes.remove(&slice);
        let target = match process.routes.primaries.get(&slice) {
            None => None,
            Some(Place::Here) => Some(Target::Here),
            Some(Place::At { .. }) => Some(Target::Away {
                link: None,
                open: false,
                waiting: VecDeque::new(),
            }),
        };
        let away = matches!(target, Some(Target::Away { .. }));
        process.votes.extend(Some(slice).zip(target));
        if let Some(Target::Away {
            link: Some(link), ..
        }) = before
        {
            self.close(link, End::Dialler);
        }
        if away {
            self.redial(id, Role::Votes(slice));
        }
    }

    /// The primary's end of the link between the replicas of a slice is dialled anew, and either end
    /// ends what was there.
    pub(super) fn mirror(&mut self, id: u32, slice: SliceId) -> Checked {
        self.mirror_down(id, slice)?;
        let role = Role::Mirror(slice);
        for (link, end) in self.links_of(Party::Shard(id)) {
            if end == End::Dialler && self.links[&link].role == role {
                self.close(link, end);
            }
        }
        self.redial(id, role);
        Ok(())
    }

    /// Forgets the link to the other replica, and ends it.
    pub(super) fn mirror_down(&mut self, id: u32, slice: SliceId) -> Checked {
        let replica = self.processes.get_mut(&id);
        let replica = replica.and_then(|process| process.replicas.get_mut(&slice));
        let Some(link) = replica.and_then(|replica| replica.mirror.take()) else {
            return Ok(());
        };
        let known = self.links.get(&link);
        let end = known.map(|state| match state.dialler == Party::Shard(id) {
            true => End::Dialler,
            false => End::Listener,
        });
        if let Some(end) = end {
            self.close(link, end);
        }
        self.replica(id, slice, shard::Event::PeerDown)
    }

    /// Dials for a role what is wanted and not there.
    pub(super) fn redial(&mut self, id: u32, role: Role) {
        let process = &self.processes[&id];
        let listener = match role {
            Role::Control if process.control.is_none() => Some(Party::Coordinator),
            Role::Votes(slice) => match (
                process.votes.get(&slice),
                process.routes.primaries.get(&slice),
            ) {
                (Some(Target::Away { link: None, .. }), Some(Place::At { address, .. })) => {
                    Some(at(address))
                }
                (Some(Target::Here | Target::Away { .. }) | None, _) => None,
            },
            Role::Mirror(slice) => {
                let primary = process.routes.primaries.get(&slice) == Some(&Place::Here);
                let dialled = self.links.values().any(|link| {
                    (link.dialler, link.role) == (Party::Shard(id), role) && link.is_dialled()
                });
                let peer = process.routes.mirrors.get(&slice);
                let wanted = primary && !dialled && process.replicas.contains_key(&slice);
                peer.filter(|_| wanted).map(|peer| at(&peer.address))
            }
            Role::Control | Role::Data(_) | Role::Store(_) => None,
        };
        let Some(listener) = listener else {
            return;
        };
        let (before, lost) = (process.incarnation, process.lost > self.now);
        let link = match listener == Party::Coordinator && lost {
            true => None,
            false => self.connect(Party::Shard(id), listener, role, before),
        };
        if link.is_none() {
            self.later(id, Deed::Redial(role));
        }
        let process = self.processes.get_mut(&id).expect("it dials");
        match role {
            Role::Control => process.control = link,
            Role::Votes(slice) => {
                if let Some(Target::Away { link: kept, .. }) = process.votes.get_mut(&slice) {
                    *kept = link;
                }
            }
            Role::Mirror(_) | Role::Data(_) | Role::Store(_) => {}
        }
    }

    /// Tells the primary of another slice, wherever it is.
    pub(super) fn tell_primary(&mut self, id: u32, to: SliceId, says: SliceSays) {
        let process = self.processes.get_mut(&id).expect("it acts");
        match process.votes.get_mut(&to) {
            None => {}
            Some(Target::Here) => self.soon_at(id, Deed::Heard(to, says)),
            Some(Target::Away {
                link: Some(link),
                open: true,
                ..
            }) => {
                let link = *link;
                self.send(link, End::Listener, Packet::Parcel(Parcel::Vote(says)));
            }
            Some(Target::Away { waiting, .. }) => {
                if waiting.len() == WAITING {
                    waiting.pop_front();
                }
                waiting.push_back(says);
            }
        }
    }

    /// The link to the primary of a slice is open: what waited is sent.
    pub(super) fn votes_linked(&mut self, id: u32, slice: SliceId, opened: LinkId) {
        let process = self.processes.get_mut(&id).expect("it hears");
        let Some(Target::Away {
            link,
            open,
            waiting,
        }) = process.votes.get_mut(&slice)
        else {
            return;
        };
        if *link != Some(opened) {
            return;
        }
        *open = true;
        for says in std::mem::take(waiting) {
            self.send(opened, End::Listener, Packet::Parcel(Parcel::Vote(says)));
        }
    }

    pub(super) fn votes_lost(&mut self, id: u32, slice: SliceId, lost: LinkId) {
        let process = self.processes.get_mut(&id).expect("it hears");
        if let Some(Target::Away { link, open, .. }) = process.votes.get_mut(&slice)
            && *link == Some(lost)
        {
            (*link, *open) = (None, false);
            self.later(id, Deed::Redial(Role::Votes(slice)));
        }
    }
}
