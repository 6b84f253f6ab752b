//! What the coordinator may order: cuts, rest, and the end of things it waited for.

use super::{Effect, Phase, Shard};
use crate::id::Step;
use crate::message::ShardOrder;
use crate::time::Time;

impl Shard {
    pub(super) fn order(&mut self, now: Time, order: ShardOrder, effects: &mut Vec<Effect>) {
        match order {
            ShardOrder::RequestCut => self.wanted.cut = true,
            ShardOrder::RequestStop => self.wanted.stop = true,
            ShardOrder::RestAt { step } => self.rest_at = Some(step),
            ShardOrder::GoOn { step } => self.go_on(step, effects),
            ShardOrder::Seal => self.seal(effects),
            ShardOrder::CutHere { step } => self.cut_here(step, effects),
            ShardOrder::CutOver { step } => {
                if self.cutting == Some(step) {
                    self.cutting = None;
                }
            }
            ShardOrder::Withhold { step } => {
                // A promised vote has a root: its leaves were finite.
                let open = step == self.step && self.promised.is_none();
                let may = self.may_record() && self.may_lead() && self.may_leave();
                if open && may && self.phase == Phase::Collecting {
                    self.wanted.withheld = true;
                    self.cast(Vec::new(), Vec::new(), effects);
                    self.wanted.withheld = false;
                }
            }
            ShardOrder::Evaluated { version } => self.evaluated(version, effects),
            ShardOrder::Pin { version } => self.pin_again(version, effects),
            ShardOrder::Recorded { before } => self.recorded(now, before, effects),
        }
    }

    /// The rest that was asked for is over.
    fn go_on(&mut self, step: Step, effects: &mut Vec<Effect>) {
        (self.rest_at, self.wanted.stop, self.sealing) = (None, false, false);
        self.gone_on = Some(step);
        let ended = self.halted.is_some() || step == self.rules.last();
        if step == self.step && self.phase == Phase::Resting && !ended {
            self.phase = Phase::Collecting;
            self.say_coverage(effects);
            self.progress(effects);
        }
    }

    /// What was sent while the slice rested was refused as late, and is wanted again.
    pub(super) fn say_coverage_again(&self, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Collecting && self.gone_on == Some(self.step) {
            self.say_coverage(effects);
        }
    }

    /// Without a vote nothing more is accepted; with one the step may still be finished by all.
    fn seal(&mut self, effects: &mut Vec<Effect>) {
        self.sealing = true;
        match self.phase {
            // A promised vote may have been heard.
            Phase::Collecting | Phase::Combining if self.promised.is_none() => {
                self.phase = Phase::Resting;
            }
            Phase::Collecting
            | Phase::Combining
            | Phase::Pledging(_)
            | Phase::Voted
            | Phase::Applying(_)
            | Phase::Made { .. }
            | Phase::Resting
            | Phase::Following => {}
        }
        self.progress(effects);
    }

    /// The coordinator saw every slice at this version and at least one that rests there, so none
    /// can leave it.
    fn cut_here(&mut self, step: Step, effects: &mut Vec<Effect>) {
        if step != self.step || self.cutting.is_some() || !self.is_primary() {
            return;
        }
        assert!(
            !matches!(self.phase, Phase::Applying(_) | Phase::Made { .. }),
            "a resting slice withholds its vote"
        );
        self.phase = Phase::Resting;
        self.cut(effects);
    }
}
