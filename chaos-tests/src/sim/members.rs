//! What the shell does for the fleet, the job and the saver.

use resilin_core::fact::Fact as Told;
use resilin_core::machine::job::Outcome;
use resilin_core::machine::saver::Effect as Saving;
use resilin_core::machine::{fleet, job, saver};
use resilin_core::message::{CoordinatorSays, ShardOrder};
use resilin_core::{SliceId, Step};

use super::events::{End, Happening, Local, Mailbox, Packet};
use super::plant::Plant;
use super::{Checked, Sim, codec};
use crate::invariants::Fact;

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
        let mut effects = Vec::new();
        if let Some(coordinator) = self.coordinator.as_mut() {
            coordinator.fleet.step(self.now, event, &mut effects);
        }
        for effect in effects {
            match effect {
                fleet::Effect::Welcome(link, incarnation) => {
                    self.checker.see(&Fact::Welcomed(incarnation))?;
                    self.send(link, End::Worker, Packet::Welcome(incarnation));
                }
                fleet::Effect::Send(link, says) => {
                    self.send(link, End::Worker, Packet::Told(says));
                }
                fleet::Effect::Close(link) => self.close(link, End::Coordinator),
                fleet::Effect::Member(member) => self.job(job::Event::Member(member))?,
                fleet::Effect::Host(news) => self.job(job::Event::Host(news))?,
                fleet::Effect::WelcomeHost(..) | fleet::Effect::SendHost(..) => {
                    unreachable!("slices live in the coordinator")
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
        let mut effects = Vec::new();
        if let Some(coordinator) = self.coordinator.as_mut() {
            coordinator.job.step(self.now, event, &mut effects);
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
            job::Effect::Order(order) => {
                self.order(order);
                Ok(())
            }
            job::Effect::Host(..) | job::Effect::KeepBranch(_) | job::Effect::KeepViews(_) => {
                unreachable!("slices live in the coordinator")
            }
            job::Effect::Append(record) => {
                let record = codec::pass(&record);
                if let resilin_core::ledger::Record::Step(step) = &record {
                    self.checker.see(&Fact::Recorded(step))?;
                }
                // The actor of the store has its own mailbox, which a later commit queues in too.
                self.soon(20, 21, Local::Append(Box::new(record)));
                Ok(())
            }
            job::Effect::Saver(event) => self.saver(event),
            job::Effect::Close(_) => {
                self.soon(500, 3_000, Local::Closed);
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
                let stored = self.store.checkpoints.contains_key(&step)
                    || self.store.damaged.contains(&step);
                let recorded = self.store.recorded();
                self.checker.see(&Fact::Announced {
                    step,
                    stored,
                    recorded,
                })
            }
            Told::Evaluated(metrics) => self.checker.see(&Fact::Scored(metrics)),
            Told::Drained { .. } => {
                self.stats.drained += 1;
                Ok(())
            }
            Told::Began { .. }
            | Told::Joined { .. }
            | Told::Lost { .. }
            | Told::Fenced { .. }
            | Told::Delayed { .. }
            | Told::Moved { .. }
            | Told::Committed { .. }
            | Told::NonFinite { .. }
            | Told::Differs { .. }
            | Told::ReplayDiffers { .. }
            | Told::NotEvaluated { .. }
            | Told::Degraded { .. }
            | Told::Rollback { .. }
            | Told::ViewChanged { .. }
            | Told::HostJoined { .. }
            | Told::HostLost { .. }
            | Told::HostLeft { .. }
            | Told::Resharded { .. }
            | Told::NotResharded { .. }
            | Told::Unwritten { .. }
            | Told::Over { .. } => Ok(()),
        }
    }

    fn order(&mut self, order: ShardOrder) {
        let order = codec::pass(&order);
        let slices: Vec<SliceId> = self.rules.slices.ids().collect();
        for slice in slices {
            self.post(Mailbox::Orders(slice), Local::Order(slice, order));
        }
    }

    pub(super) fn saver(&mut self, event: saver::Event) -> Checked {
        self.tell_of("saver <-", &event);
        let mut effects = Vec::new();
        if let Some(coordinator) = self.coordinator.as_mut() {
            coordinator.saver.step(self.now, event, &mut effects);
        }
        for effect in effects {
            match effect {
                Saving::RequestCut => self.job(job::Event::Order(ShardOrder::RequestCut))?,
                Saving::Commit(step) => {
                    if self.plant == Some(Plant::AnnouncedEarly) {
                        self.soon(20, 21, Local::Committed(step));
                    }
                    self.soon(500, 8_000, Local::Durable(step));
                }
                Saving::Abandon(step) => self.store.abandon(step),
                Saving::CutOver(step) => {
                    self.job(job::Event::Order(ShardOrder::CutOver { step }))?
                }
                Saving::Durable(step) => self.job(job::Event::Durable(step))?,
                Saving::Degraded(reason) => self.job(job::Event::Degraded(reason))?,
            }
        }
        Ok(())
    }

    pub(super) fn written(&mut self, slice: SliceId, step: Step) -> Checked {
        if self.store_fails > self.now {
            let reason = "the disk is full".into();
            return self.saver(saver::Event::Failed(Some(slice), step, reason));
        }
        self.saver(saver::Event::Written(slice, step))
    }

    /// The manifest is durable; whoever dies now finds it at the next start.
    pub(super) fn store_commit(&mut self, step: Step) -> Checked {
        if self.store_fails > self.now {
            let reason = "the disk is full".into();
            return self.saver(saver::Event::Failed(None, step, reason));
        }
        if let Some(blocks) = self.store.commit(step, self.oracle) {
            self.checker.see(&Fact::Stored(step, &blocks))?;
            self.soon(20, 2_000, Local::Committed(step));
        }
        Ok(())
    }

    /// The coordinator's process ends; a stopped run is resumed by the next leg.
    fn over(&mut self, outcome: Outcome) -> Checked {
        self.store.synced = self.store.ledger.len();
        self.coordinator = None;
        self.life += 1;
        let links: Vec<_> = self.links.keys().copied().collect();
        for link in links {
            self.close(link, End::Coordinator);
        }
        let more = self.leg + 1 < self.schedule.legs.len();
        let resumed = match outcome {
            Outcome::Stopped(_) if more => {
                self.leg += 1;
                true
            }
            // The operator makes room and starts the same command again.
            Outcome::SaveFailed { .. } => true,
            Outcome::Stopped(_)
            | Outcome::Finished
            | Outcome::Halted { .. }
            | Outcome::WaitedTooLong => false,
        };
        if resumed {
            let hosts: Vec<u32> = self.hosts.keys().copied().collect();
            for host in hosts {
                self.end_worker(host);
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
            self.start_worker(1);
        }
        let at = self.now + self.micros(1, 1_000);
        self.queue.push(at, Happening::Restart);
        Ok(())
    }
}
