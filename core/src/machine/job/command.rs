//! What an operator may ask of a job, and what becomes of it.

use super::finish::Until;
use super::{Command, Effect, Job};
use crate::message::CoordinatorSays;
use crate::time::Time;

impl Command {
    /// Whether it is done even if the coordinator is lost first: whoever asked is told yes once it is
    /// written down.
    #[must_use]
    pub fn outlives(&self) -> bool {
        match self {
            Self::Stop | Self::Reshard { .. } | Self::Scale(_) => true,
            Self::Drain(_) | Self::Leave => false,
        }
    }
}

impl Job {
    /// Whether a command can be carried out, before it is answered.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn may(&self, command: &Command) -> Result<(), String> {
        match *command {
            Command::Reshard { shards, at } => self.may_reshard(shards, at),
            Command::Scale(_) | Command::Drain(_) | Command::Stop | Command::Leave => Ok(()),
        }
    }

    pub(super) fn command(&mut self, now: Time, command: Command, effects: &mut Vec<Effect>) {
        match command {
            Command::Scale(wanted) => {
                self.wanted = wanted;
                self.drain_surplus(effects);
            }
            Command::Drain(host) if self.drain_host(host) => {}
            Command::Drain(incarnation) => {
                self.lower_wanted(incarnation);
                effects.push(Effect::Say(incarnation, CoordinatorSays::Drain));
                self.drain(incarnation, effects);
            }
            Command::Stop => self.request_stop(now, Until::Done, effects),
            Command::Leave => self.request_stop(now, Until::Gone, effects),
            Command::Reshard { shards, at } => self.request_reshard(shards, at, effects),
        }
    }
}
