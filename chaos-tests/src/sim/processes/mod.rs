//! Shard processes: what the shell of a host does. Its replicas, its links and its errands to the
//! store are in the files below.

mod errands;
mod links;
mod parcel;
mod peers;
mod replica;
mod work;

use resilin_core::layout::SliceMap;
use resilin_core::machine::host::{Effect, Event, Host, Routes};
use resilin_core::machine::shard;
use resilin_core::message::{Branch, HostSays, SliceSays};
use resilin_core::sorted::SortedMap;
use resilin_core::time::Time;
use resilin_core::{Incarnation, LinkId, SliceId, Step, Timeline};

use super::clock::Clock;
use super::events::{End, Happening, Packet, Party, Role};
use super::{Checked, Sim};
use errands::Errand;
use peers::Target;
use replica::Replica;

pub(super) use parcel::{Parcel, State};

/// One shard process.
pub(super) struct Process {
    pub(super) machine: Host,
    pub(super) clock: Clock,
    pub(super) frozen: Time,
    /// Until when nothing reaches it.
    pub(super) deaf: Time,
    /// Until when nothing comes from it.
    pub(super) mute: Time,
    /// Until when it does not know where the coordinator is.
    pub(super) lost: Time,
    /// Whether it was asked to leave.
    pub(super) leaving: bool,
    pub(super) incarnation: Option<Incarnation>,
    control: Option<LinkId>,
    pub(super) replicas: SortedMap<SliceId, Replica>,
    /// Slices that came from the store and are not begun yet.
    restored: SortedMap<SliceId, (Branch, State)>,
    errands: SortedMap<u32, Errand>,
    next_errand: u32,
    routes: Routes,
    votes: SortedMap<SliceId, Target>,
    armed: Option<Time>,
}

/// What a shard process does by itself.
#[derive(Debug)]
pub(super) enum Deed {
    Wake,
    Redial(Role),
    Errand(u32),
    /// The kernel of a replica answers.
    Answer(SliceId, u64, shard::Event),
    /// A tensor for the other replica is ready to be sent.
    Post(SliceId, u64, Parcel),
    /// One replica speaks to another in the same process.
    Heard(SliceId, SliceSays),
    /// A replica has a newer version.
    Has(SliceId, Timeline, Step),
    /// The grace of a drain is over.
    GraceOver,
}

/// What people call a shard process: each is on a machine of its own.
pub(super) fn name(id: u32) -> String {
    format!("machine{id}:{id}")
}

fn address(id: u32) -> String {
    format!("shard:{id}")
}

/// Who listens at an address.
pub(super) fn at(address: &str) -> Party {
    match address.strip_prefix("shard:") {
        Some(id) => Party::Shard(id.parse().expect("addresses are made above")),
        None => Party::Coordinator,
    }
}

impl Process {
    fn deadline(&self) -> Option<Time> {
        let replicas = self.replicas.values().filter_map(|r| r.machine.deadline());
        self.machine.deadline().into_iter().chain(replicas).min()
    }

    pub(super) fn describe(&self) -> String {
        let replicas = self.replicas.iter().map(|(slice, replica)| {
            format!("{slice}@{:?}", replica.machine.holds().map(|step| step.0))
        });
        let replicas: Vec<String> = replicas.collect();
        format!(
            "{:?} control {:?} replicas [{}] errands {}",
            self.incarnation,
            self.control,
            replicas.join(" "),
            self.errands.len()
        )
    }
}

