//! A backup at work: it acknowledges what it keeps, and applies it in order, until it is promoted.

use super::backup::{Backup, Kept, UNAPPLIED};
use super::record::{Pledge, Summed};
use super::view::Left;
use super::{Effect, Follower, Phase, RECORDS, Role, Shard};
use crate::id::{SliceId, Step, Tensor, View};
use crate::job::Bits;
use crate::message::ReplicaSays;
use crate::sorted::SortedMap;
use crate::vote::{Action, Decision, Flags, Vote, decide};

impl Shard {
    fn backup(&mut self) -> Option<&mut Backup> {
        match &mut self.role {
            Role::Backup(backup) if backup.promoted.is_none() => Some(backup),
            Role::Backup(_) | Role::Primary(_) => None,
        }
    }

    pub(super) fn heard_primary(&mut self, says: ReplicaSays, effects: &mut Vec<Effect>) {
        match says {
            ReplicaSays::Copy { step, votes, .. } => self.copy_offered(step, votes, effects),
            ReplicaSays::Pledge {
                vote,
                nodes,
                weight,
                loss_sum,
                discarded,
                ..
            } => {
                let summed = Summed {
                    nodes,
                    weight,
                    loss_sum,
                    discarded,
                };
                self.keep_pledge(Pledge { vote, summed }, effects);
            }
            ReplicaSays::Record { step, votes, .. } => self.keep_votes(step, votes, effects),
            // A backup's words: nobody says them to a backup.
            ReplicaSays::Pledged { .. }
            | ReplicaSays::Recorded { .. }
            | ReplicaSays::Lacks { .. } => {}
        }
    }

    /// Takes a copy that is newer than what is here and on its way. A version that is being made
    /// comes first: the kernel works in order.
    fn copy_offered(&mut self, step: Step, votes: Vec<Vote>, effects: &mut Vec<Effect>) {
        let has = self.has();
        let Some(backup) = self.backup() else {
            return;
        };
        let coming = backup.copying.as_ref().map(|(step, _)| *step);
        if has >= Some(step) {
            self.say_lacks(effects);
        } else if coming < Some(step) {
            backup.copying = Some((step, votes));
            effects.push(Effect::TakeCopy(step));
        }
    }

    pub(super) fn copied(&mut self, step: Step, effects: &mut Vec<Effect>) {
        let Some(backup) = self.backup() else {
            return;
        };
        let Some((_, votes)) = backup.copying.take_if(|(coming, _)| *coming == step) else {
            return;
        };
        let newer = backup.kept.split_off(&step);
        let older = std::mem::replace(&mut backup.kept, newer);
        free(older.into_values(), effects);
        backup.copied = true;
        backup.told = Some(step);
        assert_eq!(self.phase, Phase::Following, "the kernel works in order");
        self.step = step;
        self.origin.step = step;
        self.votes.clear();
        let previous = step.0.checked_sub(1).map(Step);
        let votes = self.all_votes(previous, votes);
        if let Some((previous, votes)) = previous.zip(votes) {
            self.votes.insert(previous, votes);
            self.origin.step = previous;
        }
        self.pin(effects);
        self.say_lacks(effects);
        self.follow(effects);
    }

    fn keep_pledge(&mut self, pledge: Pledge, effects: &mut Vec<Effect>) {
        let (step, version) = (pledge.vote.step, self.step);
        let own = pledge.vote.slice == self.slice();
        let Some(backup) = self.backup() else {
            return;
        };
        if own && backup.takes(version, step) {
            backup
                .kept
                .entry(step)
                .or_default()
                .pledge
                .get_or_insert(pledge);
            self.stand_by(step, effects);
            self.follow(effects);
        } else {
            self.acknowledge_again(step, effects);
        }
    }

    /// Acknowledges a pledge. Another evaluation of the step gives the same root only where bits are
    /// promised: elsewhere the root is a part of the pledge (PROTOCOL 12).
    fn stand_by(&self, step: Step, effects: &mut Vec<Effect>) {
        let Role::Backup(backup) = &self.role else {
            return;
        };
        let stands = |kept: &Kept| match self.rules.bits {
            Bits::On => kept.pledge.is_some(),
            Bits::Off => !kept.lacks_a_part(),
        };
        if backup.kept.get(&step).is_some_and(stands) {
            let view = self.origin.view;
            effects.push(Effect::Mirror(ReplicaSays::Pledged { view, step }));
        }
    }

