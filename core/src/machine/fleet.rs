//! **Fleet**: which processes live. It numbers their lives, extends their leases and fences them.
//!
//! Liveness is by time of arrival, never by counted ticks, and is extended by the coordinator's own
//! stall. A reset link is reason enough to ask somebody else at once; what a lost process still
//! sends is judged by what it is (PROTOCOL 6, 8).

mod flapping;
mod hosts;
mod outranked;

use crate::id::{Incarnation, LinkId};
use crate::machine::turns::Turns;
use crate::message::{CoordinatorSays, HostSays, HostTold, WorkerSays};
use crate::sorted::SortedMap;
use crate::time::{Span, Time};

pub use hosts::HostNews;

/// What happens to the fleet.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A process passed the handshake on a control link.
    Joined {
        /// The link.
        link: LinkId,
        /// What people call it: host and process id.
        name: String,
        /// What it is.
        role: Role,
        /// The life that it was given before and still lives, if it says so.
        before: Option<Incarnation>,
    },
    /// A worker speaks.
    Said(LinkId, WorkerSays),
    /// A host speaks.
    HostSaid(LinkId, HostSays),
    /// Its link is gone.
    LinkDown(LinkId),
    /// The job has something to say to a member.
    Say(Incarnation, CoordinatorSays),
    /// The job has something to say to a host.
    Tell(Incarnation, HostTold),
    /// The job wants a member to be fenced, for this cause.
    Fence(Incarnation, String),
    /// The deadline passed.
    Tick,
}

/// What a member process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It evaluates gradients.
    Worker,
    /// It serves slices.
    Host,
}

/// Why a member no longer counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Its control link was reset: killed, crashed or cut off.
    LinkReset,
    /// Nothing was heard of it for a lease: frozen or cut off.
    LeaseExpired,
    /// The job wants it out: it does not get on, or its bits are wrong.
    Fenced,
    /// The same process joined on a newer link.
    Replaced,
    /// It said that it leaves.
    Left,
}

impl Cause {
    /// The word in logs and events.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::LinkReset => "link-reset",
            Self::LeaseExpired => "lease-expired",
            Self::Fenced => "fenced",
            Self::Replaced => "replaced",
            Self::Left => "left",
        }
    }
}

/// What a job learns of its members.
#[derive(Clone, Debug, PartialEq)]
pub enum Member {
    /// A new life.
    Up {
        /// Its number.
        incarnation: Incarnation,
        /// What people call it.
        name: String,
    },
    /// It speaks.
    Said(Incarnation, WorkerSays),
    /// It was lost again and again: no work for it until then.
    HeldBack(Incarnation, Time),
    /// It no longer counts.
    Down(Incarnation, Cause),
}

/// What the shell does for the fleet.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Tell the process on this link its number.
    Welcome(LinkId, Incarnation),
    /// Send on a control link.
    Send(LinkId, CoordinatorSays),
    /// Close a control link, after what was sent.
    Close(LinkId),
    /// Tell the job.
    Member(Member),
    /// Tell the host on this link its number.
    WelcomeHost(LinkId, Incarnation),
    /// Send on a host's control link.
    SendHost(LinkId, HostTold),
    /// Tell the job of a host.
    Host(HostNews),
    /// A member was under this reign, which is higher than ours: end this coordinator.
    Outranked(u64),
}

#[derive(Clone, Debug)]
struct Process {
    link: LinkId,
    name: String,
    expires: Time,
}

/// The machine of all member processes.
#[derive(Clone, Debug)]
pub struct Fleet {
    lease: Span,
    last: Incarnation,
    processes: SortedMap<Incarnation, Process>,
    links: SortedMap<LinkId, Incarnation>,
    hosts: hosts::Hosts,
    flapping: flapping::Flapping,
    swept: Option<Time>,
    /// Nobody's lease ends before.
    soonest: Time,
    outranked: bool,
    checks: Turns,
}

impl Fleet {
    /// A fleet under a reign that is durable already (PROTOCOL 1).
    #[must_use]
    pub fn new(reign: u64, lease: Span) -> Self {
        let last = Incarnation { reign, number: 0 };
        Self {
            lease,
            last,
            processes: SortedMap::new(),
            links: SortedMap::new(),
            hosts: hosts::Hosts::default(),
            flapping: flapping::Flapping::new(lease),
            swept: None,
            soonest: Time(0),
            outranked: false,
            checks: Turns::default(),
        }
    }

