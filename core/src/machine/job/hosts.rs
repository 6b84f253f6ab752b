//! The hosts of a job: who is there, what each has, and what they are told.
//!
//! The Fleet says who lives. A host that an earlier life of the coordinator knew, and that the
//! durable views name, counts as one that may come back for a lease (PROTOCOL 5).

use super::{Effect, Job, Settings, SliceState, branch, reshard};
use crate::fact::Fact;
use crate::id::{Generation, Incarnation, SliceId, Step, Timeline, View};
use crate::machine::fleet::{Cause, HostNews};
use crate::message::{Holding, HostSays, HostTold, ShardReport, SliceView};
use crate::sorted::{SortedMap, SortedSet};
use crate::time::Time;
use crate::tree::PartitionSet;

/// One host.
#[derive(Clone, Debug, Default)]
pub(super) struct Host {
    pub(super) name: String,
    /// Where it listens, once it said that it is ready.
    pub(super) address: Option<String>,
    pub(super) linked: bool,
    pub(super) draining: bool,
    /// Until when it may come back, if it was known to an earlier life of the coordinator only.
    pub(super) returning: Option<Time>,
    /// It could not serve a slice: it is given no other before this time.
    pub(super) unfit: Option<Time>,
    /// It was lost again and again: it is given no slice before this time.
    pub(super) held_back: Option<Time>,
    /// Whether people were told that it joined.
    told: bool,
}

/// Whether a host can be counted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// It is linked and ready.
    Here,
    /// It may come back with what it has.
    Away,
    /// It will not: its lease has ended.
    Gone,
}

/// What a job knows of hosts beside the durable branch and views.
#[derive(Clone, Debug)]
pub(super) struct Hosting {
    pub(super) hosts: SortedMap<Incarnation, Host>,
    /// What is being written down.
    pub(super) keeping: Option<branch::Keeping>,
    /// The version that is being committed.
    pub(super) committing: Option<Step>,
    /// Nothing is written before: the last try failed for the reason.
    pub(super) trouble: Option<(Time, String)>,
    /// Backups that are in sync, as the primary said under that view.
    pub(super) synced: SortedMap<SliceId, View>,
    /// Slices whose new primary has not reported yet.
    pub(super) fresh: SortedSet<SliceId>,
    /// Slices of which this life of the coordinator knows nothing yet.
    pub(super) unheard: SortedSet<SliceId>,
    /// Primaries that wait for their backup: at which step, and since when.
    pub(super) backlogs: SortedMap<SliceId, (Step, Time)>,
    /// The store has every record of the branch before this step.
    pub(super) taken: Step,
    /// The ledger lost acknowledged records of steps before this one, which nobody has any more.
    pub(super) gap: Option<Step>,
    /// A replica that could not be made.
    pub(super) failed: Option<(SliceId, Incarnation, String)>,
    /// The coordinator itself stood still: nobody is promoted or rolled back before (PROTOCOL 5).
    pub(super) hold: Option<Time>,
    /// Until when more hosts are waited for before slices are placed.
    pub(super) patience: Option<Time>,
    pub(super) reshard: Option<reshard::Reshard>,
    pub(super) last_view: View,
    pub(super) last_timeline: Timeline,
    /// Of the newest `Serve`.
    pub(super) served: Generation,
    began: bool,
}

impl Hosting {
    pub(super) fn new(settings: &Settings) -> Self {
        let reign = settings.reign;
        let named = settings.views.iter().flat_map(replicas);
        let known = named.map(|host| (host, Host::default())).collect();
        let hosted = settings.hosts.is_some();
        let unheard = settings.views.iter().filter(|_| hosted).map(|v| v.slice);
        Self {
            hosts: known,
            keeping: None,
            committing: None,
            trouble: None,
            synced: SortedMap::new(),
            fresh: SortedSet::new(),
            unheard: unheard.collect(),
            backlogs: SortedMap::new(),
            taken: settings.recorded,
            gap: None,
            failed: None,
            hold: None,
            patience: None,
            reshard: None,
            last_view: View { reign, number: 0 },
            last_timeline: settings.branch.timeline,
            // The job's own before its first change: what follows has a higher one.
            served: Generation { reign, number: 0 },
            began: false,
        }
    }
}

/// Hosts that a view names.
pub(super) fn replicas(view: &SliceView) -> impl Iterator<Item = Incarnation> + use<> {
    let backup = view.backup.as_ref().map(|backup| backup.peer.incarnation);
    view.primary.into_iter().chain(backup)
}