    fn keep_votes(&mut self, step: Step, votes: Vec<Vote>, effects: &mut Vec<Effect>) {
        let version = self.step;
        let votes = self.all_votes(Some(step), votes);
        let Some(backup) = self.backup() else {
            return;
        };
        if backup.told > Some(step) {
            self.acknowledge_again(step, effects);
        } else if let Some(votes) = votes.filter(|_| backup.takes(version, step)) {
            let kept = backup.kept.entry(step).or_default();
            kept.votes.get_or_insert(votes);
            self.follow(effects);
        }
    }

    pub(super) fn root(
        &mut self,
        view: View,
        step: Step,
        tensor: Tensor,
        effects: &mut Vec<Effect>,
    ) {
        let (version, current) = (self.step, view == self.origin.view);
        if let Some(backup) = self.backup()
            && current
            && backup.takes(version, step)
        {
            let kept = backup.kept.entry(step).or_default();
            if kept.root.is_none() {
                kept.root = Some(tensor);
                if self.rules.bits == Bits::Off {
                    self.stand_by(step, effects);
                }
                return self.follow(effects);
            }
        }
        effects.push(Effect::Free(tensor));
    }

    /// The votes by slice, if they are those of all slices for the step.
    fn all_votes(&self, step: Option<Step>, votes: Vec<Vote>) -> Option<SortedMap<SliceId, Vote>> {
        let timeline = self.origin.timeline;
        let of_step = |vote: &Vote| Some(vote.step) == step && vote.timeline == timeline;
        let votes: SortedMap<SliceId, Vote> = votes
            .into_iter()
            .filter(of_step)
            .map(|vote| (vote.slice, vote))
            .collect();
        votes
            .keys()
            .copied()
            .eq(self.rules.slices.ids())
            .then_some(votes)
    }

    /// How the step is applied, if all that it takes is here.
    fn decided(&self, kept: &Kept) -> Option<Decision> {
        let (Some(_), Some(votes)) = (&kept.pledge, &kept.votes) else {
            return None;
        };
        let decision = decide(&self.rules.votes, votes);
        match decision.action {
            Action::Apply { .. } => kept.root.is_some().then_some(decision),
            Action::Skip => Some(decision),
            // It is never recorded.
            Action::Halt => None,
        }
    }

    /// The version that it can make of what it has, as far as it may promise: what it acknowledged it
    /// can apply and record at once when it is promoted. `None` without a copy.
    fn has(&self) -> Option<Step> {
        let Role::Backup(backup) = &self.role else {
            return None;
        };
        let mut has = self.step;
        let room = RECORDS.saturating_sub(self.records.len()) as u64;
        let most = Step(has.0 + UNAPPLIED.min(room));
        let complete = |step| backup.kept.get(&step).and_then(|kept| self.decided(kept));
        while has < most && complete(has).is_some() {
            has = has.next();
        }
        backup.copied.then_some(has)
    }

    /// Acknowledges what is newly complete, and applies the next step.
    fn follow(&mut self, effects: &mut Vec<Effect>) {
        let (has, view) = (self.has(), self.origin.view);
        let Role::Backup(backup) = &mut self.role else {
            return;
        };
        if has > backup.told
            && let Some(version) = has
        {
            backup.told = has;
            let step = Step(version.0 - 1);
            effects.push(Effect::Mirror(ReplicaSays::Recorded { view, step }));
        }
        self.apply_next(effects);
    }

    fn acknowledge_again(&self, step: Step, effects: &mut Vec<Effect>) {
        let (has, view) = (self.has(), self.origin.view);
        if let Some(version) = has.filter(|has| *has > step) {
            let step = Step(version.0 - 1);
            effects.push(Effect::Mirror(ReplicaSays::Recorded { view, step }));
        }
    }

