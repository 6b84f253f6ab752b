//! What goes wrong, when its moment has come.

mod hosts;
mod processes;

use resilin_checkpoint::testing::Fault as DiskFault;
use resilin_core::machine::job;
use resilin_core::time::Span;
use resilin_core::{LinkId, Step};

use super::drive::Rot;
use super::events::{End, Happening, Local};
use super::host::Host;
use super::{Checked, Sim};
use crate::invariants::Fact;
use crate::schedule::{Fault, When};

/// How a process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Death {
    /// The kernel resets its links and keeps what it wrote.
    Killed,
    /// Nobody resets anything.
    Vanished,
    /// What was not synced is lost in part.
    PowerCut,
}

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
            let fault = self.schedule.faults[index].1;
            self.queue.push(self.now, Happening::Fault(fault));
        }
    }

    pub(super) fn fault(&mut self, fault: Fault) -> Checked {
        self.tell_of("fault", fault);
        match fault {
            Fault::Kill(pick) => self.kill(pick, Death::Killed),
            Fault::Vanish(pick) => self.kill(pick, Death::Vanished),
            Fault::Restart(pick, after) => {
                self.kill(pick, Death::Killed);
                self.queue.push(self.now + after, Happening::Start);
            }
            Fault::Join(slowness) => self.join(slowness),
            Fault::JoinStorm(count) => (0..count).for_each(|_| self.join(1)),
            Fault::Twin(pick) => {
                let name = self.picked(pick).map(|host| host.name.clone());
                self.stats.joins += 1;
                self.start_worker(1, name);
            }
            Fault::Terminate(pick) => return self.terminate(pick),
            Fault::Drain(pick) => {
                if let Some(host) = self.picked(pick) {
                    host.leaving = true;
                    let member = host.incarnation;
                    self.command(job::Command::Drain(member));
                }
            }
            Fault::DrainStorm => {
                let drain = |host: &mut Host| {
                    host.leaving = true;
                    host.incarnation
                };
                let members: Vec<_> = self.hosts.values_mut().map(drain).collect();
                for member in members {
                    self.command(job::Command::Drain(member));
                }
            }
            Fault::Scale(wanted) => {
                // Nobody is known to stay.
                self.hosts.values_mut().for_each(|host| host.leaving = true);
                self.command(job::Command::Scale(wanted));
            }
            Fault::Stop => self.command(job::Command::Stop),
            Fault::Freeze(pick, lasts) => {
                let until = self.now + lasts;
                self.with_host(pick, |host| host.frozen = host.frozen.max(until));
            }
            Fault::Slow(pick, slowness) => self.with_host(pick, |host| host.slowness = slowness),
            Fault::Stuck(pick, lasts) => {
                let until = self.now + lasts;
                self.with_host(pick, |host| host.stuck = host.stuck.max(until));
            }
            Fault::NotFinite(pick, count) => self.with_host(pick, |host| host.spoilt = count),
            Fault::FlipBit(pick, count) => self.with_host(pick, |host| host.flips = count),
            Fault::Everything(seed) => {
                for one in Fault::one_of_each(seed) {
                    self.fault(one)?;
                }
            }
            Fault::Host(fault) => return self.host_fault(fault),
            Fault::KillCoordinator(down) => self.kill_coordinator(down, Death::Killed),
            Fault::MoveCoordinator(down) => self.move_coordinator(down),
            Fault::LosePower(down) => self.kill_coordinator(down, Death::PowerCut),
            Fault::FreezeCoordinator(lasts) => {
                // A shorter one would let later messages overtake those that wait.
                self.coordinator_frozen = self.coordinator_frozen.max(self.now + lasts);
            }
            Fault::ClockJump(..)
            | Fault::CoordinatorClockJump(_)
            | Fault::ClockDrift(..)
            | Fault::CoordinatorClockDrift(_)
            | Fault::CalendarBack(_) => self.clock_fault(fault),
            Fault::TornWrite(..)
            | Fault::LostSync(..)
            | Fault::FailedWrite(_)
            | Fault::BitRot(_)
            | Fault::DamageNewest(_)
            | Fault::LoseRecords(_)
            | Fault::DiskFull(_)
            | Fault::ReadOnly(_) => self.disk_fault(fault),
            Fault::ResetLink(_)
            | Fault::CorruptFrame(_)
            | Fault::CutTo(..)
            | Fault::CutFrom(..)
            | Fault::Cut(..)
            | Fault::SlowLink(..)
            | Fault::Weather(..)
            | Fault::Zombie(..) => self.network_fault(fault),
        }
        Ok(())
    }

    fn command(&mut self, command: job::Command) {
        self.soon(1, 2, Local::Command(command));
    }

    fn clock_fault(&mut self, fault: Fault) {
        let now = self.now;
        match fault {
            Fault::ClockJump(pick, span) => {
                self.with_host(pick, |host| host.clock.leap(now, span));
            }
            Fault::ClockDrift(pick, gain) => {
                self.with_host(pick, |host| host.clock.drift(now, gain));
            }
            Fault::CoordinatorClockJump(span) => {
                if let Some(coordinator) = &mut self.coordinator {
                    coordinator.clock.leap(now, span);
                }
            }
            Fault::CoordinatorClockDrift(gain) => {
                if let Some(coordinator) = &mut self.coordinator {
                    coordinator.clock.drift(now, gain);
                }
            }
            // Without records and with a damaged ledger the calendar is all that is left.
            Fault::CalendarBack(span) => {
                if let Some(back) = &mut self.calendar_back {
                    *back = span.0 / 1_000_000;
                }
            }
            other => unreachable!("{other:?} is no fault of a clock"),
        }
    }

    fn disk_fault(&mut self, fault: Fault) {
        match fault {
            Fault::TornWrite(after, down) => {
                self.drive.arm(DiskFault::CrashAt, after.into());
                self.power_back = down;
            }
            Fault::LostSync(after, down) => {
                self.drive.arm(DiskFault::LoseSyncAt, after.into());
                let at = self.now + Span::from_millis(60);
                self.queue.push(at, Happening::PowerCut(down));
            }
            Fault::FailedWrite(after) => self.drive.arm(DiskFault::FailAt, after.into()),
            Fault::BitRot(pick) => self.drive.rot(Rot::Any, pick),
            Fault::DamageNewest(pick) => self.drive.rot(Rot::Newest, pick),
            Fault::LoseRecords(down) => {
                self.kill_coordinator(down, Death::Killed);
                self.drive.lose_records();
                self.calendar_back = None;
            }
            Fault::DiskFull(lasts) => self.drive.full_until = self.now + lasts,
            Fault::ReadOnly(lasts) => self.drive.read_only_until = self.now + lasts,
            other => unreachable!("{other:?} is no fault of a disk"),
        }
    }

    fn network_fault(&mut self, fault: Fault) {
        let now = self.now;
        match fault {
            Fault::ResetLink(pick) => {
                if let Some(link) = self.pick_link(pick) {
                    self.reset(link);
                }
            }
            Fault::CorruptFrame(pick) => {
                if let Some(link) = self.pick_link(pick) {
                    self.corrupt_next(link, pick);
                }
            }
            Fault::CutTo(pick, lasts) => {
                self.with_host(pick, |host| host.deaf = now + lasts);
            }
            Fault::CutFrom(pick, lasts) => {
                self.with_host(pick, |host| host.mute = now + lasts);
            }
            Fault::Cut(pick, lasts) => self.with_host(pick, |host| {
                (host.deaf, host.mute) = (now + lasts, now + lasts);
            }),
            Fault::SlowLink(pick, more, lasts) => {
                if let Some(link) = self.pick_link(pick) {
                    self.slow_down(link, more, now + lasts);
                }
            }
            Fault::Weather(lasts, weather) => {
                (self.weather, self.weather_until) = (weather, now + lasts);
            }
            Fault::Zombie(pick, lasts) => {
                if let Some(link) = self.picked(pick).and_then(|host| host.control) {
                    let end = End::Listener;
                    self.queue.push(now, Happening::LinkLost { link, end });
                    let end = End::Dialler;
                    self.queue
                        .push(now + lasts, Happening::LinkLost { link, end });
                }
            }
            other => unreachable!("{other:?} is no fault of the network"),
        }
    }

    fn pick_link(&self, pick: u32) -> Option<LinkId> {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        choose(&links, pick)
    }

    /// Faults are over: what stands still goes on, and a worker that stays is there.
    pub(super) fn calm(&mut self) -> Checked {
        self.weather_until = self.now;
        self.drive.calm(self.now);
        for host in self.hosts.values_mut() {
            (host.deaf, host.mute, host.stuck) = (self.now, self.now, self.now);
            host.spoilt = 0;
        }
        if self.schedule.quiet_at > Span::ZERO && self.hosts.values().all(|host| host.leaving) {
            self.start_worker(1, None);
        }
        self.calm_processes();
        self.quiet = true;
        self.checker.see(&Fact::Quiet(self.now))
    }
}

pub(super) fn choose<T: Copy>(all: &[T], pick: u32) -> Option<T> {
    let count = u32::try_from(all.len()).expect("small clusters");
    let index = pick.checked_rem(count)?;
    all.get(index as usize).copied()
}
