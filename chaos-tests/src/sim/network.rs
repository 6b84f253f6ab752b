//! Links: ordered, with latency, and broken at different times for their two ends. Bad weather does
//! more than real links do: whatever a broken link and a new one can make of a conversation.

use resilin_core::machine::{fleet, shard, worker};
use resilin_core::time::{Span, Time};
use resilin_core::{Incarnation, LinkId, SliceId};

use super::events::{Chore, End, Happening, Packet, Party, Role};
use super::{Checked, Sim, codec, processes};
use crate::schedule::Weather;

/// A connection between two processes.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) dialler: Party,
    pub(super) listener: Party,
    pub(super) role: Role,
    dialler_open: bool,
    listener_open: bool,
    /// What is under way is lost.
    reset: bool,
    to_dialler: Time,
    to_listener: Time,
    /// The next message is damaged on its way, at a place that the number draws.
    corrupt: Option<u32>,
    /// Messages take that much longer until then.
    slow: (Span, Time),
}

impl Link {
    fn open(&mut self, end: End) -> &mut bool {
        match end {
            End::Dialler => &mut self.dialler_open,
            End::Listener => &mut self.listener_open,
        }
    }

    fn last(&mut self, to: End) -> &mut Time {
        match to {
            End::Dialler => &mut self.to_dialler,
            End::Listener => &mut self.to_listener,
        }
    }

    /// Whether the dialler still counts on it.
    pub(super) fn is_dialled(&self) -> bool {
        self.dialler_open && !self.reset
    }

    /// The process at an end.
    pub(super) fn party(&self, end: End) -> Party {
        match end {
            End::Dialler => self.dialler,
            End::Listener => self.listener,
        }
    }
}

