//! Between replicas: votes from slice to slice, and the link of a primary and its backup, which is
//! reset now and then and loses what was on it.

use resilin_core::SliceId;
use resilin_core::machine::shard::Event;
use resilin_core::message::{ReplicaSays, SliceSays};

use super::plant::Plant;
use super::world::{Checked, Happening, Parcel, World};

impl World {
    /// To the slice's primary, or to an earlier one that the sender still takes for it.
    pub(super) fn tell(&mut self, to: SliceId, says: SliceSays) {
        let stale = self.odds(5);
        let view = &self.coordinator.views[&to];
        let earlier = view.earlier.filter(|_| stale);
        let primary = earlier.unwrap_or(view.primary);
        self.send(Happening::Shard(primary, Event::Slice(says)));
    }

    pub(super) fn mirror(&mut self, id: u32, says: ReplicaSays) {
        if self.plant == Plant::PublishEarly
            && let ReplicaSays::Record { view, step, .. } = says
        {
            let event = Event::Replica(ReplicaSays::Recorded { view, step });
            self.after(0, Happening::Shard(id, event));
        }
        if self.plant == Plant::VoteUnpledged
            && let ReplicaSays::Pledge { view, vote, .. } = &says
        {
            let (view, step) = (*view, vote.step);
            let event = Event::Replica(ReplicaSays::Pledged { view, step });
            self.after(0, Happening::Shard(id, event));
        }
        self.post(id, Parcel::Says(says));
    }

    pub(super) fn post(&mut self, id: u32, parcel: Parcel) {
        let Some(peer) = self.replicas[&id].peer else {
            return;
        };
        let Some(link) = self.links.get(&pair(id, peer)).copied() else {
            return;
        };
        let happening = Happening::Peer(id, peer, link, parcel);
        // A copy is lost only with its link.
        match &happening {
            Happening::Peer(_, _, _, Parcel::Copy(..)) => {
                let wait = 500 + u64::from(self.draw(60_000));
                self.after(wait, happening);
            }
            _ => self.send(happening),
        }
    }

    pub(super) fn parcel(&mut self, from: u32, to: u32, link: u64, parcel: Parcel) -> Checked {
        if self.links.get(&pair(from, to)) != Some(&link) {
            return Ok(());
        }
        let Some(replica) = self.replicas.get_mut(&to) else {
            return Ok(());
        };
        match parcel {
            Parcel::Says(says) => {
                if self.plant == Plant::PledgeWithoutRoot
                    && let ReplicaSays::Pledge { view, vote, .. } = &says
                {
                    let (view, step) = (*view, vote.step);
                    let pledged = Event::Replica(ReplicaSays::Pledged { view, step });
                    self.send(Happening::Shard(from, pledged));
                }
                self.event(to, Event::Replica(says))
            }
            Parcel::Root(view, step, root) => {
                let tensor = replica.hold(root);
                self.event(to, Event::Root { view, step, tensor })
            }
            Parcel::Copy(says, copy) => {
                let ReplicaSays::Copy { step, .. } = says else {
                    panic!("a copy says so")
                };
                self.event(to, Event::Replica(says))?;
                if self.replicas[&to].taking == Some(step) {
                    let free = self.replicas[&to].free_at.saturating_sub(self.now);
                    let wait = free + u64::from(self.draw(5_000));
                    self.after(wait, Happening::Installed(to, step, copy));
                }
                Ok(())
            }
        }
    }

    pub(super) fn linked(&mut self, one: u32, other: u32) -> Checked {
        let new = !self.links.contains_key(&pair(one, other));
        let both = self.replicas.contains_key(&one) && self.replicas.contains_key(&other);
        if new && both {
            self.links.insert(pair(one, other), self.sequence);
            self.event(one, Event::PeerUp)?;
            self.event(other, Event::PeerUp)?;
        }
        Ok(())
    }

    /// Resets the link of a pair; both notice, and it comes back.
    pub(super) fn bounce(&mut self, one: u32, other: u32) {
        if self.links.remove(&pair(one, other)).is_some() {
            for id in [one, other] {
                if let Some(replica) = self.replicas.get_mut(&id) {
                    replica.taking = None;
                }
                self.after(0, Happening::Shard(id, Event::PeerDown));
            }
            let wait = 1_000 + u64::from(self.draw(200_000));
            self.after(wait, Happening::Linked(one, other));
        }
    }
}

fn pair(one: u32, other: u32) -> (u32, u32) {
    (one.min(other), one.max(other))
}