impl Job {
    /// The first event: from now on whoever held slices before has a lease to come back.
    pub(super) fn await_hosts(&mut self, now: Time) {
        if std::mem::replace(&mut self.hosting.began, true) || self.hosting.hosts.is_empty() {
            return;
        }
        let until = now + self.rules.lease;
        for host in self.hosting.hosts.values_mut() {
            host.returning = Some(until);
        }
    }

    pub(super) fn host(&mut self, now: Time, news: HostNews, effects: &mut Vec<Effect>) {
        match news {
            HostNews::Up { incarnation, name } => {
                let host = self.hosting.hosts.entry(incarnation).or_default();
                (host.name, host.linked) = (name, true);
                if self.is_told() {
                    effects.push(Effect::Host(incarnation, HostTold::Finished));
                }
            }
            HostNews::Said(incarnation, says) => self.host_said(now, incarnation, says, effects),
            HostNews::Unlinked(incarnation) => {
                if let Some(host) = self.hosting.hosts.get_mut(&incarnation) {
                    (host.linked, host.address) = (false, None);
                }
            }
            HostNews::HeldBack(incarnation, until) => {
                if let Some(host) = self.hosting.hosts.get_mut(&incarnation) {
                    host.held_back = Some(until);
                }
            }
            HostNews::Down(incarnation, cause) => self.host_down(incarnation, cause, effects),
            HostNews::Stalled(until) => {
                self.hosting.hold = self.hosting.hold.max(Some(until));
                for host in self.hosting.hosts.values_mut() {
                    host.returning = host.returning.map(|at| at.max(until));
                }
            }
        }
    }

    fn host_said(
        &mut self,
        now: Time,
        incarnation: Incarnation,
        says: HostSays,
        effects: &mut Vec<Effect>,
    ) {
        let lease = self.rules.lease;
        let Some(host) = self.hosting.hosts.get_mut(&incarnation) else {
            // It was let go and did not hear it.
            return effects.push(Effect::Host(incarnation, HostTold::Release));
        };
        match says {
            HostSays::Ready { address, holdings } => {
                (host.address, host.returning) = (Some(address), None);
                if !std::mem::replace(&mut host.told, true) {
                    let name = host.name.clone();
                    let host = incarnation;
                    effects.push(Effect::Tell(Fact::HostJoined { host, name }));
                    self.tell_host_held_back(incarnation, effects);
                }
                self.hear_holdings(now, incarnation, &holdings, effects);
                self.serve(incarnation, effects);
            }
            HostSays::Heartbeat {
                generation,
                holdings,
            } => {
                self.hear_holdings(now, incarnation, &holdings, effects);
                if generation != Some(self.hosting.served) {
                    self.serve(incarnation, effects);
                }
            }
            HostSays::Report(report) => self.host_report(now, incarnation, report, effects),
            HostSays::InSync { slice, view } => {
                let current = self.views.iter().find(|known| known.slice == slice);
                if current.is_some_and(|v| v.view == view && v.primary == Some(incarnation)) {
                    self.hosting.synced.insert(slice, view);
                }
            }
            HostSays::Failed {
                slice,
                timeline,
                cause,
            } => {
                if timeline == self.branch.timeline {
                    host.unfit = Some(now + lease.times(10));
                    self.hosting.failed = Some((slice, incarnation, cause));
                }
            }
            HostSays::Drain => host.draining = true,
            HostSays::Leave => unreachable!("the fleet turns it into `Down`"),
        }
    }

    /// Reports count only of whoever the durable view names: what another has covered says nothing
    /// of what the primary has.
    fn host_report(
        &mut self,
        now: Time,
        from: Incarnation,
        report: ShardReport,
        effects: &mut Vec<Effect>,
    ) {
        let slice = match &report {
            ShardReport::Progress { slice, .. }
            | ShardReport::Halted { slice, .. }
            | ShardReport::Differs { slice, .. } => *slice,
            ShardReport::Committed(record) => record.slice,
        };
        if !self.is_primary(from, slice) {
            return;
        }
        let current = match &report {
            ShardReport::Progress {
                timeline,
                step,
                kept,
                ..
            } => {
                let current = *timeline == self.branch.timeline;
                if current && *kept > self.recorded {
                    self.hosting.gap = self.hosting.gap.max(Some(*kept));
                }
                Some(*step).filter(|_| current)
            }
            ShardReport::Committed(_)
            | ShardReport::Halted { .. }
            | ShardReport::Differs { .. } => None,
        };
        self.report(now, report, effects);
        if let Some(step) = current {
            self.hear_backlog(now, slice, step);
            self.first_heard(slice, step, effects);
        }
    }

