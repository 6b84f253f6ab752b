//! What the shell does for the fleet and the job.

use resilin_core::fact::Fact as Told;
use resilin_core::machine::job::Outcome;
use resilin_core::machine::{fleet, job};
use resilin_core::message::{CoordinatorSays, ShardOrder};
use resilin_core::time::Span;
use resilin_core::{SliceId, Step};

use super::events::{End, Happening, Local, Mailbox, Packet, Party, Request};
use super::faults::Death;
use super::processes::Parcel;
use super::{Checked, Sim, codec};
use crate::invariants::{Fact, Violation};

/// A message from machine to machine within the coordinator.
#[derive(Clone, Debug)]
pub(super) enum Inside {
    Fleet(fleet::Event),
    Job(job::Event),
}

impl Sim<'_> {
    pub(super) fn fleet(&mut self, event: fleet::Event) -> Checked {
        self.inside(Inside::Fleet(event))
    }

    pub(super) fn job(&mut self, event: job::Event) -> Checked {
        self.inside(Inside::Job(event))
    }

    /// Machines speak to each other through mailboxes: what one says while its effects are carried
    /// out comes after them, or a later generation would be told before an earlier one.
    fn inside(&mut self, event: Inside) -> Checked {
        self.mailbox.push_back(event);
        if self.mailbox.len() > 1 {
            return Ok(());
        }
        while let Some(next) = self.mailbox.front().cloned() {
            match next {
                Inside::Fleet(event) => self.step_fleet(event)?,
                Inside::Job(event) => self.step_job(event)?,
            }
            self.mailbox.pop_front();
        }
        Ok(())
    }

    fn step_fleet(&mut self, event: fleet::Event) -> Checked {
        self.tell_of("fleet <-", &event);
        let now = self.local_time();
        let mut effects = Vec::new();
        if let Some(coordinator) = self.coordinator.as_mut() {
            coordinator.fleet.step(now, event, &mut effects);
            if self.checks.take(self.hosts.len()) {
                coordinator.fleet.check_invariants();
            }
        }
        for effect in effects {
            match effect {
                fleet::Effect::Welcome(link, incarnation) => {
                    self.checker.see(&Fact::Welcomed(incarnation))?;
                    self.send(link, End::Dialler, Packet::Welcome(incarnation));
                }
                fleet::Effect::Send(link, says) => {
                    self.send(link, End::Dialler, Packet::Told(says));
                }
                fleet::Effect::Close(link) => self.close(link, End::Listener),
                fleet::Effect::Member(news) if self.bug_in_news(&news) => {}
                fleet::Effect::Member(member) => self.job(job::Event::Member(member))?,
                fleet::Effect::Host(news) => self.job(job::Event::Host(news))?,
                fleet::Effect::Outranked(reign) => {
                    let (id, what) = ("M2", format!("a member was under reign {reign}"));
                    return Err(Violation { id, what });
                }
                fleet::Effect::WelcomeHost(link, incarnation) => {
                    let welcome = Packet::Parcel(Parcel::Welcome(incarnation));
                    self.send(link, End::Dialler, welcome);
                }
                fleet::Effect::SendHost(link, told) => {
                    self.send(link, End::Dialler, Packet::Parcel(Parcel::Told(told)));
                }
            }
        }
        Ok(())
    }

    fn step_job(&mut self, event: job::Event) -> Checked {
        if let job::Event::Member(fleet::Member::Down(incarnation, _)) = &event {
            self.checker.see(&Fact::Down(*incarnation))?;
        }
        self.tell_of("job <-", &event);
        let now = self.local_time();
        let mut effects = Vec::new();
        if let Some(coordinator) = self.coordinator.as_mut() {
            coordinator.job.step(now, event, &mut effects);
            if self.checks.take(self.hosts.len()) {
                coordinator.job.check_invariants();
            }
        }
        for effect in effects {
            self.tell_of("job    ->", &effect);
            self.job_effect(effect)?;
        }
        Ok(())
    }

    fn job_effect(&mut self, effect: job::Effect) -> Checked {
        match effect {
            job::Effect::Say(member, says) => {
                if let CoordinatorSays::Assign(assignment) = &says {
                    self.checker.see(&Fact::Assigned(member, assignment))?;
                }
                self.fleet(fleet::Event::Say(member, says))
            }
            job::Effect::Fence(member, cause) => self.fleet(fleet::Event::Fence(member, cause)),
            job::Effect::Order(order) => {
                self.order(order);
                Ok(())
            }
            job::Effect::Host(host, told) => self.fleet(fleet::Event::Tell(host, told)),
            job::Effect::KeepBranch(branch) => {
                self.keep(Request::KeepBranch(branch));
                Ok(())
            }
            job::Effect::KeepViews(views) => {
                self.keep(Request::KeepViews(views));
                Ok(())
            }
            job::Effect::KeepWishes(wishes) => {
                self.keep(Request::KeepWishes(wishes));
                Ok(())
            }
            job::Effect::Append(record) => {
                let record = codec::pass(&record);
                if let resilin_core::ledger::Record::Step(step) = &record {
                    self.stats.recorded += 1;
                    self.checker.see(&Fact::Recorded(step))?;
                }
                self.ask_store(Request::Append(Box::new(record)), Span(20_000));
                Ok(())
            }
            job::Effect::Commit(step) => {
                self.ask_commit(step);
                Ok(())
            }
            job::Effect::Saver(event) => self.saver(event),
            job::Effect::Close(outcome) => {
                let takes = self.micros(500, 3_000);
                self.ask_store(Request::Close(outcome), takes);
                Ok(())
            }
            job::Effect::Over(outcome) => self.over(outcome),
            job::Effect::Tell(fact) => self.told(fact),
        }
    }

    fn told(&mut self, fact: Told) -> Checked {
        match fact {
            Told::Durable { version: step } => {
                self.stats.announced += 1;
                let stored = self.drive.committed.contains(&step);
                let lines = self.coordinator.as_ref().map(|c| c.store.lines);
                self.checker.see(&Fact::Announced {
                    step,
                    stored,
                    lines: lines.unwrap_or_default(),
                })
            }
            Told::Evaluated(metrics) => {
                self.stats.scored += 1;
                self.checker.see(&Fact::Scored(metrics))
            }
            Told::NotEvaluated { version } => {
                self.stats.unscored += 1;
                let last = self.rules.sampling.position(Step(version.0 - 1));
                let epoch = last.epoch + 1;
                self.checker.see(&Fact::NotScored { epoch })
            }
            Told::Drained { .. } => {
                self.stats.drained += 1;
                Ok(())
            }
            Told::Wrong {
                step,
                partition,
                member,
                ..
            } => {
                self.stats.named += 1;
                self.checker.see(&Fact::Named(member, step, partition))
            }
            Told::AuditDiffers { .. } if self.stats.flips > 0 => Ok(()),
            Told::CopiesDiffer { .. } if self.stats.flips > 0 => {
                self.stats.differing += 1;
                Ok(())
            }
            // Where no bit flipped, whoever differs does so by our own doing.
            fact @ (Told::AuditDiffers { .. }
            | Told::AuditUnsettled { .. }
            | Told::CopiesDiffer { .. }) => {
                let (id, what) = ("R3", fact.to_string());
                Err(Violation { id, what })
            }
            Told::Rollback { .. } => {
                self.stats.rollbacks += 1;
                Ok(())
            }
            Told::Resharded { .. } => {
                self.stats.reshards += 1;
                Ok(())
            }
            Told::ViewChanged { .. } => {
                self.stats.views += 1;
                Ok(())
            }
            Told::StillWanted { wishes } => {
                self.stats.wishes.push(wishes);
                Ok(())
            }
            Told::Began { .. }
            | Told::Joined { .. }
            | Told::Lost { .. }
            | Told::Fenced { .. }
            | Told::Delayed { .. }
            | Told::Late { .. }
            | Told::Slow { .. }
            | Told::Moved { .. }
            | Told::Committed { .. }
            | Told::NonFinite { .. }
            | Told::Differs { .. }
            | Told::ReplayDiffers { .. }
            | Told::Degraded { .. }
            | Told::HostJoined { .. }
            | Told::HostLost { .. }
            | Told::HostLeft { .. }
            | Told::NotResharded { .. }
            | Told::Unwritten { .. }
            | Told::Over { .. } => Ok(()),
        }
    }

    pub(super) fn order(&mut self, order: ShardOrder) {
        let order = codec::pass(&order);
        let slices: Vec<SliceId> = self.rules.slices.ids().collect();
        for slice in slices {
            self.post(Mailbox::Orders(slice), Local::Order(slice, order));
        }
    }

    /// The coordinator's process ends; a stopped run is resumed by the next leg.
    fn over(&mut self, outcome: Outcome) -> Checked {
        self.end_coordinator(Death::Killed);
        for (link, end) in self.links_of(Party::Coordinator) {
            self.close(link, end);
        }
        let more = self.leg + 1 < self.schedule.legs.len();
        let resumed = match outcome {
            Outcome::Stopped(_) if more => {
                self.leg += 1;
                true
            }
            // The operator makes room and starts the same command again.
            Outcome::SaveFailed { .. } => {
                self.stats.save_failed += 1;
                true
            }
            Outcome::Finished => {
                self.checker.see(&Fact::Finished)?;
                false
            }
            Outcome::Stopped(_)
            | Outcome::Halted { .. }
            | Outcome::WaitedTooLong
            | Outcome::Outranked { .. } => false,
        };
        if resumed {
            let hosts: Vec<u32> = self.hosts.keys().copied().collect();
            for host in hosts {
                self.end_worker(host);
            }
            let processes: Vec<u32> = self.processes.keys().copied().collect();
            for process in processes {
                self.end_process(process);
            }
            return self.begin_leg();
        }
        self.outcome = Some(outcome);
        Ok(())
    }

    pub(super) fn begin_leg(&mut self) -> Checked {
        let leg = self.schedule.legs[self.leg];
        self.rules = self.oracle.task.rules(leg.shards);
        for _ in 0..leg.workers {
            self.start_worker(1, None);
        }
        for _ in 0..self.schedule.hosting.map_or(0, |hosting| hosting.processes) {
            self.start_process();
        }
        let at = self.now + self.micros(1, 1_000);
        self.queue.push(at, Happening::Restart);
        Ok(())
    }
}