    fn apply_next(&mut self, effects: &mut Vec<Effect>) {
        let Role::Backup(backup) = &self.role else {
            return;
        };
        let ready = backup.copied
            && backup.copying.is_none()
            && self.phase == Phase::Following
            && self.halted.is_none()
            && self.may_record();
        let Some(kept) = backup.kept.get(&self.step).filter(|_| ready) else {
            return;
        };
        let Some((decision, pledge)) = self.decided(kept).zip(kept.pledge.as_ref()) else {
            return;
        };
        let (step, action, loss) = (self.step, decision.action, pledge.summed.loss());
        match (action, kept.root) {
            (Action::Apply { .. }, Some(tensor)) => effects.push(Effect::Load { step, tensor }),
            (Action::Apply { .. } | Action::Skip | Action::Halt, _) => {}
        }
        self.phase = Phase::Applying(decision);
        self.pin_as_primary_did(effects);
        effects.push(Effect::Apply { step, action, loss });
    }

    /// The next version is made.
    pub(super) fn followed(
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
        self.phase = Phase::Following;
        if !finite {
            // The primary finds the same and publishes nothing.
            self.halted = Some(Vec::new());
            return self.serve_if_promoted(effects);
        }
        let Role::Backup(backup) = &mut self.role else {
            unreachable!("seen by the caller")
        };
        let kept = backup.kept.remove(&step).expect("it was applied");
        let (Some(pledge), Some(votes)) = (kept.pledge, kept.votes) else {
            unreachable!("a step is applied when all of it is here")
        };
        effects.extend(kept.root.map(Effect::Free));
        let record = pledge.summed.record(&self.origin, step, decision, digests);
        self.records.insert(step, record);
        self.votes = SortedMap::from([(step, votes)]);
        self.step = step.next();
        if decision.cut {
            self.wanted = Flags::default();
        }
        self.pin(effects);
        self.follow(effects);
        self.serve_if_promoted(effects);
    }

    /// Asks for what does not come; without a sign of the primary it may have sent anything.
    pub(super) fn look_for_more(&mut self, effects: &mut Vec<Effect>) {
        let has = self.has();
        let Some(backup) = self.backup() else {
            return;
        };
        let kept = &backup.kept;
        let lost = has.is_none() || kept.is_empty() || kept.values().any(Kept::lacks_a_part);
        let stuck = lost && backup.copying.is_none() && backup.seen == has;
        backup.seen = has;
        if stuck {
            self.say_lacks(effects);
        }
    }

    pub(super) fn say_lacks(&self, effects: &mut Vec<Effect>) {
        let (view, step) = (self.origin.view, self.has());
        effects.push(Effect::Mirror(ReplicaSays::Lacks { view, step }));
    }

    /// The copy that was on its way is lost; pledges that were acknowledged are kept.
    pub(super) fn primary_unlinked(&mut self) {
        if let Some(backup) = self.backup() {
            backup.copying = None;
        }
    }

    /// Takes the primary's place once all that can be applied is: then nothing is lost that anybody
    /// has seen.
    pub(super) fn promote(&mut self, follower: Option<Follower>, effects: &mut Vec<Effect>) {
        let Role::Backup(backup) = &mut self.role else {
            unreachable!("seen by the caller")
        };
        assert!(backup.copied, "a host promotes only what has something");
        backup.promoted = Some(follower);
        self.serve_if_promoted(effects);
    }

    fn serve_if_promoted(&mut self, effects: &mut Vec<Effect>) {
        let Role::Backup(backup) = &mut self.role else {
            return;
        };
        if self.phase != Phase::Following {
            return;
        }
        let Some(follower) = backup.promoted else {
            return;
        };
        let open = backup.kept.remove(&self.step).unwrap_or_default();
        free(std::mem::take(&mut backup.kept).into_values(), effects);
        let left = Left {
            pledge: open.pledge,
            root: open.root,
            votes: open.votes.unwrap_or_default(),
        };
        self.serve(follower, left, effects);
    }
}

fn free(kept: impl Iterator<Item = Kept>, effects: &mut Vec<Effect>) {
    effects.extend(kept.filter_map(|kept| kept.root).map(Effect::Free));
}
