//! The simulator: one thread, a virtual clock, a queue ordered by time and then by arrival. The
//! machines and the arithmetic are the real ones; network, store and processes are models.

mod bugs;
mod clock;
mod codec;
mod coordinator;
mod drive;
mod events;
mod faults;
mod host;
mod keeping;
mod kept;
mod lineage;
mod members;
mod network;
mod plant;
mod processes;
mod saving;
mod shards;
mod store;
mod sums;
mod workers;

use std::collections::VecDeque;
use std::fmt::{Debug, Display};

use resilin_core::machine::Rules;
use resilin_core::machine::job::{Outcome, Wishes};
use resilin_core::machine::turns::Turns;
use resilin_core::random::{Key, Purpose, Stream};
use resilin_core::sorted::SortedMap;
use resilin_core::time::{Span, Time};
use resilin_core::{LinkId, Timeline};

use crate::invariants::{Checker, Fact, Violation};
use crate::oracle::Oracle;
use crate::schedule::{Schedule, Weather, When};

pub use kept::Kept;
pub use plant::Plant;

use coordinator::Coordinator;
use drive::Drive;
use events::{Happening, Mailbox, Party, Queue};
use faults::Death;
use host::Host;
use members::Inside;
use network::Link;
use processes::Process;

/// Stops a run that would go on for ever without virtual time passing.
const MOST_EVENTS: u64 = 3_000_000;

type Checked = Result<(), Violation>;

/// What happened in a run, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Events.
    pub events: u64,
    /// Times that the run ended for want of its last checkpoint, and was started again.
    pub save_failed: u64,
    /// Workers killed or vanished.
    pub kills: u64,
    /// Workers started.
    pub joins: u64,
    /// Coordinators killed.
    pub crashes: u64,
    /// Starts of a coordinator that the state refused.
    pub refused: u64,
    /// Messages lost to the weather.
    pub lost: u64,
    /// Frames damaged on their way.
    pub corrupt: u64,
    /// Gradients in which a bit flipped.
    pub flips: u64,
    /// Contributions of which two copies differ.
    pub differing: u64,
    /// Members named for wrong bits.
    pub named: u64,
    /// Members that left in peace.
    pub drained: u64,
    /// Versions announced as durable.
    pub announced: u64,
    /// Shard processes killed or vanished.
    pub shards_killed: u64,
    /// Views told.
    pub views: u64,
    /// Branches begun by coordinators that live.
    pub branches: u64,
    /// Of these, because something was lost.
    pub rollbacks: u64,
    /// Of these, for another number of slices.
    pub reshards: u64,
    /// Versions scored on the test rows.
    pub scored: u64,
    /// Versions that were to be scored and are not.
    pub unscored: u64,
    /// Steps recorded, each time that they were.
    pub recorded: u64,
    /// What coordinators took up that an earlier one was asked for.
    pub wishes: Vec<Wishes>,
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// The durable state that is left.
    pub store: Kept,
    /// What happened.
    pub stats: Stats,
    /// Virtual time that passed.
    pub took: Span,
}

/// A cluster, and the job that it runs.
pub struct Sim<'a> {
    oracle: &'a Oracle,
    schedule: &'a Schedule,
    plant: Option<Plant>,
    /// Reign and timeline of the first life, for plants that use them again.
    first_numbers: Option<(u64, Timeline)>,
    trace: bool,
    rules: Rules,
    stream: Stream,
    now: Time,
    queue: Queue,
    links: SortedMap<LinkId, Link>,
    next_link: u64,
    hosts: SortedMap<u32, Host>,
    next_host: u32,
    /// Shard processes.
    processes: SortedMap<u32, Process>,
    next_process: u32,
    next_replica: u64,
    /// Until when two processes do not reach each other.
    apart: SortedMap<(Party, Party), Time>,
    coordinator: Option<Coordinator>,
    mailbox: VecDeque<Inside>,
    mailboxes: SortedMap<Mailbox, Time>,
    coordinator_frozen: Time,
    life: u32,
    leg: usize,
    drive: Drive,
    /// How long the host is down after a torn write.
    power_back: Span,
    /// Seconds that the calendar is behind; `None` once reigns depend on it.
    calendar_back: Option<u64>,
    weather: Weather,
    weather_until: Time,
    waiting: Vec<usize>,
    quiet: bool,
    checker: Checker<'a>,
    /// When machines that know of everybody are checked.
    checks: Turns,
    stats: Stats,
    outcome: Option<Outcome>,
}

impl<'a> Sim<'a> {
    /// A cluster that runs the oracle's job.
    #[must_use]
    pub fn new(oracle: &'a Oracle, schedule: &'a Schedule) -> Self {
        let seed = schedule.seed;
        let rules = oracle.task.rules(schedule.legs[0].shards);
        Self {
            oracle,
            schedule,
            plant: None,
            first_numbers: None,
            trace: false,
            rules,
            stream: Key {
                clock: 1,
                ..Key::new(seed, Purpose::User)
            }
            .stream(),
            now: Time(0),
            queue: Queue::default(),
            links: SortedMap::new(),
            next_link: 0,
            hosts: SortedMap::new(),
            next_host: 0,
            processes: SortedMap::new(),
            next_process: 0,
            next_replica: 0,
            apart: SortedMap::new(),
            coordinator: None,
            mailbox: VecDeque::new(),
            mailboxes: SortedMap::new(),
            coordinator_frozen: Time(0),
            life: 0,
            leg: 0,
            drive: Drive::new(seed),
            power_back: Span::ZERO,
            calendar_back: Some(0),
            weather: Weather::default(),
            weather_until: Time(0),
            waiting: Vec::new(),
            quiet: false,
            checker: Checker::new(oracle),
            checks: Turns::default(),
            stats: Stats::default(),
            outcome: None,
        }
    }

