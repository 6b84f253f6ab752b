//! What an operator asked for and was promised: it outlives the coordinator where slices do.
//!
//! It is durable before the operator is answered. A later coordinator goes on with it as soon as a
//! host of before is back; if none comes back the run begins anew, and so does asking.

use serde::{Deserialize, Serialize};

use super::reshard::Reshard;
use super::{Command, Effect, Job};
use crate::id::Step;
use crate::time::Time;

/// A command that takes effect only some steps later. A later one takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wish {
    /// Checkpoint at the next step and end.
    Stop,
    /// So many slices from the first version on that all can rest at, not before this one.
    Reshard {
        /// Slices.
        shards: u16,
        /// The version.
        at: Step,
    },
}

impl Job {
    /// What of a command is to be written down for good before it is answered and given to this
    /// machine; slices in this process end with it, and what it was asked for with them.
    ///
    /// # Errors
    /// Why the command cannot be carried out, and what to do.
    pub fn promise(&self, command: &Command) -> Result<Option<Wish>, String> {
        let wish = match *command {
            Command::Scale(_) | Command::Drain(_) => None,
            Command::Stop => Some(Wish::Stop),
            Command::Reshard { shards, at } => {
                self.may_reshard(shards, at)?;
                let at = at.unwrap_or_default();
                Some(Wish::Reshard { shards, at })
            }
        };
        Ok(wish.filter(|_| self.settings.hosts.is_some()))
    }

    /// A host that served before is back: the run goes on, with what was asked of it.
    pub(super) fn take_up_wish(&mut self, now: Time, effects: &mut Vec<Effect>) {
        match self.wish.take() {
            None => {}
            Some(Wish::Stop) => self.request_stop(now, effects),
            Some(Wish::Reshard { shards, .. }) if shards == self.branch.shards => {}
            Some(Wish::Reshard { shards, at }) => {
                self.hosting.reshard = Some(Reshard::Wanted { shards, at });
                self.reshard_again(effects);
            }
        }
    }

    /// It is carried out, or nothing comes of it.
    pub(super) fn forget_wish(&mut self, effects: &mut Vec<Effect>) {
        self.wish = None;
        effects.extend(self.settings.hosts.map(|_| Effect::ForgetWish));
    }
}
