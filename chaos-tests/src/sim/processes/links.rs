//! What arrives at a shard process, and what the end of a link is to it.

use resilin_core::machine::{host, shard};
use resilin_core::{Incarnation, LinkId, SliceId, Tensor};

use super::{Deed, Parcel};
use crate::sim::events::{End, Packet, Role};
use crate::sim::{Checked, Sim};

impl Sim<'_> {
    pub(in crate::sim) fn arrive_at_shard(
        &mut self,
        id: u32,
        (link, role, end): (LinkId, Role, End),
        packet: Packet,
    ) -> Checked {
        if !self.processes.contains_key(&id) {
            return Ok(());
        }
        match (packet, role) {
            (Packet::Hello(who), _) => self.knocked(id, link, role, who),
            (Packet::Accepted, Role::Store(_)) => {
                self.store_linked(id, link);
                Ok(())
            }
            (Packet::Accepted, Role::Votes(slice)) => {
                self.votes_linked(id, slice, link);
                Ok(())
            }
            (Packet::Accepted, Role::Mirror(slice)) => self.mirror_linked(id, slice, link),
            (Packet::Asked(asks), Role::Data(slice)) => {
                self.replica(id, slice, shard::Event::Asked(link, asks))
            }
            (Packet::Pushed(push, values), Role::Data(slice)) => {
                let Some(replica) = self
                    .processes
                    .get_mut(&id)
                    .expect("seen")
                    .replicas
                    .get_mut(&slice)
                else {
                    return Ok(());
                };
                let tensor: Tensor = replica.hold(values);
                let push = shard::Push { tensor, ..push };
                self.replica(id, slice, shard::Event::Pushed(link, push))
            }
            (Packet::Parcel(parcel), role) => self.parcel_at_shard(id, (link, role, end), parcel),
            (packet, role) => unreachable!("{packet:?} on {role:?}"),
        }
    }

    /// Somebody dialled: whoever wants what is not here is sent away.
    fn knocked(&mut self, id: u32, link: LinkId, role: Role, who: Option<Incarnation>) -> Checked {
        let process = &self.processes[&id];
        let wanted = match role {
            Role::Data(slice) | Role::Votes(slice) => process.replicas.contains_key(&slice),
            Role::Mirror(slice) => {
                let primary = process
                    .routes
                    .mirrors
                    .get(&slice)
                    .map(|peer| peer.incarnation);
                process.replicas.contains_key(&slice) && primary.is_some() && primary == who
            }
            Role::Control | Role::Store(_) => unreachable!("the coordinator serves these"),
        };
        if !wanted {
            self.close(link, End::Listener);
            return Ok(());
        }
        self.send(link, End::Dialler, Packet::Accepted);
        match role {
            Role::Data(slice) => self.replica(id, slice, shard::Event::LinkUp(link)),
            Role::Mirror(slice) => self.mirror_linked(id, slice, link),
            Role::Votes(_) | Role::Control | Role::Store(_) => Ok(()),
        }
    }

    fn mirror_linked(&mut self, id: u32, slice: SliceId, link: LinkId) -> Checked {
        self.mirror_down(id, slice)?;
        let process = self.processes.get_mut(&id).expect("it hears");
        let Some(replica) = process.replicas.get_mut(&slice) else {
            return Ok(());
        };
        replica.mirror = Some(link);
        self.replica(id, slice, shard::Event::PeerUp)
    }

    fn parcel_at_shard(
        &mut self,
        id: u32,
        (link, role, end): (LinkId, Role, End),
        parcel: Parcel,
    ) -> Checked {
        let process = self.processes.get_mut(&id).expect("seen by the caller");
        let control = process.control == Some(link);
        match (parcel, role) {
            (Parcel::Welcome(incarnation), Role::Control) if control => {
                process.incarnation = Some(incarnation);
                self.process(id, host::Event::Welcomed(incarnation))
            }
            (Parcel::Told(told), Role::Control) if control => {
                self.process(id, host::Event::Told(told))
            }
            (Parcel::Welcome(_) | Parcel::Told(_), _) => Ok(()),
            (Parcel::Vote(says), Role::Votes(slice)) if end == End::Listener => {
                self.replica(id, slice, shard::Event::Slice(says))
            }
            (Parcel::Answer(says, state), Role::Store(_)) => {
                self.store_answered(id, link, says, state)
            }
            (
                parcel @ (Parcel::Replica(_) | Parcel::Root { .. } | Parcel::Copy { .. }),
                Role::Mirror(slice),
            ) => match process.replicas.get(&slice) {
                Some(replica) if replica.mirror == Some(link) => {
                    self.heard_mirror(id, slice, parcel)
                }
                Some(_) | None => Ok(()),
            },
            (parcel, role) => unreachable!("{parcel:?} on {role:?}"),
        }
    }

    pub(in crate::sim) fn shard_link_lost(
        &mut self,
        id: u32,
        role: Role,
        link: LinkId,
        end: End,
    ) -> Checked {
        let Some(process) = self.processes.get_mut(&id) else {
            return Ok(());
        };
        match role {
            Role::Control => {
                if process.control != Some(link) {
                    return Ok(());
                }
                process.control = None;
                self.later(id, Deed::Redial(role));
                self.process(id, host::Event::Orphaned)
            }
            Role::Data(slice) => self.replica(id, slice, shard::Event::LinkDown(link)),
            Role::Votes(slice) => {
                if end == End::Dialler {
                    self.votes_lost(id, slice, link);
                }
                Ok(())
            }
            Role::Mirror(slice) => {
                let replica = process.replicas.get_mut(&slice);
                let open = replica.filter(|replica| replica.mirror == Some(link));
                let was_open = open.map(|replica| replica.mirror = None).is_some();
                if end == End::Dialler {
                    self.later(id, Deed::Redial(role));
                }
                match was_open {
                    true => self.replica(id, slice, shard::Event::PeerDown),
                    false => Ok(()),
                }
            }
            Role::Store(_) => {
                self.store_lost(id, link);
                Ok(())
            }
        }
    }

    /// SIGTERM.
    pub(in crate::sim) fn terminate_process(&mut self, id: u32) -> Checked {
        let grace = self.oracle.task.job.failure.drain_grace;
        self.processes.get_mut(&id).expect("just picked").leaving = true;
        let at = self.now + grace;
        let over = crate::sim::events::Happening::Deed(id, Deed::GraceOver);
        self.queue.push(at, over);
        self.process(id, host::Event::Drain)
    }
}
