//! Audits: leaves that two members evaluated, compared, and a difference settled (PROTOCOL 33).
//!
//! Nothing waits for an audit, and nothing is undone by one: it names the member whose bits are
//! wrong, and the committed steps that it contributed to.

mod opinions;

use serde::{Deserialize, Serialize};

use super::{Effect, Job};
use crate::fact::{Fact, Touched};
use crate::id::{Incarnation, PartitionId, Step};
use crate::message::{CoordinatorSays, LEAVES, Opinion, Question};
use crate::sorted::{SortedMap, SortedSet};
use crate::time::Time;
use opinions::{Judgement, Opinions};

/// Steps whose leaves can be under audit at once; beyond, the oldest leaf is given up and counted.
const OPEN_STEPS: usize = 64;

/// Steps after which an opinion that did not come is asked for: an auditor's is a step or two later
/// than the step, since its own work comes first.
const OVERDUE_STEPS: u64 = 3;

/// Members whose contributions are remembered.
const TOUCHED_LIMIT: usize = 4096;

/// Numbers that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditCounts {
    /// Leaves of which two members have the same bits.
    pub agreed: u64,
    /// Leaves drawn that no second member evaluated.
    pub unaudited: u64,
    /// Leaves of which two evaluations differ.
    pub differing: u64,
}

/// All audits of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Audits {
    open: SortedMap<(Step, PartitionId), Leaf>,
    /// Who audits what from the newest plan on.
    auditors: SortedMap<PartitionId, Incarnation>,
    audits: SortedMap<Incarnation, Vec<PartitionId>>,
    /// What this event made members to be asked.
    questions: SortedMap<(Incarnation, Step), Vec<Question>>,
    /// Steps that a member contributed to.
    touched: SortedMap<Incarnation, Touched>,
    pub(super) counts: AuditCounts,
}

#[derive(Clone, Debug)]
struct Leaf {
    opinions: Opinions,
    since: Time,
    /// Who was asked for one evaluation more than these.
    asked: SortedMap<Incarnation, u32>,
    /// Who has the weights no more.
    without: SortedSet<Incarnation>,
    /// Who was named as wrong.
    named: SortedSet<Incarnation>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// A difference was told and is being settled.
    Differing,
    /// Kept, so that a late opinion is compared too.
    Over,
}

impl Job {
    /// Who audits which partitions from now on: for each the holder of another one, spread evenly.
    pub(super) fn audits_of(&self, member: Incarnation) -> Vec<PartitionId> {
        self.audits.audits.get(&member).cloned().unwrap_or_default()
    }

    /// Deals the audits out to those who hold something by the new plan.
    pub(super) fn deal_audits(&mut self) {
        if self.rules.audit.rate <= 0.0 {
            return;
        }
        self.audits.auditors.clear();
        self.audits.audits.clear();
        let standing = |held: &Vec<super::leases::Held>| held.last().map(|lease| lease.holder);
        let holders: SortedSet<Incarnation> = self.leases.values().filter_map(standing).collect();
        let holders: Vec<Incarnation> = holders.into_iter().collect();
        let others = holders.len().saturating_sub(1);
        for (partition, held) in self.leases.iter() {
            let holder = standing(held).and_then(|holder| holders.binary_search(&holder).ok());
            let (Some(holder), false) = (holder, others == 0) else {
                continue;
            };
            let place = partition.0 as usize % others;
            let auditor = holders[if place < holder { place } else { place + 1 }];
            self.audits.auditors.insert(*partition, auditor);
            let audits = self.audits.audits.entry(auditor).or_default();
            audits.push(*partition);
        }
    }

    /// A member's evaluation of a leaf.
    pub(super) fn opinion(
        &mut self,
        now: Time,
        by: Incarnation,
        opinion: Opinion,
        effects: &mut Vec<Effect>,
    ) {
        let Opinion {
            timeline,
            step,
            partition,
            evaluations,
            digest,
        } = opinion;
        let contributes = self.rules.sampling.with_samples(step).contains(partition);
        let drawn = contributes && self.rules.audit.draws(step, partition);
        if timeline != self.branch.timeline || !drawn || self.is_past(step) {
            return;
        }
        let key = (step, partition);
        let leaf = self.audits.open.entry(key).or_insert_with(|| Leaf {
            opinions: Opinions::default(),
            since: now,
            asked: SortedMap::new(),
            without: SortedSet::new(),
            named: SortedSet::new(),
            state: State::Open,
        });
        match digest {
            Some(digest) => leaf.opinions.add(by, evaluations, digest),
            None => drop(leaf.without.insert(by)),
        }
        if leaf
            .asked
            .get(&by)
            .is_some_and(|known| evaluations > *known || digest.is_none())
        {
            leaf.asked.remove(&by);
        }
        self.judge(key, effects);
        let most = OPEN_STEPS * self.rules.tree.partitions() as usize;
        while self.audits.open.len() > most {
            let (_, leaf) = self.audits.open.pop_first().expect("it is over its limit");
            self.audits.counts.unaudited += u64::from(leaf.state == State::Open);
        }
    }

