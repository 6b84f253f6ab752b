//! Deaths of processes.

use resilin_core::machine::worker;
use resilin_core::time::Span;

use super::{Death, choose};
use crate::sim::events::{Happening, Party};
use crate::sim::host::Host;
use crate::sim::{Checked, Sim};

impl Sim<'_> {
    pub(super) fn picked(&mut self, pick: u32) -> Option<&mut Host> {
        let id = self.pick_host(pick)?;
        self.hosts.get_mut(&id)
    }

    pub(super) fn with_host(&mut self, pick: u32, change: impl FnOnce(&mut Host)) {
        if let Some(id) = self.pick_host(pick) {
            change(self.hosts.get_mut(&id).expect("just picked"));
            // Its clock may have changed.
            self.arm_worker(id);
        }
    }

    fn pick_host(&self, pick: u32) -> Option<u32> {
        let hosts: Vec<u32> = self.hosts.keys().copied().collect();
        choose(&hosts, pick)
    }

    pub(in crate::sim) fn join(&mut self, slowness: u32) {
        self.stats.joins += 1;
        self.start_worker(slowness, None);
    }

    pub(super) fn terminate(&mut self, pick: u32) -> Checked {
        let Some(id) = self.pick_host(pick) else {
            return Ok(());
        };
        self.hosts.get_mut(&id).expect("just picked").leaving = true;
        self.worker(id, worker::Event::Terminate)
    }

    pub(super) fn kill(&mut self, pick: u32, death: Death) {
        let Some(id) = self.pick_host(pick) else {
            return;
        };
        self.stats.kills += 1;
        self.hosts.remove(&id).expect("just picked");
        self.drop_links(Party::Worker(id), death);
    }

    /// A process is gone with its ends of links.
    pub(in crate::sim) fn drop_links(&mut self, party: Party, death: Death) {
        for (link, end) in self.links_of(party) {
            match death {
                Death::Killed => self.reset(link),
                Death::Vanished | Death::PowerCut => {}
            }
            self.forget_end(link, end);
        }
    }

    /// The coordinator dies and is started again; every worker learns it in its own time.
    pub(in crate::sim) fn kill_coordinator(&mut self, down: Span, death: Death) {
        if self.coordinator.is_none() {
            return;
        }
        self.stats.crashes += 1;
        self.end_coordinator(death);
        self.drop_links(Party::Coordinator, Death::Killed);
        self.queue.push(self.now + down, Happening::Restart);
    }

    /// The coordinator's process is gone, with what it has open.
    pub(in crate::sim) fn end_coordinator(&mut self, death: Death) {
        match death {
            Death::Killed | Death::Vanished => self.drive.disk.end_process(),
            Death::PowerCut => self.drive.cut_power(),
        }
        self.life += 1;
        self.coordinator = None;
    }

    /// What a start that failed died of.
    pub(in crate::sim) fn death(&self) -> Death {
        if self.drive.disk.is_off() {
            Death::PowerCut
        } else {
            Death::Killed
        }
    }

    pub(super) fn move_coordinator(&mut self, down: Span) {
        self.kill_coordinator(down, Death::Killed);
        let ids: Vec<u32> = self.hosts.keys().copied().collect();
        for id in ids {
            let lost = self.now + down + self.micros(0, 200_000);
            self.hosts.get_mut(&id).expect("just listed").lost = lost;
        }
        let ids: Vec<u32> = self.processes.keys().copied().collect();
        for id in ids {
            let lost = self.now + down + self.micros(0, 200_000);
            self.processes.get_mut(&id).expect("just listed").lost = lost;
        }
    }
}