    pub(super) fn is_primary(&self, host: Incarnation, slice: SliceId) -> bool {
        let view = self.views.iter().find(|view| view.slice == slice);
        view.is_some_and(|view| view.primary == Some(host))
    }

    /// What a host has tells a new life of the coordinator how far its slices are. What they cover
    /// and keep to be scored comes with their own reports.
    fn hear_holdings(
        &mut self,
        now: Time,
        from: Incarnation,
        holdings: &[Holding],
        effects: &mut Vec<Effect>,
    ) {
        for holding in holdings {
            let Holding { slice, step, .. } = *holding;
            let unheard = self.hosting.unheard.contains(&slice);
            let current = unheard && holding.branch == self.branch && self.is_primary(from, slice);
            let Some(known) = self.slices.get(&slice).filter(|_| current) else {
                continue;
            };
            let state = SliceState {
                step,
                covered: PartitionSet::default(),
                ..known.clone()
            };
            self.progress(slice, state, effects);
            self.hear_backlog(now, slice, step);
            self.first_heard(slice, step, effects);
        }
    }

    fn host_down(&mut self, incarnation: Incarnation, cause: Cause, effects: &mut Vec<Effect>) {
        let Some(host) = self.hosting.hosts.remove(&incarnation) else {
            return;
        };
        let (host, told) = (incarnation, host.told);
        let cause = if self.is_told() { Cause::Left } else { cause };
        let fact = match cause {
            Cause::Left => Fact::HostLeft { host },
            Cause::LinkReset | Cause::LeaseExpired | Cause::Fenced | Cause::Replaced => {
                let cause = cause.word().into();
                Fact::HostLost { host, cause }
            }
        };
        effects.extend(Some(Effect::Tell(fact)).filter(|_| told));
    }

    /// Gives up hosts of an earlier life that did not come back.
    pub(super) fn expire_returning(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let late = |host: &Host| !host.linked && host.returning.is_some_and(|until| until <= now);
        let hosts = self.hosting.hosts.iter();
        let gone: Vec<Incarnation> = hosts.filter(|(_, h)| late(h)).map(|(i, _)| *i).collect();
        for host in gone {
            self.hosting.hosts.remove(&host);
            let cause = "did not come back".into();
            effects.push(Effect::Tell(Fact::HostLost { host, cause }));
        }
    }

    /// Whether it is too early to conclude anything from silence (PROTOCOL 5): after a start until
    /// all are back or a lease has passed, and after a stall.
    pub(super) fn holds_back(&self, now: Time) -> bool {
        let returning = |host: &Host| host.returning.is_some_and(|until| now < until);
        self.hosting.hold.is_some_and(|until| now < until)
            || self.hosting.hosts.values().any(returning)
    }

    /// Whether slices are not served yet, or nothing is known of how far they are.
    pub(super) fn is_unserved(&self) -> bool {
        self.views.is_empty() || !self.hosting.unheard.is_empty()
    }

    pub(super) fn presence(&self, host: Incarnation) -> Presence {
        match self.hosting.hosts.get(&host) {
            None => Presence::Gone,
            Some(host) if host.linked && host.address.is_some() => Presence::Here,
            Some(_) => Presence::Away,
        }
    }

    /// Tells a host who serves what, once somebody does.
    pub(super) fn serve(&self, host: Incarnation, effects: &mut Vec<Effect>) {
        if self.views.is_empty() || self.presence(host) != Presence::Here {
            return;
        }
        let told = HostTold::Serve {
            generation: self.hosting.served,
            branch: self.branch,
            views: self.views.clone(),
        };
        effects.push(Effect::Host(host, told));
    }

    /// Has whoever leaves hand over what it has; says whether it is a host.
    pub(super) fn drain_host(&mut self, host: Incarnation) -> bool {
        let host = self.hosting.hosts.get_mut(&host);
        host.map(|host| host.draining = true).is_some()
    }

    /// When something is due that no other event brings.
    pub(super) fn hosts_deadline(&self) -> Option<Time> {
        let Hosting {
            hosts,
            trouble,
            hold,
            patience,
            ..
        } = &self.hosting;
        let absent = hosts.values().filter(|host| !host.linked);
        let returning = absent.filter_map(|host| host.returning);
        let placing = patience.filter(|_| self.views.is_empty());
        let trouble = trouble.as_ref().map(|(until, _)| *until);
        let held_back = hosts.values().filter_map(|host| host.held_back);
        let due = returning.chain(placing).chain(trouble).chain(*hold);
        let due = due.chain(held_back);
        due.filter(|at| self.ending.is_none() && *at > self.now)
            .min()
    }
}