    /// The same with a bug in it, to see whether it is found.
    #[must_use]
    pub fn planted(mut self, plant: Plant) -> Self {
        self.plant = Some(plant);
        self
    }

    /// The same with every message and every effect told on standard error.
    #[must_use]
    pub fn traced(mut self) -> Self {
        self.trace = true;
        self
    }

    /// One line of the trace.
    fn tell_of(&self, who: impl Display, what: impl Debug) {
        if self.trace {
            eprintln!("{:9.3} ms {who} {what:?}", self.now.0 as f64 / 1e6);
        }
    }

    /// Runs until the job is over.
    ///
    /// # Errors
    /// The first invariant that is broken.
    pub fn run(mut self) -> Result<Ended, Violation> {
        for (index, (when, fault)) in self.schedule.faults.iter().enumerate() {
            match when {
                When::At(at) => self.queue.push(Time(0) + *at, Happening::Fault(*fault)),
                When::Reached(_) => self.waiting.push(index),
            }
        }
        self.queue
            .push(Time(0) + self.schedule.quiet_at, Happening::Quiet);
        self.begin_leg()?;
        while self.outcome.is_none() {
            let Some((at, happening)) = self.queue.pop() else {
                return Err(self.hang("nothing is left to happen"));
            };
            self.now = at;
            self.stats.events += 1;
            if self.stats.events > MOST_EVENTS {
                return Err(self.hang("too many events"));
            }
            self.checker
                .see(&Fact::Now(at))
                .map_err(|broken| self.hang(&broken.what))?;
            self.happen(happening)?;
        }
        Ok(Ended {
            outcome: self.outcome.expect("the loop ended"),
            store: self.drive.kept(),
            stats: self.stats,
            took: self.now.since(Time(0)),
        })
    }

    /// A run that does not end, with what people need to see why.
    fn hang(&self, what: &str) -> Violation {
        let coordinator = self.coordinator.as_ref().map(|c| c.describe(self.now));
        let hosts: Vec<String> = self.hosts.values().map(Host::describe).collect();
        let processes: Vec<String> = self.processes.values().map(Process::describe).collect();
        Violation {
            id: "L1",
            what: format!(
                "{what}; coordinator {coordinator:?}; workers {}; shard processes {}",
                hosts.join(", "),
                processes.join(", ")
            ),
        }
    }

    fn happen(&mut self, happening: Happening) -> Checked {
        if let Some(until) = self.stands_still(&happening) {
            self.queue.push(until, happening);
            return Ok(());
        }
        match happening {
            Happening::Arrive { link, to, packet } => self.arrive(link, to, packet),
            Happening::LinkLost { link, end } => self.link_lost(link, end),
            Happening::Chore(host, chore) => self.chore(host, chore),
            Happening::Deed(process, deed) => self.deed(process, deed),
            Happening::Local(life, local) => {
                if self.life == life && self.coordinator.is_some() {
                    self.local(local)?;
                    self.settled()?;
                }
                Ok(())
            }
            Happening::Fault(fault) => self.fault(fault),
            Happening::Restart => self.start_coordinator(),
            Happening::PowerCut(down) => {
                self.kill_coordinator(down, Death::PowerCut);
                Ok(())
            }
            Happening::Start => {
                self.join(1);
                Ok(())
            }
            Happening::StartShard => {
                self.start_process();
                Ok(())
            }
            Happening::Quiet => self.calm(),
        }
    }

    /// Until when the process that this is for stands still, if it does.
    fn stands_still(&self, happening: &Happening) -> Option<Time> {
        let party = match happening {
            Happening::Arrive { link, to: end, .. } | Happening::LinkLost { link, end } => {
                self.links.get(link)?.party(*end)
            }
            Happening::Chore(host, _) => Party::Worker(*host),
            Happening::Deed(process, _) => Party::Shard(*process),
            Happening::Local(..) => Party::Coordinator,
            Happening::Fault(_)
            | Happening::Restart
            | Happening::PowerCut(_)
            | Happening::Start
            | Happening::StartShard
            | Happening::Quiet => return None,
        };
        let until = match party {
            Party::Coordinator => Some(self.coordinator_frozen),
            Party::Worker(id) => self.hosts.get(&id).map(|host| host.frozen),
            Party::Shard(id) => self.processes.get(&id).map(|process| process.frozen),
        };
        until.filter(|until| *until > self.now)
    }

    /// A random span in a range of microseconds.
    fn micros(&mut self, from: u32, to: u32) -> Span {
        Span(u64::from(from + self.stream.below(to - from)) * 1000)
    }

    fn odds(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.stream.below(1000) < per_mille
    }
}