    /// Whether no member has the weights of the step any more.
    fn is_past(&self, step: Step) -> bool {
        step.0 + self.rules.audit.versions + 1 < self.low().0 && self.open_at(step).next().is_none()
    }

    fn open_at(&self, step: Step) -> impl Iterator<Item = ((Step, PartitionId), &Leaf)> {
        let (first, last) = (PartitionId(0), PartitionId(u32::MAX));
        let open = self.audits.open.range((step, first)..=(step, last));
        open.map(|(key, leaf)| (*key, leaf))
    }

    fn judge(&mut self, key: (Step, PartitionId), effects: &mut Vec<Effect>) {
        let (step, partition) = key;
        let leaf = self.audits.open.get_mut(&key).expect("the caller has it");
        let judgement = leaf.opinions.judge();
        let differs = match judgement {
            Judgement::Open | Judgement::Agreed => false,
            Judgement::Tied | Judgement::Wrong(_) => true,
        };
        if differs && leaf.state == State::Open {
            leaf.state = State::Differing;
            self.audits.counts.differing += 1;
            let members = leaf.opinions.members();
            effects.push(Effect::Tell(Fact::AuditDiffers {
                step,
                partition,
                members,
            }));
        }
        match judgement {
            Judgement::Open => {}
            Judgement::Agreed => {
                if leaf.state == State::Open {
                    leaf.state = State::Over;
                    self.audits.counts.agreed += 1;
                }
            }
            Judgement::Wrong(mut members) => {
                leaf.state = State::Over;
                members.retain(|member| leaf.named.insert(*member));
                for member in members {
                    self.wrong(member, step, partition, effects);
                }
            }
            Judgement::Tied => self.settle_difference(key, effects),
        }
    }

    /// Asks for one more evaluation: of a third member, else of both again.
    fn settle_difference(&mut self, key: (Step, PartitionId), effects: &mut Vec<Effect>) {
        let able: Vec<Incarnation> = self.active().collect();
        let leaf = self.audits.open.get_mut(&key).expect("the caller has it");
        if leaf.state == State::Over || !leaf.asked.is_empty() {
            return;
        }
        let able: Vec<Incarnation> = able
            .into_iter()
            .filter(|member| !leaf.without.contains(member))
            .collect();
        let third = able
            .iter()
            .find(|member| leaf.opinions.count(**member) == 0);
        let asked: Vec<Incarnation> = match third {
            Some(third) => vec![*third],
            None if leaf.state == State::Differing => {
                let once = |member: &&Incarnation| leaf.opinions.count(**member) == 1;
                able.iter().filter(once).copied().collect()
            }
            None => Vec::new(),
        };
        leaf.asked = asked
            .into_iter()
            .map(|member| (member, leaf.opinions.count(member)))
            .collect();
        if leaf.asked.is_empty() {
            return self.give_up(key, effects);
        }
        self.ask_for_opinions(key);
    }

    fn ask_for_opinions(&mut self, (step, partition): (Step, PartitionId)) {
        let timeline = self.branch.timeline;
        let Audits {
            open, questions, ..
        } = &mut self.audits;
        for (member, known) in &open[&(step, partition)].asked {
            let question = Question {
                timeline,
                step,
                partition,
                known: *known,
            };
            questions.entry((*member, step)).or_default().push(question);
        }
    }

    /// Asks at once what an event made members to be asked, each member of a step in one message.
    pub(super) fn ask_audits(&mut self, effects: &mut Vec<Effect>) {
        for ((member, _), questions) in std::mem::take(&mut self.audits.questions) {
            for part in questions.chunks(LEAVES) {
                let says = CoordinatorSays::Audit(part.to_vec());
                effects.push(Effect::Say(member, says));
            }
        }
    }

    /// Nobody is left who could say more.
    fn give_up(&mut self, (step, partition): (Step, PartitionId), effects: &mut Vec<Effect>) {
        let leaf = self.audits.open.get_mut(&(step, partition));
        let leaf = leaf.expect("the caller has it");
        match leaf.state {
            State::Open => self.audits.counts.unaudited += 1,
            State::Differing => {
                let members = leaf.opinions.members();
                effects.push(Effect::Tell(Fact::AuditUnsettled {
                    step,
                    partition,
                    members,
                }));
            }
            State::Over => {}
        }
        leaf.state = State::Over;
    }

