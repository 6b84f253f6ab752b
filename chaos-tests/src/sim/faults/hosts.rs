//! What goes wrong with shard processes.

use resilin_core::machine::job;
use resilin_core::{Incarnation, SliceId, Step};

use super::{Death, choose};
use crate::schedule::{Apart, HostFault};
use crate::sim::events::{End, Happening, Party, Role};
use crate::sim::{Checked, Sim};

impl Sim<'_> {
    pub(super) fn host_fault(&mut self, fault: HostFault) -> Checked {
        let now = self.now;
        match fault {
            HostFault::Kill(pick) => self.kill_process(self.pick_process(pick), Death::Killed),
            HostFault::KillPrimary(slice) => self.kill_process(self.primary(slice), Death::Killed),
            HostFault::KillBackup(slice) => self.kill_process(self.follower(slice), Death::Killed),
            HostFault::Vanish(pick) => self.kill_process(self.pick_process(pick), Death::Vanished),
            HostFault::Restart(pick, after) => {
                self.kill_process(self.pick_process(pick), Death::Killed);
                self.queue.push(now + after, Happening::StartShard);
            }
            HostFault::Join => self.start_process(),
            HostFault::Terminate(pick) => {
                if let Some(id) = self.pick_process(pick) {
                    return self.terminate_process(id);
                }
            }
            HostFault::Drain(pick) => self.drain_process(pick),
            HostFault::Freeze(pick, lasts) => self.freeze(self.pick_process(pick), lasts),
            HostFault::FreezePrimary(slice, lasts) => self.freeze(self.primary(slice), lasts),
            HostFault::Cut(pick, from, lasts) => self.part(self.pick_process(pick), from, lasts),
            HostFault::CutPrimary(slice, from, lasts) => {
                self.part(self.primary(slice), from, lasts);
            }
            HostFault::Zombie(pick, lasts) => {
                let control = self.pick_process(pick).and_then(|id| self.control_of(id));
                if let Some(link) = control {
                    let end = End::Listener;
                    self.queue.push(now, Happening::LinkLost { link, end });
                    let end = End::Dialler;
                    let later = Happening::LinkLost { link, end };
                    self.queue.push(now + lasts, later);
                }
            }
            HostFault::ClockJump(pick, span) => {
                let id = self.pick_process(pick);
                if let Some(process) = id.and_then(|id| self.processes.get_mut(&id)) {
                    process.clock.leap(now, span);
                }
                id.into_iter().for_each(|id| self.arm_process(id));
            }
            HostFault::ClockDrift(pick, gain) => {
                let id = self.pick_process(pick);
                if let Some(process) = id.and_then(|id| self.processes.get_mut(&id)) {
                    process.clock.drift(now, gain);
                }
                id.into_iter().for_each(|id| self.arm_process(id));
            }
            HostFault::Reshard(shards, ahead) => {
                let low = self.coordinator.as_ref().map(|c| c.job.low());
                let at = low.map(|low| Step(low.0 + ahead)).filter(|_| ahead > 0);
                self.command(job::Command::Reshard { shards, at });
            }
        }
        Ok(())
    }

    fn freeze(&mut self, id: Option<u32>, lasts: resilin_core::Span) {
        if let Some(process) = id.and_then(|id| self.processes.get_mut(&id)) {
            process.frozen = self.now + lasts;
        }
    }

    fn part(&mut self, id: Option<u32>, from: Apart, lasts: resilin_core::Span) {
        let until = self.now + lasts;
        let Some(id) = id else {
            return;
        };
        let other = match from {
            Apart::Coordinator => Some(Party::Coordinator),
            Apart::Worker(pick) => {
                let workers: Vec<u32> = self.hosts.keys().copied().collect();
                choose(&workers, pick).map(Party::Worker)
            }
            Apart::Host(pick) => {
                let mut others: Vec<u32> = self.processes.keys().copied().collect();
                others.retain(|other| *other != id);
                choose(&others, pick).map(Party::Shard)
            }
            Apart::All => {
                let process = self.processes.get_mut(&id).expect("just picked");
                (process.deaf, process.mute) = (until, until);
                None
            }
        };
        if let Some(other) = other {
            let own = Party::Shard(id);
            self.apart.insert((own.min(other), own.max(other)), until);
        }
    }

    fn drain_process(&mut self, pick: u32) {
        let id = self.pick_process(pick);
        if let Some(process) = id.and_then(|id| self.processes.get_mut(&id)) {
            process.leaving = true;
            if let Some(host) = process.incarnation {
                self.command(job::Command::Drain(host));
            }
        }
    }

    fn kill_process(&mut self, id: Option<u32>, death: Death) {
        let Some(id) = id else {
            return;
        };
        self.stats.shards_killed += 1;
        self.processes.remove(&id);
        self.drop_links(Party::Shard(id), death);
    }

    fn pick_process(&self, pick: u32) -> Option<u32> {
        let processes: Vec<u32> = self.processes.keys().copied().collect();
        choose(&processes, pick)
    }

    fn control_of(&self, id: u32) -> Option<resilin_core::LinkId> {
        let mut links = self
            .links
            .iter()
            .filter(|(_, link)| (link.dialler, link.role) == (Party::Shard(id), Role::Control));
        links.next_back().map(|(link, _)| *link)
    }

    fn process_of(&self, incarnation: Incarnation) -> Option<u32> {
        let mut processes = self.processes.iter();
        let found = processes.find(|(_, process)| process.incarnation == Some(incarnation));
        found.map(|(id, _)| *id)
    }

    fn primary(&self, slice: SliceId) -> Option<u32> {
        let status = self.coordinator.as_ref()?.job.status(self.now);
        let found = status.slices.iter().find(|known| known.slice == slice)?;
        self.process_of(found.primary)
    }

    fn follower(&self, slice: SliceId) -> Option<u32> {
        let status = self.coordinator.as_ref()?.job.status(self.now);
        let found = status.slices.iter().find(|known| known.slice == slice)?;
        self.process_of(found.backup?)
    }

    /// Faults are over: as many shard processes as the job wants are there and stay.
    pub(super) fn calm_processes(&mut self) {
        self.apart.clear();
        for process in self.processes.values_mut() {
            (process.deaf, process.mute) = (self.now, self.now);
        }
        let Some(hosting) = self.schedule.hosting else {
            return;
        };
        if self.schedule.quiet_at == resilin_core::Span::ZERO {
            return;
        }
        let stay = self.processes.values().filter(|process| !process.leaving);
        for _ in stay.count()..usize::from(hosting.processes) {
            self.start_process();
        }
    }
}
