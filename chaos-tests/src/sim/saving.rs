//! What the shell does for the saver, and the store's mailbox: one call after the other, each with
//! its time. What a call did is durable when it begins here, and known when it ends.

use resilin_core::ledger::Record;
use resilin_core::machine::job::{self, Outcome};
use resilin_core::machine::saver::{Effect, Event};
use resilin_core::message::ShardOrder;
use resilin_core::time::{Span, Time};
use resilin_core::{SliceId, Step};

use super::events::{Happening, Local, Request};
use super::faults::Death;
use super::plant::Plant;
use super::store::Part;
use super::{Checked, Sim};
use crate::invariants::Fact;

/// The calendar's first day; reigns are at least its seconds.
const EPOCH: u64 = 1_700_000_000;

impl Sim<'_> {
    pub(super) fn saver(&mut self, event: Event) -> Checked {
        self.tell_of("saver <-", &event);
        let now = self.local_time();
        let mut effects = Vec::new();
        if let Some(coordinator) = self.coordinator.as_mut() {
            coordinator.saver.step(now, event, &mut effects);
        }
        for effect in effects {
            match effect {
                Effect::RequestCut => self.job(job::Event::Order(ShardOrder::RequestCut))?,
                Effect::Commit(step) => self.job(job::Event::Commit(step))?,
                Effect::NotCommitted(step) => self.job(job::Event::NotCommitted(step))?,
                Effect::Abandon(step) => self.ask_store(Request::Abandon(step), Span(10_000)),
                Effect::CutOverAt(slice, step) => {
                    self.job(job::Event::OrderSlice(slice, ShardOrder::CutOver { step }))?;
                }
                Effect::CutOver(step) => {
                    self.job(job::Event::Order(ShardOrder::CutOver { step }))?;
                }
                Effect::Durable(step) => self.job(job::Event::Durable(step))?,
                Effect::Degraded(reason) => self.job(job::Event::Degraded(reason))?,
            }
        }
        Ok(())
    }

    pub(super) fn ask_commit(&mut self, step: Step) {
        if self.plant == Some(Plant::AnnouncedEarly) {
            self.soon(20, 21, Local::Saver(Event::Committed(step)));
        }
        let takes = self.micros(500, 8_000);
        self.ask_store(Request::Commit(step), takes);
    }

    /// Into the store's mailbox; the call takes so long once it is its turn.
    pub(super) fn ask_store(&mut self, request: Request, takes: Span) {
        let (now, life) = (self.now, self.life);
        if let Some(coordinator) = self.coordinator.as_mut() {
            let begins = coordinator.store_free.max(now + Span(20_000));
            let ends = begins + takes;
            coordinator.store_free = ends;
            let local = Local::Store(request, ends);
            self.queue.push(begins, Happening::Local(life, local));
        }
    }

    /// A call of the store.
    pub(super) fn store(&mut self, request: Request, ends: Time) -> Checked {
        self.drive.tune(self.now);
        match request {
            Request::Write(part) => self.write(&part, ends),
            Request::Take(link, branch, part) => self.take_part(link, branch, &part, ends),
            Request::Read(link, slice, branch) => self.read_slice(link, slice, branch, ends),
            Request::KeepBranch(branch) => self.keep_branch(branch, ends),
            Request::KeepViews(views) => self.keep_views(views, ends),
            Request::KeepWishes(wishes) => self.keep_wishes(wishes, ends),
            Request::Commit(step) => self.commit(step, ends)?,
            Request::Abandon(step) => self.with_store(|store| store.abandon(step)),
            Request::Append(record) if self.bug_in_ledger(&record) => {}
            Request::Append(record) => self.append(*record, ends),
            Request::Close(outcome) => {
                let seconds = self.calendar();
                self.with_store(|store| {
                    // What cannot be written down is done again by the next start.
                    let _ = match outcome {
                        Outcome::Finished => store.finish(seconds),
                        Outcome::Stopped(_)
                        | Outcome::Halted { .. }
                        | Outcome::SaveFailed { .. }
                        | Outcome::WaitedTooLong
                        | Outcome::Outranked { .. } => store.write_ledger(),
                    };
                });
                self.answer(ends, Local::Closed);
            }
        }
        self.tell_over(ends);
        if self.drive.disk.is_off() {
            let down = self.power_back;
            self.kill_coordinator(down, Death::PowerCut);
        }
        Ok(())
    }

    pub(super) fn write(&mut self, part: &Part, ends: Time) {
        let (slice, step): (SliceId, Step) = part.place();
        self.answer(self.now, Local::Saver(Event::Begun(slice, step)));
        let task = &self.oracle.task;
        let coordinator = self.coordinator.as_mut().expect("the store is part of it");
        let event = match coordinator.store.write(part, task) {
            Ok(()) => Event::Written(slice, step),
            Err(error) => Event::Failed(Some(slice), step, error.to_string()),
        };
        self.answer(ends, Local::Saver(event));
    }

    fn commit(&mut self, step: Step, ends: Time) -> Checked {
        let (task, rules) = (&self.oracle.task, &self.rules);
        let coordinator = self.coordinator.as_mut().expect("the store is part of it");
        let event = match coordinator.store.commit(step, task, rules) {
            Ok(blocks) => {
                self.drive.committed.insert(step);
                self.checker.see(&Fact::Stored(step, &blocks))?;
                Event::Committed(step)
            }
            Err(error) => Event::Failed(None, step, error.to_string()),
        };
        self.answer(ends, Local::Saver(event));
        Ok(())
    }

    /// Slices in shard processes keep a step's record, and a version's weights, until it is written.
    fn append(&mut self, record: Record, ends: Time) {
        let taken = match &record {
            Record::Step(step) => Some(job::Event::Taken(step.timeline, step.step.next())),
            Record::Evaluation { timeline, step, .. } => {
                Some(job::Event::ScoreTaken(*timeline, *step))
            }
            Record::Start { .. }
            | Record::Job { .. }
            | Record::Members(_)
            | Record::Initial { .. }
            | Record::Rollback { .. } => None,
        };
        self.with_store(|store| store.append(record));
        if let Some(taken) = taken.filter(|_| self.schedule.hosting.is_some()) {
            self.answer(ends, Local::Kept(taken));
        }
    }

    fn with_store(&mut self, call: impl FnOnce(&mut super::store::Store)) {
        let coordinator = self.coordinator.as_mut().expect("the store is part of it");
        call(&mut coordinator.store);
    }

    /// Others learn of a call's end, if the coordinator still lives by then.
    pub(super) fn answer(&mut self, at: Time, local: Local) {
        let at = at.max(Time(self.now.0 + 1));
        self.queue.push(at, Happening::Local(self.life, local));
    }

    /// Seconds since 1970 as the coordinator's host has them. They pass a thousand times faster
    /// than elsewhere, as leases here are shorter too.
    pub(super) fn calendar(&self) -> u64 {
        let passed = EPOCH + self.now.0 / 1_000_000;
        passed - self.calendar_back.unwrap_or(0)
    }
}
