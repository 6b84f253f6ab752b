//! From a covered step to the next version: sum, vote, decide, apply, record.

use super::{Effect, Phase, RECORDS, Shard};
use crate::id::Step;
use crate::message::{ShardReport, SliceSays, StepRecord};
use crate::vote::{Action, Decision, Flags, Vote, decide};

impl Shard {
    /// Moves on as far as what is there allows.
    pub(super) fn advance(&mut self, effects: &mut Vec<Effect>) {
        if self.phase == Phase::Collecting
            && self.may_record()
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
        let weight = self.total(|stored| stored.weight);
        effects.push(Effect::Apply {
            step: self.step,
            action: decision.action,
            weight,
        });
    }

    /// Whether the ledger's backlog has room for one more step.
    pub(super) fn may_record(&self) -> bool {
        self.records.len() < RECORDS
    }

    fn halt(&mut self, blocks: Vec<u32>, effects: &mut Vec<Effect>) {
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
        let flags = Flags {
            busy: self.cutting.is_some(),
            stop: self.wanted.stop || rest,
            ..self.wanted
        };
        let (timeline, step, slice) = (self.origin.timeline, self.step, self.slice());
        let vote = Vote {
            timeline,
            step,
            slice,
            squares,
            non_finite,
            flags,
        };
        self.phase = Phase::Voted;
        for other in self.rules.slices.ids().filter(|other| *other != slice) {
            effects.push(Effect::Tell(other, SliceSays::Vote(vote.clone())));
        }
        self.votes.entry(step).or_default().insert(slice, vote);
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
        self.record(decision, digests, effects);
        for (_, stored) in std::mem::take(&mut self.nodes) {
            effects.push(Effect::Free(stored.tensor));
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
    }

    pub(super) fn cut(&mut self, effects: &mut Vec<Effect>) {
        assert!(self.cutting.is_none(), "one cut in flight");
        self.cutting = Some(self.step);
        effects.push(Effect::Cut(self.step));
    }

    fn record(&mut self, decision: Decision, digests: Vec<[u8; 32]>, effects: &mut Vec<Effect>) {
        let stored: u64 = self.nodes.values().map(|stored| stored.samples).sum();
        let discarded = std::mem::take(&mut self.discarded);
        let mut record = StepRecord {
            slice: self.slice(),
            timeline: self.origin.timeline,
            step: self.step,
            nodes: self.contributors(),
            samples: stored,
            loss_sum: self.total(|stored| stored.loss_sum),
            weight: self.total(|stored| stored.weight),
            skipped: false,
            cut: decision.cut,
            cut_missed: decision.cut_missed,
            digests,
            discarded,
        };
        if decision.action == Action::Skip {
            // Nothing of it is applied; what was there differs from slice to slice.
            record = StepRecord {
                nodes: Vec::new(),
                samples: 0,
                loss_sum: 0.0,
                weight: 0.0,
                skipped: true,
                discarded: discarded.saturating_add(stored),
                ..record
            };
        }
        effects.push(Effect::Report(ShardReport::Committed(record.clone())));
        self.records.insert(self.step, record);
    }
}
