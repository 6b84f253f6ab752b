//! Another number of slices while the run goes on (PROTOCOL 4): all rest at one version, which is
//! made durable, and a branch with the new layout begins there.

use super::branch::Why;
use super::{Effect, Job};
use crate::fact::Fact;
use crate::id::{MapNumber, Step};
use crate::message::ShardOrder;
use crate::time::Time;

/// A change of the slice layout that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reshard {
    /// All slices shall rest at the first version from this one on.
    Wanted { shards: u16, at: Step },
    /// Nothing comes of the version that they rest at: they shall go on from it.
    GivenUp { step: Step },
}

impl Job {
    /// Whether the parameters can be dealt to so many slices at that version.
    pub(super) fn may_reshard(&self, shards: u16, at: Option<Step>) -> Result<(), String> {
        if self.settings.hosts.is_none() {
            return Err(
                "shards live in the coordinator; set [cluster] shard_processes and start \
                        again to change their number while the run goes on"
                    .into(),
            );
        }
        if self.ending.is_some() || self.stop.is_some() {
            return Err("the run is ending".into());
        }
        if shards == 0 {
            return Err("0 shards hold nothing; ask for at least 1".into());
        }
        let most = self.rules.slices.with_slices(shards).slices();
        if shards > most {
            return Err(format!(
                "{shards} shards are more than the parameters have blocks ([run] block); ask for at \
                 most {most}"
            ));
        }
        if shards == self.branch.shards && !self.is_resharding() {
            return Err(format!("there are {shards} shards already"));
        }
        let (low, last) = (self.low(), self.rules.last());
        match at {
            Some(at) if at <= low => Err(format!(
                "the run is at step {low}: name a later step than {at}, or leave --at out"
            )),
            Some(at) if at >= last => Err(format!("the run ends at step {last}, before step {at}")),
            Some(_) | None => Ok(()),
        }
    }

    pub(super) fn request_reshard(
        &mut self,
        shards: u16,
        at: Option<Step>,
        effects: &mut Vec<Effect>,
    ) {
        if let Err(cause) = self.may_reshard(shards, at) {
            return effects.push(Effect::Tell(Fact::NotResharded { cause }));
        }
        let at = at.unwrap_or_default();
        self.hosting.reshard = Some(Reshard::Wanted { shards, at });
        self.reshard_again(effects);
    }

    /// Whether slices rest, or will, for another layout. A stop goes before it.
    pub(super) fn is_resharding(&self) -> bool {
        self.stop.is_none() && self.hosting.reshard.is_some()
    }

    /// Repeats what may have been lost.
    pub(super) fn reshard_again(&self, effects: &mut Vec<Effect>) {
        if !self.is_resharding() {
            return;
        }
        let order = match self.hosting.reshard {
            None => return,
            Some(Reshard::Wanted { at, .. }) => ShardOrder::RestAt { step: at },
            Some(Reshard::GivenUp { step }) => ShardOrder::GoOn { step },
        };
        effects.push(Effect::Order(order));
    }

    /// The slices rest at a version that is durable and recorded: the new layout begins there.
    pub(super) fn reshard_at(&mut self, now: Time, step: Step, effects: &mut Vec<Effect>) {
        let Some(Reshard::Wanted { shards, .. }) = self.hosting.reshard else {
            return;
        };
        if self.may_keep(now) {
            let map = MapNumber(self.branch.map.0 + 1);
            self.keep_branch(map, shards, step, Why::Reshard, effects);
        }
    }

    /// The version that they rest at cannot be saved: the run goes on as it was.
    pub(super) fn reshard_failed(&mut self, step: Step, reason: &str, effects: &mut Vec<Effect>) {
        if let Some(Reshard::GivenUp { .. }) = self.hosting.reshard {
            return;
        }
        self.hosting.reshard = Some(Reshard::GivenUp { step });
        let cause = format!("step {step} could not be saved: {reason}; ask again later");
        effects.push(Effect::Tell(Fact::NotResharded { cause }));
        self.reshard_again(effects);
    }

    /// Whether the slices rest for what only an earlier life of the coordinator knew: they outlive
    /// it, and what it was asked for does not.
    pub(super) fn is_unasked(&self, step: Step) -> bool {
        let asked = self.stop.is_some() || self.hosting.reshard.is_some();
        self.settings.hosts.is_some() && !asked && step < self.rules.last()
    }

    /// Nobody waits for the rest: the run goes on as it was.
    pub(super) fn leave_unasked(&mut self, step: Step, effects: &mut Vec<Effect>) {
        self.hosting.reshard = Some(Reshard::GivenUp { step });
        let cause = format!(
            "the coordinator that had the shards rest at step {step} is gone; ask again for what \
             was asked of it"
        );
        effects.push(Effect::Tell(Fact::NotResharded { cause }));
        self.reshard_again(effects);
    }

    /// Whether the slices are told to leave the version, which need not be saved then.
    pub(super) fn goes_on_from(&self, step: Step) -> bool {
        self.is_resharding() && self.hosting.reshard == Some(Reshard::GivenUp { step })
    }

    /// The slices left the version that they rested at for nothing.
    pub(super) fn went_on(&mut self) {
        if let Some(Reshard::GivenUp { step }) = self.hosting.reshard
            && self.resting_at() != Some(step)
        {
            self.hosting.reshard = None;
            (self.at_last, self.unsaved) = (None, None);
        }
    }
}
