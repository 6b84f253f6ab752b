//! Links: ordered, with latency, and broken at different times for their two ends. In bad weather
//! messages are lost, doubled, overtaken or late, which is more than real links do: whatever a
//! broken link and a new one can make of a conversation is among it.

use resilin_core::machine::{fleet, shard, worker};
use resilin_core::time::{Span, Time};
use resilin_core::{LinkId, SliceId};

use super::events::{Chore, End, Happening, Packet, Role};
use super::{Checked, Sim, codec};
use crate::schedule::Weather;

/// A connection between a worker's process and the coordinator's.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) host: u32,
    pub(super) role: Role,
    worker_open: bool,
    coordinator_open: bool,
    /// Broken: what is under way is lost.
    reset: bool,
    to_worker: Time,
    to_coordinator: Time,
    /// The next message is damaged on its way, at a place that the number draws.
    corrupt: Option<u32>,
    /// Messages take that much longer, until then.
    slow: (Span, Time),
}

impl Link {
    fn open(&mut self, end: End) -> &mut bool {
        match end {
            End::Worker => &mut self.worker_open,
            End::Coordinator => &mut self.coordinator_open,
        }
    }

    fn last(&mut self, to: End) -> &mut Time {
        match to {
            End::Worker => &mut self.to_worker,
            End::Coordinator => &mut self.to_coordinator,
        }
    }
}

fn other(end: End) -> End {
    match end {
        End::Worker => End::Coordinator,
        End::Coordinator => End::Worker,
    }
}

impl Sim<'_> {
    /// A worker dials; without a coordinator it tries again later.
    pub(super) fn dial(&mut self, host: u32, role: Role) {
        let knows = self.hosts.get(&host).is_some_and(|h| h.lost <= self.now);
        if self.coordinator.is_none() || !knows {
            return self.redial_later(host, role);
        }
        self.next_link += 1;
        let link = LinkId(self.next_link);
        let state = Link {
            host,
            role,
            worker_open: true,
            coordinator_open: true,
            reset: false,
            to_worker: self.now,
            to_coordinator: self.now,
            corrupt: None,
            slow: (Span::ZERO, Time(0)),
        };
        self.links.insert(link, state);
        if let Some(host) = self.hosts.get_mut(&host) {
            host.dialled(role, link);
        }
        self.send(link, End::Coordinator, Packet::Hello);
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
        if state.reset || !*state.open(other(to)) {
            return;
        }
        let weather = match packet {
            Packet::Hello | Packet::Accepted | Packet::Welcome(_) | Packet::Closed => {
                Weather::default()
            }
            Packet::Said(_)
            | Packet::Told(_)
            | Packet::Asked(_)
            | Packet::Heard(_)
            | Packet::Pushed(..)
            | Packet::Weights { .. } => self.weather(),
        };
        let plain = matches!(packet, Packet::Hello | Packet::Accepted | Packet::Closed);
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
        let cut = self.hosts.get(&state.host).map(|host| match to {
            End::Worker => host.deaf,
            End::Coordinator => host.mute,
        });
        self.now.max(cut.unwrap_or_default()) + slow
    }

    pub(super) fn corrupt_next(&mut self, link: LinkId, pick: u32) {
        self.links.get_mut(&link).expect("just picked").corrupt = Some(pick);
    }

    pub(super) fn slow_down(&mut self, link: LinkId, more: Span, until: Time) {
        self.links.get_mut(&link).expect("just picked").slow = (more, until);
    }

    /// One end closes the link; the other learns it after all that was sent.
    pub(super) fn close(&mut self, link: LinkId, end: End) {
        self.send(link, other(end), Packet::Closed);
        if let Some(state) = self.links.get_mut(&link) {
            *state.open(end) = false;
        }
    }

    /// A process is gone, or the cable: what is under way is lost, and whoever is left learns it.
    pub(super) fn reset(&mut self, link: LinkId) {
        if let Some(state) = self.links.get_mut(&link).filter(|state| !state.reset) {
            state.reset = true;
            for end in [End::Worker, End::Coordinator] {
                let at = self.now + self.micros(100, 30_000);
                self.queue.push(at, Happening::LinkLost { link, end });
            }
        }
    }

    /// A worker's host is gone with its end of the link, and nobody says so.
    pub(super) fn vanish(&mut self, link: LinkId) {
        self.forget_end(link, End::Worker);
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
        let (host, role) = (state.host, state.role);
        match to {
            End::Worker => self.arrive_at_worker(host, role, link, packet),
            End::Coordinator => {
                self.arrive_at_coordinator(role, link, packet)?;
                self.settled()
            }
        }
    }

    pub(super) fn link_lost(&mut self, link: LinkId, end: End) -> Checked {
        let Some(state) = self.links.get_mut(&link) else {
            return Ok(());
        };
        let (host, role) = (state.host, state.role);
        let was_open = std::mem::replace(state.open(end), false);
        if !state.worker_open && !state.coordinator_open {
            self.links.remove(&link);
        }
        if !was_open {
            return Ok(());
        }
        match (end, role) {
            (End::Worker, _) => self.cut_off(host, role, link),
            (End::Coordinator, Role::Control) => {
                self.fleet(fleet::Event::LinkDown(link))?;
                self.settled()
            }
            (End::Coordinator, Role::Data(slice)) => {
                self.shard(slice, shard::Event::LinkDown(link))?;
                self.settled()
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
                },
                Role::Data(slice),
            ) => {
                let host = self.hosts.get_mut(&id).expect("just seen");
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
            (Packet::Hello, Role::Control) => {
                let host = self.links[&link].host;
                let host_of = self.hosts.get(&host);
                let name = host_of.map(|host| host.name.clone());
                let before = host_of.map(|host| host.incarnation);
                self.fleet(fleet::Event::Joined {
                    link,
                    name: name.unwrap_or_else(|| format!("worker{host}")),
                    role: fleet::Role::Worker,
                    before,
                })
            }
            (Packet::Hello, Role::Data(slice)) => {
                self.send(link, End::Worker, Packet::Accepted);
                self.shard(slice, shard::Event::LinkUp(link))
            }
            (Packet::Said(says), Role::Control) => self.fleet(fleet::Event::Said(link, says)),
            (Packet::Asked(asks), Role::Data(slice)) => self.asked(slice, link, asks),
            (Packet::Pushed(push, values), Role::Data(slice)) => {
                self.pushed(slice, link, push, values)
            }
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
            Packet::Hello
            | Packet::Accepted
            | Packet::Welcome(_)
            | Packet::Closed
            | Packet::Weights { .. } => packet,
        }
    }
}