    /// A member's bits are wrong: it is named and fenced, and what it did stays (PROTOCOL 33).
    fn wrong(
        &mut self,
        member: Incarnation,
        step: Step,
        partition: PartitionId,
        effects: &mut Vec<Effect>,
    ) {
        let touched = self.audits.touched.get(&member).copied();
        effects.push(Effect::Tell(Fact::Wrong {
            step,
            partition,
            member,
            touched,
        }));
        if self.members.has(member) {
            let cause = format!(
                "its gradient of partition {partition} at step {step} has other bits than those \
                 of other members"
            );
            effects.push(Effect::Tell(Fact::Fenced {
                member,
                cause: cause.clone(),
            }));
            effects.push(Effect::Fence(member, cause));
        }
    }

    /// Notes who contributed to a committed step.
    pub(super) fn touch(&mut self, step: Step, members: impl Iterator<Item = Incarnation>) {
        if self.rules.audit.rate <= 0.0 {
            return;
        }
        let members: SortedSet<Incarnation> = members.collect();
        for member in members {
            let touched = self.audits.touched.entry(member).or_insert(Touched {
                first: step,
                last: step,
                steps: 0,
            });
            (touched.last, touched.steps) = (step, touched.steps + 1);
        }
        while self.audits.touched.len() > TOUCHED_LIMIT {
            self.audits.touched.pop_first();
        }
    }

    /// Whoever was asked and is gone will not answer.
    pub(super) fn audit_lost(&mut self, lost: Incarnation, effects: &mut Vec<Effect>) {
        let open: Vec<(Step, PartitionId)> = self.audits.open.keys().copied().collect();
        for key in open {
            let leaf = self.audits.open.get_mut(&key).expect("just listed");
            if leaf.asked.remove(&lost).is_some() && leaf.asked.is_empty() {
                self.settle_difference(key, effects);
            }
        }
    }

    /// A step is committed: what one member alone said of leaves some steps ago is not on its way
    /// any more, so that another one is asked at once.
    pub(super) fn audits_overdue(&mut self, committed: Step) {
        let Some(before) = committed.0.checked_sub(OVERDUE_STEPS).map(Step) else {
            return;
        };
        let overdue = self.open_at(before);
        let alone = overdue.filter(|(_, leaf)| leaf.state == State::Open && leaf.asked.is_empty());
        let alone: Vec<(Step, PartitionId)> = alone.map(|(key, _)| key).collect();
        for key in alone {
            self.ask_another(key);
        }
    }

    /// Asks a member that has not spoken, if there is one; whoever audits the leaf now comes first.
    fn ask_another(&mut self, key: (Step, PartitionId)) {
        let leaf = &self.audits.open[&key];
        let silent = |member: &Incarnation| {
            leaf.opinions.count(*member) == 0 && !leaf.without.contains(member)
        };
        let able = |member: &Incarnation| self.members.accepting().contains(member);
        let auditor = self.audits.auditors.get(&key.1).copied();
        let auditor = auditor.filter(|auditor| able(auditor) && silent(auditor));
        let Some(other) = auditor.or_else(|| self.active().find(silent)) else {
            return;
        };
        let leaf = self.audits.open.get_mut(&key).expect("just seen");
        leaf.asked.insert(other, 0);
        self.ask_for_opinions(key);
    }

    /// Asks again, asks for what did not come, and forgets what is over.
    pub(super) fn audits_again(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let open: Vec<(Step, PartitionId)> = self.audits.open.keys().copied().collect();
        let kept = self.low().0.saturating_sub(self.rules.audit.versions + 1);
        for key in open {
            let leaf = &self.audits.open[&key];
            let late = leaf.since + self.rules.retry() <= now;
            match leaf.state {
                State::Over if key.0.0 < kept => drop(self.audits.open.remove(&key)),
                State::Over => {}
                State::Open | State::Differing if !leaf.asked.is_empty() => {
                    self.ask_for_opinions(key);
                }
                State::Open if !late => {}
                State::Open | State::Differing => self.settle_difference(key, effects),
            }
        }
    }

    /// Whether somebody may still answer: the end of a run waits for it, for a moment.
    pub(super) fn awaits_audits(&self) -> bool {
        let open = |leaf: &Leaf| leaf.state != State::Over;
        self.audits.open.values().any(open) && self.active().count() > 1
    }
}