impl Sim<'_> {
    /// A worker dials; if nobody is there it tries again later.
    pub(super) fn dial(&mut self, host: u32, role: Role) {
        let Some(known) = self.hosts.get(&host) else {
            return;
        };
        let listener = known.server(role);
        let lost = listener == Party::Coordinator && known.lost > self.now;
        let before = Some(known.incarnation);
        let link = match lost {
            true => None,
            false => self.connect(Party::Worker(host), listener, role, before),
        };
        let Some(link) = link else {
            return self.redial_later(host, role);
        };
        if let Some(host) = self.hosts.get_mut(&host) {
            host.dialled(role, link);
        }
    }

    /// Opens a link and knocks, if the other process is there.
    pub(super) fn connect(
        &mut self,
        dialler: Party,
        listener: Party,
        role: Role,
        before: Option<Incarnation>,
    ) -> Option<LinkId> {
        let there = match listener {
            Party::Coordinator => self.coordinator.is_some(),
            Party::Worker(id) => self.hosts.contains_key(&id),
            Party::Shard(id) => self.processes.contains_key(&id),
        };
        if !there {
            return None;
        }
        self.next_link += 1;
        let link = LinkId(self.next_link);
        let state = Link {
            dialler,
            listener,
            role,
            dialler_open: true,
            listener_open: true,
            reset: false,
            to_dialler: self.now,
            to_listener: self.now,
            corrupt: None,
            slow: (Span::ZERO, Time(0)),
        };
        self.links.insert(link, state);
        self.send(link, End::Listener, Packet::Hello(before));
        Some(link)
    }

    pub(super) fn redial_later(&mut self, host: u32, role: Role) {
        let at = self.now + self.micros(2_000, 20_000);
        self.queue
            .push(at, Happening::Chore(host, Chore::Redial(role)));
    }

    pub(super) fn send(&mut self, link: LinkId, to: End, packet: Packet) {
        let Some(state) = self.links.get_mut(&link) else {
            return;
        };
        if state.reset || !*state.open(to.other()) {
            return;
        }
        let weather = match packet {
            Packet::Hello(_) | Packet::Accepted | Packet::Welcome(_) | Packet::Closed => {
                Weather::default()
            }
            Packet::Parcel(ref parcel) if parcel.arrives() => Weather::default(),
            Packet::Said(_)
            | Packet::Told(_)
            | Packet::Asked(_)
            | Packet::Heard(_)
            | Packet::Pushed(..)
            | Packet::Weights { .. }
            | Packet::Parcel(_) => self.weather(),
        };
        let plain = matches!(packet, Packet::Hello(_) | Packet::Accepted | Packet::Closed);
        let state = self.links.get_mut(&link).expect("just seen");
        if let Some(pick) = state.corrupt.take_if(|_| !plain) {
            self.stats.corrupt += 1;
            codec::refuse_damaged(&packet, self.rules.run, pick);
            return self.reset(link);
        }
        let held = self.held(link, to);
        if self.odds(weather.loss) {
            self.stats.lost += 1;
            return;
        }
        let copies = 1 + u32::from(self.odds(weather.twice));
        for _ in 0..copies {
            let latency = self.micros(50, 800);
            let mut at = held + latency;
            if self.odds(weather.spike) {
                at = at + self.micros(1_000, 100_000);
            }
            let overtakes = self.odds(weather.reorder);
            let state = self.links.get_mut(&link).expect("just seen");
            if !overtakes {
                at = at.max(Time(state.last(to).0 + 1));
                *state.last(to) = at;
            }
            let packet = self.encoded(packet.clone());
            self.queue.push(at, Happening::Arrive { link, to, packet });
        }
    }

    /// When a message that is sent now sets out: after a cut, and later on a slow link.
    fn held(&self, link: LinkId, to: End) -> Time {
        let state = &self.links[&link];
        let (more, until) = state.slow;
        let slow = if self.now < until { more } else { Span::ZERO };
        let (from, to) = (state.party(to.other()), state.party(to));
        let mute = self.silence(from).map(|(_, mute)| mute);
        let deaf = self.silence(to).map(|(deaf, _)| deaf);
        let apart = self.apart.get(&(from.min(to), from.max(to))).copied();
        let until = [mute, deaf, apart].into_iter().flatten().max();
        self.now.max(until.unwrap_or_default()) + slow
    }

    /// Until when nothing reaches a process, and until when nothing comes from it.
    fn silence(&self, party: Party) -> Option<(Time, Time)> {
        match party {
            Party::Coordinator => None,
            Party::Worker(id) => self.hosts.get(&id).map(|host| (host.deaf, host.mute)),
            Party::Shard(id) => self.processes.get(&id).map(|p| (p.deaf, p.mute)),
        }
    }

    pub(super) fn corrupt_next(&mut self, link: LinkId, pick: u32) {
        self.links.get_mut(&link).expect("just picked").corrupt = Some(pick);
    }

    pub(super) fn slow_down(&mut self, link: LinkId, more: Span, until: Time) {
        self.links.get_mut(&link).expect("just picked").slow = (more, until);
    }

    /// One end closes the link; the other learns it after all that was sent.
    pub(super) fn close(&mut self, link: LinkId, end: End) {
        self.send(link, end.other(), Packet::Closed);
        if let Some(state) = self.links.get_mut(&link) {
            *state.open(end) = false;
        }
    }

    /// A process is gone, or the cable: what is under way is lost, and whoever is left learns it.
    pub(super) fn reset(&mut self, link: LinkId) {
        if let Some(state) = self.links.get_mut(&link).filter(|state| !state.reset) {
            state.reset = true;
            for end in [End::Dialler, End::Listener] {
                let at = self.now + self.micros(100, 30_000);
                self.queue.push(at, Happening::LinkLost { link, end });
            }
        }
    }

    /// All links of a process; those that it dialled come first with their number.
    pub(super) fn links_of(&self, party: Party) -> Vec<(LinkId, End)> {
        let ends = |(link, state): (&LinkId, &Link)| {
            let ends = [End::Dialler, End::Listener];
            let own = ends.into_iter().find(|end| state.party(*end) == party);
            own.map(|end| (*link, end))
        };
        self.links.iter().filter_map(ends).collect()
    }

    /// The process at this end is gone.
    pub(super) fn forget_end(&mut self, link: LinkId, end: End) {
        if let Some(state) = self.links.get_mut(&link) {
            *state.open(end) = false;
        }
    }

    /// How bad the network is now.
    pub(super) fn weather(&self) -> Weather {
        if self.now < self.weather_until {
            self.weather
        } else {
            Weather::default()
        }
    }

    pub(super) fn arrive(&mut self, link: LinkId, to: End, packet: Packet) -> Checked {
        let Some(state) = self.links.get_mut(&link) else {
            return Ok(());
        };
        if state.reset || !*state.open(to) {
            return Ok(());
        }
        if matches!(packet, Packet::Closed) {
            return self.link_lost(link, to);
        }
        let (party, role) = (state.party(to), state.role);
        match party {
            Party::Worker(id) => self.arrive_at_worker(id, role, link, packet),
            Party::Shard(id) => self.arrive_at_shard(id, (link, role, to), packet),
            Party::Coordinator => {
                self.arrive_at_coordinator(role, link, packet)?;
                self.settled()
            }
        }
    }

    pub(super) fn link_lost(&mut self, link: LinkId, end: End) -> Checked {
        let Some(state) = self.links.get_mut(&link) else {
            return Ok(());
        };
        let (party, role) = (state.party(end), state.role);
        let was_open = std::mem::replace(state.open(end), false);
        if !state.dialler_open && !state.listener_open {
            self.links.remove(&link);
        }
        if !was_open {
            return Ok(());
        }
        match (party, role) {
            (Party::Worker(id), _) => self.cut_off(id, role, link),
            (Party::Shard(id), _) => self.shard_link_lost(id, role, link, end),
            (Party::Coordinator, Role::Control) => {
                self.fleet(fleet::Event::LinkDown(link))?;
                self.settled()
            }
            (Party::Coordinator, Role::Data(slice)) => {
                self.shard(slice, shard::Event::LinkDown(link))?;
                self.settled()
            }
            (Party::Coordinator, Role::Store(slice)) => {
                self.part_lost(link, slice)?;
                self.settled()
            }
            (Party::Coordinator, Role::Votes(_) | Role::Mirror(_)) => {
                unreachable!("only shard processes serve these")
            }
        }
    }

    fn arrive_at_worker(&mut self, id: u32, role: Role, link: LinkId, packet: Packet) -> Checked {
        if !self.hosts.get(&id).is_some_and(|h| h.uses(role, link)) {
            return Ok(());
        }
        let event = match (packet, role) {
            (Packet::Welcome(incarnation), Role::Control) => {
                self.hosts.get_mut(&id).expect("just seen").incarnation = incarnation;
                worker::Event::Welcomed(incarnation)
            }
            (Packet::Told(says), Role::Control) => worker::Event::Told(says),
            (Packet::Accepted, Role::Data(slice)) => worker::Event::SliceUp(slice),
            (Packet::Heard(says), Role::Data(slice)) => worker::Event::Heard(slice, says),
            (
                Packet::Weights {
                    timeline,
                    step,
                    purpose,
                    values,
                    based_on,
                },
                Role::Data(slice),
            ) => {
                let host = self.hosts.get_mut(&id).expect("just seen");
                if let Some(before) = based_on
                    && !host.can_change(slice, (timeline, step), &before)
                {
                    return Ok(());
                }
                host.received(purpose, step, slice, values);
                worker::Event::Weights {
                    slice,
                    timeline,
                    step,
                    purpose,
                }
            }
            (packet, role) => unreachable!("{packet:?} on {role:?}"),
        };
        self.worker(id, event)
    }

    fn arrive_at_coordinator(&mut self, role: Role, link: LinkId, packet: Packet) -> Checked {
        match (packet, role) {
            (Packet::Hello(before), Role::Control) => {
                let (name, role) = match self.links[&link].dialler {
                    Party::Worker(id) => {
                        let name = self.hosts.get(&id).map(|host| host.name.clone());
                        let name = name.unwrap_or_else(|| format!("worker{id}"));
                        (name, fleet::Role::Worker)
                    }
                    Party::Shard(id) => (processes::name(id), fleet::Role::Host),
                    Party::Coordinator => unreachable!("it dials nobody"),
                };
                self.fleet(fleet::Event::Joined {
                    link,
                    name,
                    role,
                    before,
                })
            }
            (Packet::Hello(_), Role::Store(_)) => {
                self.send(link, End::Dialler, Packet::Accepted);
                Ok(())
            }
            (Packet::Hello(_), Role::Data(slice)) => {
                self.send(link, End::Dialler, Packet::Accepted);
                self.shard(slice, shard::Event::LinkUp(link))
            }
            (Packet::Said(says), Role::Control) => self.fleet(fleet::Event::Said(link, says)),
            (Packet::Asked(asks), Role::Data(slice)) => self.asked(slice, link, asks),
            (Packet::Pushed(push, values), Role::Data(slice)) => {
                self.pushed(slice, link, push, values)
            }
            (Packet::Parcel(parcel), role) => self.parcel(role, link, parcel),
            (packet, role) => unreachable!("{packet:?} on {role:?}"),
        }
    }

    /// What is on the wire, if this run looks at it.
    fn encoded(&self, packet: Packet) -> Packet {
        if !self.schedule.codec {
            return packet;
        }
        match packet {
            Packet::Said(says) => Packet::Said(codec::pass(&says)),
            Packet::Told(says) => Packet::Told(codec::pass(&says)),
            Packet::Asked(asks) => Packet::Asked(codec::pass(&asks)),
            Packet::Heard(says) => Packet::Heard(codec::pass(&says)),
            Packet::Pushed(push, values) => {
                let push = codec::pass_push(push, self.rules.run, SliceId(0), values.len());
                Packet::Pushed(push, values)
            }
            Packet::Parcel(parcel) => Packet::Parcel(parcel.encoded()),
            Packet::Hello(_)
            | Packet::Accepted
            | Packet::Welcome(_)
            | Packet::Closed
            | Packet::Weights { .. } => packet,
        }
    }
}
