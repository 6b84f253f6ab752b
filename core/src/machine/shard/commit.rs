//! From a covered step to the next version: sum, vote, decide, apply, record.

use super::{Effect, Phase, RECORDS, Shard};
use crate::id::Step;
use crate::message::{ShardReport, SliceSays};
use crate::vote::{Action, Decision, Flags, Vote, decide};

impl Shard {
    /// Moves on as far as what is there allows.
    pub(super) fn advance(&mut self, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Collecting
            && self.may_record()
            && self.may_lead()
            && self.may_leave()
            && self.covered.includes(&self.with_samples)
        {
            self.phase = Phase::Combining;
            effects.push(Effect::Combine {
                step: self.step,
                nodes: self
                    .in_tree_order()
                    .map(|(node, stored)| (node, stored.tensor))
                    .collect(),
                weight: self.total(|stored| stored.weight),
            });
        }
        if self.phase == Phase::Voted
            && self.votes[&self.step].len() == usize::from(self.rules.slices.slices())
        {
            let decision = decide(&self.rules.votes, &self.votes[&self.step]);
            self.carry_out(decision, effects);
        }
    }

    fn carry_out(&mut self, decision: Decision, effects: &mut Vec<Effect>) {
        if decision.action == Action::Halt {
            let votes = self.votes[&self.step].values();
            let blocks = votes
                .flat_map(|vote| vote.non_finite.iter().copied())
                .collect();
            return self.halt(blocks, effects);
        }
        self.phase = Phase::Applying(decision);
        self.record_to_backup(effects);
        effects.push(Effect::Apply {
            step: self.step,
            action: decision.action,
            loss: self.loss(),
        });
    }

    /// Whether the ledger's backlog has room for one more step.
    pub(super) fn may_record(&self) -> bool {
        self.records.len() < RECORDS
    }

    pub(super) fn halt(&mut self, blocks: Vec<u32>, effects: &mut Vec<Effect>) {
        self.phase = Phase::Resting;
        self.halted = Some(blocks);
        self.tell_halt(effects);
    }

    /// Says that it halted, if it did.
    pub(super) fn tell_halt(&self, effects: &mut Vec<Effect>) {
        let (slice, timeline, step) = (self.slice(), self.origin.timeline, self.step);
        effects.extend(self.halted.clone().map(|blocks| {
            Effect::Report(ShardReport::Halted {
                slice,
                timeline,
                step,
                blocks,
            })
        }));
    }

    pub(super) fn cast(
        &mut self,
        squares: Vec<f64>,
        non_finite: Vec<u32>,
        effects: &mut Vec<Effect>,
    ) {
        let rest = self.rest_at.is_some_and(|at| at <= self.step.next());
        // What a backup kept for a lost primary may have been heard by others already.
        let vote = self.promised.take().unwrap_or_else(|| Vote {
            timeline: self.origin.timeline,
            step: self.step,
            slice: self.slice(),
            squares,
            non_finite,
            flags: Flags {
                busy: self.cutting.is_some(),
                stop: self.wanted.stop || rest,
                ..self.wanted
            },
        });
        self.pledge(vote, effects);
    }

    /// Lets all slices count on a vote; from here on it is never another.
    pub(super) fn send_vote(&mut self, vote: Vote, effects: &mut Vec<Effect>) {
        let slice = self.slice();
        self.phase = Phase::Voted;
        for other in self.rules.slices.ids().filter(|other| *other != slice) {
            effects.push(Effect::Tell(other, SliceSays::Vote(vote.clone())));
        }
        self.votes.entry(vote.step).or_default().insert(slice, vote);
    }

    pub(super) fn applied(
        &mut self,
        step: Step,
        digests: Vec<[u8; 32]>,
        finite: bool,
        effects: &mut Vec<Effect>,
    ) {
        let Phase::Applying(decision) = self.phase else {
            unreachable!("only `Apply` is answered by `Applied`")
        };
        assert_eq!(step, self.step, "one apply at a time");
        if !finite {
            return self.halt(Vec::new(), effects);
        }
        if self.awaits_record() {
            self.phase = Phase::Made { decision, digests };
        } else {
            self.publish(decision, digests, effects);
        }
    }

    /// Makes the new version the newest one, for all to see.
    pub(super) fn publish(
        &mut self,
        decision: Decision,
        digests: Vec<[u8; 32]>,
        effects: &mut Vec<Effect>,
    ) {
        let step = self.step;
        self.record(decision, digests, effects);
        for (_, stored) in std::mem::take(&mut self.nodes) {
            effects.push(Effect::Free(stored.tensor));
        }
        if let Some((_, root)) = self.inherited.take() {
            effects.push(Effect::Free(root));
        }
        // All slices voted for `step`, so all have version `step`: older votes are proven.
        self.votes.retain(|voted, _| *voted >= step);
        self.step = step.next();
        if decision.cut {
            self.wanted = Flags::default();
            self.cut(effects);
        }
        let rests = decision.stop || self.sealing;
        self.phase = if rests {
            Phase::Resting
        } else {
            Phase::Collecting
        };
        self.open(effects);
        self.copy_if_asked(effects);
    }

    pub(super) fn cut(&mut self, effects: &mut Vec<Effect>) {
        assert!(self.cutting.is_none(), "one cut in flight");
        self.cutting = Some(self.step);
        effects.push(Effect::Cut(self.step));
    }

    fn record(&mut self, decision: Decision, digests: Vec<[u8; 32]>, effects: &mut Vec<Effect>) {
        let summed = self.summed();
        self.discarded = 0;
        let record = summed.record(&self.origin, self.step, decision, digests);
        effects.push(Effect::Report(ShardReport::Committed(record.clone())));
        self.records.insert(self.step, record);
    }

    /// The open step's mean loss.
    fn loss(&self) -> f64 {
        match &self.inherited {
            Some((summed, _)) => summed.loss(),
            None => self.total(|stored| stored.loss_sum) / self.total(|stored| stored.weight),
        }
    }
}
