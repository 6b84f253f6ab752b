//! **Host**: which replicas a shard process has, and what they are to their slices.
//!
//! It decides nothing: the coordinator says who serves what (PROTOCOL 3), and a host begins what is
//! new to it, drops what is another's and tells its replicas of changed views. What it has survives
//! the coordinator: it is told to the next one.

mod serve;
#[cfg(test)]
mod tests;

use crate::id::{Generation, Incarnation, SliceId, Step, Timeline, View};
use crate::machine::shard::{Assigned, Follower, Sync};
use crate::message::{Branch, Duty, Holding, HostSays, HostTold, Peer, ShardOrder};
use crate::sorted::SortedMap;
use crate::time::{Span, Time};

/// What happens to a host.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The control link is open and the coordinator gave this identity; the same as before where
    /// it knew this process.
    Welcomed(Incarnation),
    /// The control link is gone; the shell redials.
    Orphaned,
    /// The coordinator speaks.
    Told(HostTold),
    /// The store sent the slice as it was at the base of the branch.
    Restored {
        /// The slice.
        slice: SliceId,
        /// The branch.
        branch: Branch,
    },
    /// It did not.
    RestoreFailed {
        /// The slice.
        slice: SliceId,
        /// The branch.
        branch: Branch,
        /// What was wrong.
        cause: String,
    },
    /// A replica has a newer version (`Shard::holds`).
    Has {
        /// The slice.
        slice: SliceId,
        /// The version.
        step: Step,
    },
    /// The process is asked to leave in peace (SIGTERM).
    Drain,
    /// The deadline passed.
    Tick,
}

/// Where a replica is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this process.
    Here,
    /// At a host, or (without an incarnation) in the coordinator's process.
    At {
        /// The host's life.
        incarnation: Option<Incarnation>,
        /// Where it listens, as `host:port`.
        address: String,
    },
}

/// Whom the replicas of this host speak to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routes {
    /// The primary of every slice: votes go there.
    pub primaries: SortedMap<SliceId, Place>,
    /// The other replica of slices that are held here.
    pub mirrors: SortedMap<SliceId, Peer>,
}

/// What the shell does for a host.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Tell the coordinator; lost while there is no control link.
    Say(HostSays),
    /// Get the slice's tensors from the store as they were at the branch's base; answered by
    /// `Restored` or `RestoreFailed`. An earlier one for the slice is given up.
    Restore {
        /// The slice.
        slice: SliceId,
        /// The branch.
        branch: Branch,
    },
    /// Make a replica (`Shard::begin`): a primary of what was restored, or a backup with nothing.
    Begin {
        /// The slice.
        slice: SliceId,
        /// The branch; the slice is at its base.
        branch: Branch,
        /// The view.
        view: View,
        /// What it is.
        duty: Assigned,
    },
    /// Tell the replica of a slice that its view changed.
    View {
        /// The slice.
        slice: SliceId,
        /// The view.
        view: View,
        /// What it is.
        duty: Assigned,
    },
    /// End the replica of a slice, or a restore for it, with its links.
    Drop(SliceId),
    /// Tell the replica of a slice what the coordinator orders.
    Order {
        /// The slice.
        slice: SliceId,
        /// The order.
        order: ShardOrder,
    },
    /// Tell the replica of a slice that the way to the coordinator is new.
    CoordinatorUp(SliceId),
    /// Whom replicas speak to from now on; replaces what was before.
    Routes(Routes),
    /// Close the control link and join as a new process.
    Rejoin {
        /// Why this life no longer counts.
        cause: String,
    },
    /// The process is done: exit 0.
    Exit,
}

/// One replica in this process.
#[derive(Clone, Debug)]
struct Replica {
    branch: Branch,
    view: View,
    duty: Assigned,
    /// Whom a backup follows.
    primary: Option<Incarnation>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its tensors are on their way from the store.
    Restoring,
    /// It has a machine; the newest version, if it has one.
    Begun(Option<Step>),
}

/// The machine of one shard process.
pub struct Host {
    lease: Span,
    address: String,
    incarnation: Option<Incarnation>,
    /// When to say that it lives; `None` without a control link.
    beat_at: Option<Time>,
    generation: Option<Generation>,
    replicas: SortedMap<SliceId, Replica>,
    /// Where a slice was begun: state is never made again within a timeline, as what was published
    /// would be taken back.
    begun: SortedMap<SliceId, Timeline>,
    /// What it cannot serve of what it was told to, and why: repeated until it is told otherwise.
    failed: SortedMap<SliceId, (Timeline, String)>,
    routes: Routes,
    draining: bool,
    over: bool,
}

