//! What the end of a child means for the run: a replacement, or the end of everything.

use std::time::Instant;

use resilin_core::Step;

use super::Supervisor;
use crate::exit::Exit;
use crate::supervisor::{Happening, Role, words};

impl Supervisor<'_> {
    /// Replaces a child that was killed on purpose, which is no failure.
    pub(super) fn killed(&mut self, role: Role, pid: u32) -> Result<(), Exit> {
        self.causes.remove(&pid);
        (self.on)(Happening::Killed { role, pid });
        match role {
            Role::Coordinator => {
                self.coordinator = None;
                match self.verdict {
                    // There is something to go on with; a stop is the next one's to carry out.
                    None => self.start_coordinator(),
                    Some(_) => Ok(()),
                }
            }
            Role::Worker => {
                self.workers.remove(&pid);
                self.seats.leave(pid);
                self.dismissed.remove(&pid);
                Ok(())
            }
            Role::Shard => {
                self.shards.remove(&pid);
                Ok(())
            }
        }
    }

    /// A coordinator that ended by itself had a reason; one that crashed is started again.
    pub(super) fn coordinator_gone(&mut self, end: &words::End) -> Result<(), Exit> {
        self.coordinator = None;
        let Some(code) = end.status.code() else {
            return self.coordinator_crashed(end);
        };
        let line = || end.cause.clone().unwrap_or_else(|| end.to_string());
        let exit = match code {
            0 => Exit::Done,
            2 => Exit::Usage(line()),
            3 => Exit::Refused(line()),
            4 => Exit::Damaged(line()),
            5 => Exit::WaitedTooLong(line()),
            6 => Exit::Stopped(Step(self.reported_steps())),
            _ => Exit::Fault(line()),
        };
        self.verdict.get_or_insert(exit);
        Ok(())
    }

    fn coordinator_crashed(&mut self, end: &words::End) -> Result<(), Exit> {
        if self.stopping && self.location.is_none() {
            // It was asked for, and there is nothing yet that could be lost.
            self.verdict.get_or_insert(Exit::Stopped(Step(0)));
            return Ok(());
        }
        self.failed(end);
        if self.verdict.is_some() {
            return Ok(());
        }
        // A stop is the next one's to carry out: members may have more than the last checkpoint.
        if self.budget.spend(Instant::now()) {
            return self.start_coordinator();
        }
        let text = words::used_up(&self.options, end);
        self.verdict.get_or_insert(Exit::Fault(text));
        Ok(())
    }

    fn reported_steps(&self) -> u64 {
        let steps = self
            .report
            .as_ref()
            .and_then(|report| report["steps"].as_u64());
        steps.unwrap_or_default()
    }

    pub(super) fn worker_gone(&mut self, end: &words::End) {
        self.workers.remove(&end.pid);
        self.seats.leave(end.pid);
        let dismissed = self.dismissed.remove(&end.pid);
        match end.status.code() {
            // Whether another one shall take its place is what the next look says: it may have been
            // drained, or the run may be over.
            Some(0) => {
                self.look.forget();
                self.room = 0;
            }
            None if dismissed => {}
            // What is refused once is refused again.
            Some(2 | 3) => {
                self.failed(end);
                self.give_up(Exit::Refused(format!("a worker was refused: {end}")));
            }
            Some(_) | None => {
                self.failed(end);
                if !self.budget.spend(Instant::now()) {
                    self.give_up(Exit::Fault(words::used_up(&self.options, end)));
                }
            }
        }
    }

    pub(super) fn shard_gone(&mut self, end: &words::End) {
        self.shards.remove(&end.pid);
        match end.status.code() {
            // Drained, or released at the end of the run: the next look says whether another one
            // shall take its place.
            Some(0) => {
                self.look.forget();
                self.shards_held = true;
            }
            // What is refused once is refused again.
            Some(2 | 3) => {
                self.failed(end);
                self.give_up(Exit::Refused(format!("a shard was refused: {end}")));
            }
            Some(_) | None => {
                self.failed(end);
                if !self.budget.spend(Instant::now()) {
                    self.give_up(Exit::Fault(words::used_up(&self.options, end)));
                }
            }
        }
    }

    fn failed(&mut self, end: &words::End) {
        (self.on)(Happening::Failed {
            role: end.role,
            pid: end.pid,
            how: end.status.to_string(),
        });
    }

    /// Ends the run in peace: what was reached stays durable.
    fn give_up(&mut self, exit: Exit) {
        if self.verdict.is_none() {
            self.verdict = Some(exit);
            if let Some(coordinator) = &self.coordinator {
                coordinator.terminate();
            }
        }
    }
}