impl Sim<'_> {
    /// Another shard process.
    pub(super) fn start_process(&mut self) {
        self.next_process += 1;
        let id = self.next_process;
        let process = Process {
            machine: Host::new(self.rules.lease, address(id)),
            clock: Clock::default(),
            frozen: Time(0),
            deaf: Time(0),
            mute: Time(0),
            lost: Time(0),
            leaving: false,
            incarnation: None,
            control: None,
            replicas: SortedMap::new(),
            restored: SortedMap::new(),
            errands: SortedMap::new(),
            next_errand: 0,
            routes: Routes::default(),
            votes: SortedMap::new(),
            armed: None,
        };
        self.processes.insert(id, process);
        self.later(id, Deed::Redial(Role::Control));
    }

    /// The process ends by itself; the kernel closes its links.
    pub(super) fn end_process(&mut self, id: u32) {
        for (link, end) in self.links_of(Party::Shard(id)) {
            self.close(link, end);
        }
        self.processes.remove(&id);
    }

    fn later(&mut self, id: u32, deed: Deed) {
        let at = self.now + self.micros(2_000, 20_000);
        self.queue.push(at, Happening::Deed(id, deed));
    }

    fn soon_at(&mut self, id: u32, deed: Deed) {
        let at = self.now + self.micros(20, 300);
        self.queue.push(at, Happening::Deed(id, deed));
    }

    pub(super) fn process(&mut self, id: u32, event: Event) -> Checked {
        self.tell_of(format_args!("host{id} <-"), &event);
        let Some(process) = self.processes.get_mut(&id) else {
            return Ok(());
        };
        let mut effects = Vec::new();
        let now = process.clock.read(self.now);
        process.machine.step(now, event, &mut effects);
        for effect in effects {
            self.tell_of(format_args!("host{id}    ->"), &effect);
            self.process_effect(id, effect)?;
        }
        self.arm_process(id);
        Ok(())
    }

    fn process_effect(&mut self, id: u32, effect: Effect) -> Checked {
        let Some(process) = self.processes.get_mut(&id) else {
            return Ok(());
        };
        match effect {
            Effect::Say(says) => self.say(id, says),
            Effect::Restore { slice, branch } => self.restore(id, slice, branch),
            Effect::Begin {
                slice,
                branch,
                view,
                duty,
            } => return self.begin_replica(id, slice, branch, view, duty),
            Effect::View { slice, view, duty } => {
                return self.replica(id, slice, shard::Event::View { view, duty });
            }
            Effect::Drop(slice) => self.drop_replica(id, slice),
            Effect::Order { slice, order } => {
                return self.replica(id, slice, shard::Event::Order(order));
            }
            Effect::CoordinatorUp(slice) => {
                return self.replica(id, slice, shard::Event::CoordinatorUp);
            }
            Effect::Routes(routes) => return self.take_routes(id, routes),
            Effect::Rejoin { .. } => {
                process.incarnation = None;
                if let Some(link) = process.control.take() {
                    self.close(link, End::Dialler);
                }
                self.later(id, Deed::Redial(Role::Control));
            }
            Effect::Exit => self.end_process(id),
        }
        Ok(())
    }

    /// Tells the coordinator, if there is a link.
    fn say(&mut self, id: u32, says: HostSays) {
        if let Some(link) = self.processes[&id].control {
            self.send(link, End::Listener, Packet::Parcel(Parcel::Said(says)));
        }
    }

    pub(super) fn arm_process(&mut self, id: u32) {
        let Some(process) = self.processes.get_mut(&id) else {
            return;
        };
        let Some(deadline) = process.deadline() else {
            return;
        };
        let at = process.clock.when(deadline).max(Time(self.now.0 + 1));
        if process.armed.is_none_or(|armed| at < armed) {
            process.armed = Some(at);
            self.queue.push(at, Happening::Deed(id, Deed::Wake));
        }
    }

    pub(super) fn deed(&mut self, id: u32, deed: Deed) -> Checked {
        let Some(process) = self.processes.get_mut(&id) else {
            return Ok(());
        };
        match deed {
            Deed::Wake => {
                process.armed = None;
                self.wake_process(id)
            }
            Deed::Redial(role) => {
                self.redial(id, role);
                Ok(())
            }
            Deed::Errand(number) => {
                self.run_errand(id, number);
                Ok(())
            }
            Deed::Answer(slice, serial, event) => match process.replicas.get(&slice) {
                Some(replica) if replica.serial == serial => self.replica(id, slice, event),
                Some(_) | None => Ok(()),
            },
            Deed::Post(slice, serial, parcel) => {
                self.post_to_mirror(id, slice, serial, parcel);
                Ok(())
            }
            Deed::Heard(slice, says) => self.replica(id, slice, shard::Event::Slice(says)),
            Deed::Has(slice, timeline, step) => {
                let replica = process.replicas.get(&slice);
                match replica.is_some_and(|r| r.branch.timeline == timeline) {
                    true => self.process(id, Event::Has { slice, step }),
                    false => Ok(()),
                }
            }
            Deed::GraceOver => {
                self.say(id, HostSays::Leave);
                self.end_process(id);
                Ok(())
            }
        }
    }

    fn wake_process(&mut self, id: u32) -> Checked {
        let process = &self.processes[&id];
        let now = process.clock.read(self.now);
        let due = |deadline: Option<Time>| deadline.is_some_and(|at| at <= now);
        let slices = process.replicas.iter();
        let slices = slices.filter(|(_, replica)| due(replica.machine.deadline()));
        let slices: Vec<SliceId> = slices.map(|(slice, _)| *slice).collect();
        if due(process.machine.deadline()) {
            self.process(id, Event::Tick)?;
        }
        for slice in slices {
            self.replica(id, slice, shard::Event::Tick)?;
        }
        self.arm_process(id);
        Ok(())
    }

    /// The layout of a branch.
    pub(super) fn layout_of(&self, branch: Branch) -> SliceMap {
        self.oracle.task.slices(branch.shards)
    }
}