impl Host {
    /// A host that listens at `address` (`host:port`) and has nothing yet.
    #[must_use]
    pub fn new(lease: Span, address: String) -> Self {
        Self {
            lease,
            address,
            incarnation: None,
            beat_at: None,
            generation: None,
            replicas: SortedMap::new(),
            begun: SortedMap::new(),
            failed: SortedMap::new(),
            routes: Routes::default(),
            draining: false,
            over: false,
        }
    }

    /// Takes one event.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        if self.over {
            return;
        }
        match event {
            Event::Welcomed(incarnation) => self.welcomed(now, incarnation, effects),
            Event::Orphaned => self.beat_at = None,
            Event::Told(told) => self.told(told, effects),
            Event::Restored { slice, branch } => self.restored(slice, branch, effects),
            Event::RestoreFailed {
                slice,
                branch,
                cause,
            } => self.restore_failed(slice, branch, cause, effects),
            Event::Has { slice, step } => {
                if let Some(replica) = self.replicas.get_mut(&slice)
                    && let Stage::Begun(has) = &mut replica.stage
                {
                    *has = (*has).max(Some(step));
                }
            }
            Event::Drain => {
                self.draining = true;
                effects.push(Effect::Say(HostSays::Drain));
            }
            Event::Tick => self.tick(now, effects),
        }
    }

    /// When `Tick` is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.beat_at
    }

    /// What it has; a backup that was not copied yet has nothing.
    #[must_use]
    pub fn holdings(&self) -> Vec<Holding> {
        let holding = |(slice, replica): (&SliceId, &Replica)| {
            let Stage::Begun(Some(step)) = replica.stage else {
                return None;
            };
            Some(Holding {
                slice: *slice,
                duty: kind(replica.duty),
                branch: replica.branch,
                view: replica.view,
                step,
            })
        };
        self.replicas.iter().filter_map(holding).collect()
    }

    fn welcomed(&mut self, now: Time, incarnation: Incarnation, effects: &mut Vec<Effect>) {
        if self.incarnation != Some(incarnation) {
            self.generation = None;
        }
        self.incarnation = Some(incarnation);
        self.beat_at = Some(now + self.lease.part(4));
        effects.push(Effect::Say(HostSays::Ready {
            address: self.address.clone(),
            holdings: self.holdings(),
        }));
        if self.draining {
            effects.push(Effect::Say(HostSays::Drain));
        }
        self.repeat_failed(effects);
        let begun = self.replicas.iter();
        let begun = begun.filter(|(_, replica)| replica.stage != Stage::Restoring);
        effects.extend(begun.map(|(slice, _)| Effect::CoordinatorUp(*slice)));
    }

    fn told(&mut self, told: HostTold, effects: &mut Vec<Effect>) {
        match told {
            HostTold::Serve {
                generation,
                branch,
                views,
            } => {
                if Some(generation) > self.generation {
                    self.generation = Some(generation);
                    self.serve(branch, &views, effects);
                }
            }
            HostTold::Order {
                slice,
                timeline,
                order,
            } => {
                let replica = self.replicas.get(&slice);
                let meant = replica.is_some_and(|replica| {
                    replica.branch.timeline == timeline && replica.stage != Stage::Restoring
                });
                if meant {
                    effects.push(Effect::Order { slice, order });
                }
            }
            HostTold::Fence { cause } => self.fenced(cause, effects),
            HostTold::Release | HostTold::Finished => {
                self.over = true;
                self.beat_at = None;
                effects.push(Effect::Exit);
            }
        }
    }

    fn fenced(&mut self, cause: String, effects: &mut Vec<Effect>) {
        for slice in std::mem::take(&mut self.replicas).into_keys() {
            effects.push(Effect::Drop(slice));
        }
        (self.incarnation, self.generation, self.beat_at) = (None, None, None);
        self.begun.clear();
        self.failed.clear();
        self.routes = Routes::default();
        effects.push(Effect::Routes(Routes::default()));
        effects.push(Effect::Rejoin { cause });
    }

    fn tick(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.beat_at.is_none_or(|at| now < at) {
            return;
        }
        self.beat_at = Some(now + self.lease.part(4));
        effects.push(Effect::Say(HostSays::Heartbeat {
            generation: self.generation,
            holdings: self.holdings(),
        }));
        self.repeat_failed(effects);
    }
}

fn kind(duty: Assigned) -> Duty {
    match duty {
        Assigned::Primary { .. } => Duty::Primary,
        Assigned::Backup => Duty::Backup,
    }
}