    /// Takes one event.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        if self.is_outranked(&event, effects) {
            return;
        }
        self.forgive_stall(now, effects);
        match event {
            Event::Joined {
                link,
                name,
                role,
                before,
            } => match role {
                Role::Worker => {
                    self.replace(now, before, effects);
                    self.joined(now, link, name, effects);
                }
                Role::Host => self.host_joined(now, (link, name), before, effects),
            },
            Event::Said(link, says) => self.said(now, link, says, effects),
            Event::HostSaid(link, says) => self.host_said(now, link, says, effects),
            Event::LinkDown(link) => {
                if let Some(incarnation) = self.links.get(&link).copied() {
                    self.down(now, incarnation, Cause::LinkReset, effects);
                }
                self.host_unlinked(link, effects);
            }
            Event::Say(incarnation, says) => {
                if let Some(process) = self.processes.get(&incarnation) {
                    effects.push(Effect::Send(process.link, says));
                }
            }
            Event::Tell(host, told) => self.tell_host(host, told, effects),
            Event::Fence(incarnation, cause) => self.fence(now, incarnation, cause, effects),
            Event::Tick => {}
        }
        self.expire(now, effects);
        self.expire_hosts(now, effects);
        // Release builds leave it to the simulator.
        if cfg!(debug_assertions) && self.checks.take(self.processes.len()) {
            self.check_invariants();
        }
    }

    /// When `Tick` is due: often enough that a late one shows (PROTOCOL 5).
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let swept = self.swept.filter(|_| !self.outranked);
        swept.map(|swept| swept + self.lease.part(4))
    }

    /// Live processes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.processes.len()
    }

    /// Whether no process lives.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// A sweep that comes late by more than a quarter lease was this process's own stall: messages
    /// may lie unread, so nobody is expired for a full lease.
    fn forgive_stall(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let quarter = self.lease.part(4);
        let late = self
            .swept
            .is_some_and(|swept| now.since(swept) > quarter.times(2));
        if late {
            for process in self.processes.values_mut() {
                process.expires = process.expires.max(now + self.lease);
            }
            self.forgive_hosts(now, effects);
        }
    }

    fn joined(&mut self, now: Time, link: LinkId, name: String, effects: &mut Vec<Effect>) {
        self.last = self.last.next();
        let incarnation = self.last;
        let expires = now + self.lease;
        let process = Process {
            link,
            name: name.clone(),
            expires,
        };
        self.processes.insert(incarnation, process);
        self.soonest = self.soonest.min(expires);
        self.links.insert(link, incarnation);
        let held_back = self.flapping.joined(now, &name);
        effects.push(Effect::Welcome(link, incarnation));
        effects.push(Effect::Member(Member::Up { incarnation, name }));
        if let Some(until) = held_back {
            effects.push(Effect::Member(Member::HeldBack(incarnation, until)));
        }
    }

    /// Who dials anew does not use its earlier link any more, whether it is seen to be broken yet or
    /// not; and of two processes that say they are the same one the newer link wins.
    fn replace(&mut self, now: Time, before: Option<Incarnation>, effects: &mut Vec<Effect>) {
        if let Some(before) = before.filter(|before| self.processes.contains_key(before)) {
            self.down(now, before, Cause::Replaced, effects);
        }
    }

    fn said(&mut self, now: Time, link: LinkId, says: WorkerSays, effects: &mut Vec<Effect>) {
        let Some(incarnation) = self.links.get(&link).copied() else {
            let cause = "this link's lease has ended".into();
            effects.push(Effect::Send(link, CoordinatorSays::Fence { cause }));
            effects.push(Effect::Close(link));
            return;
        };
        let process = self
            .processes
            .get_mut(&incarnation)
            .expect("a linked process lives");
        process.expires = now + self.lease;
        if says == WorkerSays::Leave {
            self.down(now, incarnation, Cause::Left, effects);
        } else {
            effects.push(Effect::Member(Member::Said(incarnation, says)));
        }
    }

    fn fence(
        &mut self,
        now: Time,
        incarnation: Incarnation,
        cause: String,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(process) = self.processes.get(&incarnation) {
            let link = process.link;
            effects.push(Effect::Send(link, CoordinatorSays::Fence { cause }));
            self.down(now, incarnation, Cause::Fenced, effects);
        }
    }

    fn down(
        &mut self,
        now: Time,
        incarnation: Incarnation,
        cause: Cause,
        effects: &mut Vec<Effect>,
    ) {
        let process = self.processes.remove(&incarnation).expect("listed");
        self.links.remove(&process.link);
        match cause {
            Cause::LinkReset | Cause::LeaseExpired | Cause::Fenced | Cause::Replaced => {
                self.flapping.lost(now, &process.name);
            }
            Cause::Left => {}
        }
        match cause {
            Cause::LinkReset => {}
            Cause::LeaseExpired => {
                let cause = "nothing was heard for a lease".into();
                effects.push(Effect::Send(process.link, CoordinatorSays::Fence { cause }));
                effects.push(Effect::Close(process.link));
            }
            Cause::Replaced => {
                let cause = "this process joined anew on another link".into();
                effects.push(Effect::Send(process.link, CoordinatorSays::Fence { cause }));
                effects.push(Effect::Close(process.link));
            }
            Cause::Fenced | Cause::Left => effects.push(Effect::Close(process.link)),
        }
        effects.push(Effect::Member(Member::Down(incarnation, cause)));
    }

    fn expire(&mut self, now: Time, effects: &mut Vec<Effect>) {
        self.swept = Some(now);
        if now < self.soonest {
            return;
        }
        let expired: Vec<Incarnation> = self
            .processes
            .iter()
            .filter(|(_, process)| process.expires <= now)
            .map(|(incarnation, _)| *incarnation)
            .collect();
        for incarnation in expired {
            self.down(now, incarnation, Cause::LeaseExpired, effects);
        }
        // Leases are only ever extended: who has the soonest end now has it at the soonest then.
        let ends = self.processes.values().map(|process| process.expires);
        self.soonest = ends.min().unwrap_or(now + self.lease);
    }

    /// What must hold after every event.
    pub fn check_invariants(&self) {
        assert_eq!(
            self.processes.len(),
            self.links.len(),
            "one control link a process"
        );
        for (incarnation, process) in &self.processes {
            assert_eq!(self.links.get(&process.link), Some(incarnation));
            assert!(*incarnation <= self.last, "numbers are issued here only");
            assert!(
                self.soonest <= process.expires,
                "nobody's lease ends unseen"
            );
        }
        self.hosts.check(self.last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Span = Span::from_millis(1000);

    fn at(millis: u64) -> Time {
        Time(0) + Span::from_millis(millis)
    }

    fn incarnation(number: u32) -> Incarnation {
        Incarnation { reign: 9, number }
    }

    fn beat() -> WorkerSays {
        WorkerSays::Heartbeat {
            generation: None,
            step: None,
            samples_per_s: 0.0,
            linked: true,
        }
    }

    fn run(fleet: &mut Fleet, now: Time, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        fleet.step(now, event, &mut effects);
        effects
    }

    fn join(fleet: &mut Fleet, now: Time, link: u64) -> Vec<Effect> {
        run(
            fleet,
            now,
            Event::Joined {
                link: LinkId(link),
                name: format!("w{link}"),
                role: Role::Worker,
                before: None,
            },
        )
    }

    #[test]
    fn every_life_has_a_number_of_its_own() {
        let mut fleet = Fleet::new(9, LEASE);
        for number in 1..=2 {
            let (link, name) = (LinkId(number), format!("w{number}"));
            let incarnation = incarnation(number as u32);
            assert_eq!(
                join(&mut fleet, at(0), number),
                vec![
                    Effect::Welcome(link, incarnation),
                    Effect::Member(Member::Up { incarnation, name })
                ]
            );
        }
        let down = Effect::Member(Member::Down(incarnation(1), Cause::LinkReset));
        assert_eq!(
            run(&mut fleet, at(1), Event::LinkDown(LinkId(1))),
            vec![down]
        );
        assert!(join(&mut fleet, at(2), 3).contains(&Effect::Welcome(LinkId(3), incarnation(3))));
    }

    #[test]
    fn a_silent_member_is_fenced_after_a_lease_and_a_late_word_is_answered_by_a_fence() {
        let mut fleet = Fleet::new(9, LEASE);
        join(&mut fleet, at(0), 1);
        join(&mut fleet, at(0), 2);
        for millis in (250..1000).step_by(250) {
            let said = run(&mut fleet, at(millis), Event::Said(LinkId(2), beat()));
            assert_eq!(
                said,
                vec![Effect::Member(Member::Said(incarnation(2), beat()))]
            );
        }
        let effects = run(&mut fleet, at(1000), Event::Tick);
        let down = Effect::Member(Member::Down(incarnation(1), Cause::LeaseExpired));
        assert!(effects.contains(&down), "{effects:?}");
        let late = run(&mut fleet, at(1001), Event::Said(LinkId(1), beat()));
        assert!(matches!(
            &late[0],
            Effect::Send(LinkId(1), CoordinatorSays::Fence { .. })
        ));
        assert_eq!(late[1], Effect::Close(LinkId(1)));
    }

    #[test]
    fn whoever_is_stuck_is_fenced_with_the_cause_and_joins_anew() {
        let mut fleet = Fleet::new(9, LEASE);
        join(&mut fleet, at(0), 1);
        let fence = || Event::Fence(incarnation(1), "it is stuck".into());
        let cause = "it is stuck".into();
        assert_eq!(
            run(&mut fleet, at(1), fence()),
            vec![
                Effect::Send(LinkId(1), CoordinatorSays::Fence { cause }),
                Effect::Close(LinkId(1)),
                Effect::Member(Member::Down(incarnation(1), Cause::Fenced))
            ]
        );
        assert_eq!(
            run(&mut fleet, at(1), fence()),
            vec![],
            "it is gone already"
        );
        assert!(join(&mut fleet, at(2), 2).contains(&Effect::Welcome(LinkId(2), incarnation(2))));
    }

    #[test]
    fn of_two_links_of_one_process_the_newer_one_wins_and_the_other_is_fenced() {
        let mut fleet = Fleet::new(9, LEASE);
        join(&mut fleet, at(0), 1);
        let again = |link| Event::Joined {
            link: LinkId(link),
            name: "w1".into(),
            role: Role::Worker,
            before: Some(incarnation(1)),
        };
        let effects = run(&mut fleet, at(1), again(2));
        let down = Effect::Member(Member::Down(incarnation(1), Cause::Replaced));
        assert!(effects.contains(&Effect::Close(LinkId(1))) && effects.contains(&down));
        assert!(effects.contains(&Effect::Welcome(LinkId(2), incarnation(2))));
        // Another copy of the process says the same: that life is nobody's any more.
        let effects = run(&mut fleet, at(2), again(3));
        assert!(effects.contains(&Effect::Welcome(LinkId(3), incarnation(3))));
        assert_eq!(fleet.len(), 2);
        let late = run(&mut fleet, at(3), Event::Said(LinkId(1), beat()));
        assert!(matches!(
            &late[0],
            Effect::Send(LinkId(1), CoordinatorSays::Fence { .. })
        ));
    }

    #[test]
    fn whoever_is_lost_again_is_held_back_and_whoever_leaves_in_peace_is_not() {
        let mut fleet = Fleet::new(9, LEASE);
        let join_as = |fleet: &mut Fleet, millis, link| {
            let joined = Event::Joined {
                link: LinkId(link),
                name: "a:1".into(),
                role: Role::Worker,
                before: None,
            };
            run(fleet, at(millis), joined)
        };
        let held_back = |effects: &[Effect]| {
            let until = |effect: &Effect| match effect {
                Effect::Member(Member::HeldBack(_, until)) => Some(*until),
                _ => None,
            };
            effects.iter().find_map(until)
        };
        join_as(&mut fleet, 0, 1);
        run(&mut fleet, at(1), Event::LinkDown(LinkId(1)));
        assert_eq!(
            held_back(&join_as(&mut fleet, 1, 2)),
            None,
            "once is nothing"
        );
        run(&mut fleet, at(2), Event::Said(LinkId(2), WorkerSays::Leave));
        assert_eq!(
            held_back(&join_as(&mut fleet, 2, 3)),
            None,
            "it left in peace"
        );
        run(&mut fleet, at(3), Event::LinkDown(LinkId(3)));
        assert_eq!(held_back(&join_as(&mut fleet, 3, 4)), Some(at(1003)));
    }

    #[test]
    fn the_coordinators_own_stall_expires_nobody() {
        let mut fleet = Fleet::new(9, LEASE);
        join(&mut fleet, at(0), 1);
        assert_eq!(run(&mut fleet, at(5000), Event::Tick), vec![]);
        assert_eq!(fleet.len(), 1);
        for millis in (5250..6000).step_by(250) {
            assert_eq!(run(&mut fleet, at(millis), Event::Tick), vec![]);
        }
        run(&mut fleet, at(6000), Event::Tick);
        assert!(fleet.is_empty());
    }
}
