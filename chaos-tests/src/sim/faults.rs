//! What goes wrong, when its moment has come.

use resilin_core::machine::{job, worker};
use resilin_core::time::Span;
use resilin_core::{LinkId, Step};

use super::events::{End, Happening, Local};
use super::{Checked, Sim};
use crate::invariants::Fact;
use crate::schedule::{Fault, When};

impl Sim<'_> {
    /// Faults that waited for this version.
    pub(super) fn reached(&mut self, low: Step) {
        let schedule = self.schedule;
        let due = |index: &usize| match schedule.faults[*index].0 {
            When::Reached(step) => step <= low,
            When::At(_) => true,
        };
        let (now, rest): (Vec<usize>, Vec<usize>) = self.waiting.iter().partition(|i| due(i));
        self.waiting = rest;
        for index in now {
            self.queue.push(self.now, Happening::Fault(index));
        }
    }

    pub(super) fn fault(&mut self, index: usize) -> Checked {
        self.tell_of("fault", &self.schedule.faults[index]);
        match self.schedule.faults[index].1.clone() {
            Fault::Kill(pick) => self.kill(pick, Death::Reset),
            Fault::Vanish(pick) => self.kill(pick, Death::Silent),
            Fault::Join(slowness) => {
                self.stats.joins += 1;
                self.start_worker(slowness);
            }
            Fault::Terminate(pick) => {
                if let Some(id) = self.pick_host(pick) {
                    self.hosts.get_mut(&id).expect("just picked").leaving = true;
                    return self.worker(id, worker::Event::Terminate);
                }
            }
            Fault::Drain(pick) => {
                if let Some(id) = self.pick_host(pick) {
                    let host = self.hosts.get_mut(&id).expect("just picked");
                    host.leaving = true;
                    let member = host.incarnation;
                    self.soon(1, 2, Local::Command(job::Command::Drain(member)));
                }
            }
            Fault::KillCoordinator(down) => self.kill_coordinator(down),
            Fault::ResetLink(pick) => {
                let links: Vec<LinkId> = self.links.keys().copied().collect();
                if let Some(link) = choose(&links, pick) {
                    self.reset(link);
                }
            }
            Fault::Weather(lasts, weather) => {
                (self.weather, self.weather_until) = (weather, self.now + lasts);
            }
            Fault::Slow(pick, slowness) => {
                if let Some(id) = self.pick_host(pick) {
                    self.hosts.get_mut(&id).expect("just picked").slowness = slowness;
                }
            }
            Fault::Freeze(pick, lasts) => {
                let until = self.now + lasts;
                if let Some(id) = self.pick_host(pick) {
                    self.hosts.get_mut(&id).expect("just picked").frozen = until;
                }
            }
            Fault::FreezeCoordinator(lasts) => self.coordinator_frozen = self.now + lasts,
            Fault::DamageNewest => self.store.damage_newest(),
            Fault::StoreFails(lasts) => self.store_fails = self.now + lasts,
            Fault::Scale(wanted) => {
                // Nobody is known to stay.
                self.hosts.values_mut().for_each(|host| host.leaving = true);
                self.soon(1, 2, Local::Command(job::Command::Scale(wanted)));
            }
            Fault::Stop => self.soon(1, 2, Local::Command(job::Command::Stop)),
        }
        Ok(())
    }

    fn pick_host(&self, pick: u32) -> Option<u32> {
        let hosts: Vec<u32> = self.hosts.keys().copied().collect();
        choose(&hosts, pick)
    }

    fn kill(&mut self, pick: u32, death: Death) {
        let Some(id) = self.pick_host(pick) else {
            return;
        };
        self.stats.kills += 1;
        let host = self.hosts.remove(&id).expect("just picked");
        for link in host.links() {
            match death {
                Death::Reset => self.reset(link),
                Death::Silent => self.vanish(link),
            }
        }
    }

    /// The process dies: what was not durable is gone, and every worker learns it in its own time.
    fn kill_coordinator(&mut self, down: Span) {
        if self.coordinator.take().is_none() {
            return;
        }
        self.stats.crashes += 1;
        self.life += 1;
        let unsynced = u32::try_from(self.store.unsynced()).expect("short runs");
        let kept = self.stream.below(unsynced + 1);
        self.store.crash(kept as usize);
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        for link in links {
            self.reset(link);
            self.forget_end(link, End::Coordinator);
        }
        self.queue.push(self.now + down, Happening::Restart);
    }

    /// Faults are over: what stands still goes on, and a worker that stays is there.
    pub(super) fn calm(&mut self) -> Checked {
        self.weather_until = self.now;
        self.store_fails = self.now;
        if self.schedule.quiet_at > Span::ZERO && self.hosts.values().all(|host| host.leaving) {
            self.start_worker(1);
        }
        self.quiet = true;
        self.checker.see(&Fact::Quiet(self.now))
    }
}

/// How a process dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// The kernel resets its links.
    Reset,
    /// Nobody resets anything.
    Silent,
}

fn choose<T: Copy>(all: &[T], pick: u32) -> Option<T> {
    let count = u32::try_from(all.len()).expect("small clusters");
    let index = pick.checked_rem(count)?;
    all.get(index as usize).copied()
}
