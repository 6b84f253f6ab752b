//! Hosts: processes that keep replicas, and so their life, over the loss of a control link.
//!
//! A worker that lost its link joins anew; what a host has is worth a lease of waiting. One that
//! dials again within it, or that an earlier life of the coordinator knew, keeps its number: which of
//! its replicas still count is judged by views and branches (PROTOCOL 2, 3, 5).

#[cfg(test)]
#[path = "hosts_test.rs"]
mod tests;

use super::{Cause, Effect, Fleet};
use crate::id::{Incarnation, LinkId};
use crate::message::{HostSays, HostTold};
use crate::sorted::SortedMap;
use crate::time::Time;

/// What a job learns of its hosts.
#[derive(Clone, Debug, PartialEq)]
pub enum HostNews {
    /// It is linked: a new life, or one that came back.
    Up {
        /// Its number.
        incarnation: Incarnation,
        /// What people call it.
        name: String,
    },
    /// It speaks.
    Said(Incarnation, HostSays),
    /// It was lost again and again: no slice for it until then.
    HeldBack(Incarnation, Time),
    /// Its link is gone; it counts until its lease ends.
    Unlinked(Incarnation),
    /// It no longer counts.
    Down(Incarnation, Cause),
    /// The coordinator itself stood still: nothing is concluded from silence before this time
    /// (PROTOCOL 5).
    Stalled(Time),
}

#[derive(Clone, Debug)]
struct Process {
    /// `None` while it may dial again.
    link: Option<LinkId>,
    name: String,
    expires: Time,
}

/// All hosts that count.
#[derive(Clone, Debug, Default)]
pub(super) struct Hosts {
    processes: SortedMap<Incarnation, Process>,
    links: SortedMap<LinkId, Incarnation>,
}

impl Hosts {
    /// What must hold after every event.
    pub(super) fn check(&self, last: Incarnation) {
        for (link, incarnation) in &self.links {
            let process = self.processes.get(incarnation);
            assert_eq!(process.and_then(|process| process.link), Some(*link));
        }
        let linked = self.processes.values().filter(|p| p.link.is_some()).count();
        assert_eq!(linked, self.links.len(), "one control link a host");
        assert!(self.processes.keys().all(|host| *host <= last));
    }
}

impl Fleet {
    pub(super) fn host_joined(
        &mut self,
        now: Time,
        (link, name): (LinkId, String),
        before: Option<Incarnation>,
        effects: &mut Vec<Effect>,
    ) {
        let kept = before.filter(|b| self.keeps(*b));
        let incarnation = kept.unwrap_or_else(|| {
            self.last = self.last.next();
            self.last
        });
        let process = Process {
            link: Some(link),
            name: name.clone(),
            expires: now + self.lease,
        };
        // It may notice the loss of a link before this end does.
        let old = self.hosts.processes.insert(incarnation, process);
        if let Some(old) = old.and_then(|process| process.link) {
            self.hosts.links.remove(&old);
            effects.push(Effect::Close(old));
        }
        self.hosts.links.insert(link, incarnation);
        effects.push(Effect::WelcomeHost(link, incarnation));
        let held_back = match kept {
            // What it has is worth more than what its absence cost.
            Some(_) => None,
            None => self.flapping.joined(now, &name),
        };
        effects.push(Effect::Host(HostNews::Up { incarnation, name }));
        let held_back = held_back.map(|until| HostNews::HeldBack(incarnation, until));
        effects.extend(held_back.map(Effect::Host));
    }

    /// Whether a number is still its bearer's. Those of earlier lives of the coordinator were never
    /// taken back by this one.
    fn keeps(&self, before: Incarnation) -> bool {
        before.reign < self.last.reign || self.hosts.processes.contains_key(&before)
    }

    pub(super) fn host_said(
        &mut self,
        now: Time,
        link: LinkId,
        says: HostSays,
        effects: &mut Vec<Effect>,
    ) {
        let Some(incarnation) = self.hosts.links.get(&link).copied() else {
            let cause = "this link's lease has ended".into();
            effects.push(Effect::SendHost(link, HostTold::Fence { cause }));
            effects.push(Effect::Close(link));
            return;
        };
        if let Some(process) = self.hosts.processes.get_mut(&incarnation) {
            process.expires = now + self.lease;
        }
        if says == HostSays::Leave {
            self.host_down(now, incarnation, Cause::Left, effects);
        } else {
            effects.push(Effect::Host(HostNews::Said(incarnation, says)));
        }
    }

    pub(super) fn host_unlinked(&mut self, link: LinkId, effects: &mut Vec<Effect>) {
        let Some(incarnation) = self.hosts.links.remove(&link) else {
            return;
        };
        if let Some(process) = self.hosts.processes.get_mut(&incarnation) {
            process.link = None;
        }
        effects.push(Effect::Host(HostNews::Unlinked(incarnation)));
    }

    pub(super) fn tell_host(&self, host: Incarnation, told: HostTold, effects: &mut Vec<Effect>) {
        let link = self.hosts.processes.get(&host).and_then(|p| p.link);
        effects.extend(link.map(|link| Effect::SendHost(link, told)));
    }

    pub(super) fn expire_hosts(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let expired = self
            .hosts
            .processes
            .iter()
            .filter(|(_, p)| p.expires <= now);
        let expired: Vec<Incarnation> = expired.map(|(host, _)| *host).collect();
        for host in expired {
            self.host_down(now, host, Cause::LeaseExpired, effects);
        }
    }

    pub(super) fn forgive_hosts(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let until = now + self.lease;
        for process in self.hosts.processes.values_mut() {
            process.expires = process.expires.max(until);
        }
        if !self.hosts.processes.is_empty() {
            effects.push(Effect::Host(HostNews::Stalled(until)));
        }
    }

    fn host_down(&mut self, now: Time, host: Incarnation, cause: Cause, effects: &mut Vec<Effect>) {
        let process = self.hosts.processes.remove(&host).expect("listed");
        match cause {
            Cause::LinkReset | Cause::LeaseExpired | Cause::Fenced | Cause::Replaced => {
                self.flapping.lost(now, &process.name);
            }
            Cause::Left => {}
        }
        if let Some(link) = process.link {
            self.hosts.links.remove(&link);
            if cause == Cause::LeaseExpired {
                let cause = "nothing was heard for a lease".into();
                effects.push(Effect::SendHost(link, HostTold::Fence { cause }));
            }
            effects.push(Effect::Close(link));
        }
        effects.push(Effect::Host(HostNews::Down(host, cause)));
    }
}
