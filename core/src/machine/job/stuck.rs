//! Members that live and do not get on (PROTOCOL 17).
//!
//! A partition that is not covered at its progress deadline is asked of an idle member as well, and
//! the first result wins. Only whoever is beaten by a later copy several steps in a row is fenced:
//! slow times for all fence nobody, and whoever is alone is waited for.

use std::collections::VecDeque;

use super::crew::{Reach, State};
use super::{Effect, Job};
use crate::fact::Fact;
use crate::id::{Incarnation, PartitionId, Step};
use crate::machine::turns::Turns;
use crate::message::{Contributor, CoordinatorSays};
use crate::sorted::{SortedMap, SortedSet};
use crate::time::{Span, Time};
use crate::tree::PartitionSet;

/// A step is late after so many times the usual length.
const USUAL: u64 = 5;
/// A joiner dials, pulls weights and reads rows for the first time within so many deadlines.
const FIRST_ALLOWANCE: u64 = 4;
/// Whoever was beaten in so many steps in a row is fenced.
const STRIKES: u32 = 3;
/// Steps whose lengths are remembered.
const LENGTHS: usize = 15;
/// Steps after which a member that was late is told of again, if it is late still or anew: on a busy
/// machine somebody is late for nearly every step.
const TELL_AGAIN: u64 = 100;
/// Steps whose copies wait for their record; more are not judged.
const JUDGED: usize = 64;

/// A partition of the open step that somebody else was asked for as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Backup {
    holder: Incarnation,
    by: Incarnation,
    since: Time,
}

/// What was told of a member that is late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lateness {
    /// The newest step that it was late for.
    newest: Option<Step>,
    /// The newest of those that was told.
    told: Option<Step>,
    /// How many were not, since then.
    untold: u64,
}

impl Lateness {
    /// It is late for the step: if that is to be told, how many steps before it were not.
    fn late_for(&mut self, step: Step) -> Option<u64> {
        if self.newest.replace(step) == Some(step) {
            return None;
        }
        // After a rollback steps are lower than before, and that is worth a word.
        let silent = |told: Step| step > told && step.0 - told.0 < TELL_AGAIN;
        if self.told.is_some_and(silent) {
            self.untold += 1;
            return None;
        }
        self.told = Some(step);
        Some(std::mem::take(&mut self.untold))
    }
}

/// How the open step gets on.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress {
    step: Step,
    /// Since when it is the lowest open one.
    opened: Time,
    lengths: VecDeque<Span>,
    /// The newest step that needed copies.
    copied: Option<Step>,
    backups: SortedMap<Step, SortedMap<PartitionId, Backup>>,
    turns: Turns,
}

impl Progress {
    /// A run that begins at `base`.
    pub(super) fn new(base: Step) -> Self {
        Self {
            step: base,
            ..Self::default()
        }
    }

    /// The clock of the first step starts.
    pub(super) fn begin(&mut self, now: Time) {
        self.opened = now;
    }

    /// All slices begin again at an earlier step, as fast as before.
    pub(super) fn go_back(&mut self, now: Time, base: Step) {
        (self.step, self.opened, self.copied) = (base, now, None);
        self.backups.clear();
    }

    /// The open step is now this one. A step that needed copies says little of how long steps take:
    /// it lengthens what is usual by a quarter at most, or a stuck member would buy itself time.
    fn at(&mut self, now: Time, step: Step, lease: Span) {
        if step <= self.step {
            return;
        }
        let mut length = now.since(self.opened).part(step.0 - self.step.0);
        if self.copied == Some(self.step) {
            length = length.min(self.usual().max(lease.part(USUAL)).times(5).part(4));
        }
        self.lengths.push_back(length);
        if self.lengths.len() > LENGTHS {
            self.lengths.pop_front();
        }
        (self.step, self.opened) = (step, now);
    }

    fn usual(&self) -> Span {
        let mut lengths: Vec<Span> = self.lengths.iter().copied().collect();
        lengths.sort_unstable();
        lengths.get(lengths.len() / 2).copied().unwrap_or_default()
    }
}

impl Job {
    /// How long a step may take before others are asked for what it lacks.
    pub(super) fn patience(&self) -> Span {
        self.rules.lease.max(self.progress.usual().times(USUAL))
    }

    /// When the open step is late, if it is not yet.
    pub(super) fn late_at(&self) -> Option<Time> {
        let at = self.progress.opened + self.patience();
        (at > self.now && self.is_open()).then_some(at)
    }

    /// Whether somebody is waited for.
    pub(super) fn is_open(&self) -> bool {
        let over = self.low() == self.rules.last() || self.resting_at().is_some();
        self.ending.is_none() && !over && !self.is_unserved()
    }

    /// Whether the open step takes longer than it may.
    pub(super) fn is_late(&self) -> bool {
        self.is_open() && self.progress.opened + self.patience() <= self.now
    }

    /// The newest step that a slice has said it is at. Of the steps before it nothing is missing,
    /// also where other slices are heard late: all have voted on them.
    pub(super) fn reached(&self) -> Step {
        let said = self.slices.values().map(|slice| slice.seen).max();
        said.unwrap_or_default().max(self.low())
    }

    /// What the newest step lacks, by holder.
    pub(super) fn late_by_holder(&self) -> SortedMap<Incarnation, Vec<PartitionId>> {
        let mut late: SortedMap<Incarnation, Vec<PartitionId>> = SortedMap::new();
        for (partition, (holder, _)) in self.missing_at(self.reached()) {
            late.entry(holder).or_default().push(partition);
        }
        late
    }

    /// Whether the open step takes so long that people are told whom it waits for: well before
    /// anybody is asked for a copy.
    pub(super) fn is_slow(&self, now: Time) -> bool {
        let usual = self.progress.usual().times(2);
        let patience = self.rules.lease.part(4).max(usual);
        self.is_open() && self.progress.opened + patience <= now
    }

    /// Looks at the open step after every event.
    pub(super) fn watch_progress(&mut self, effects: &mut Vec<Effect>) {
        self.progress.at(self.now, self.low(), self.rules.lease);
        if !self.is_late() {
            self.progress.turns = Turns::default();
            return;
        }
        let all = self.members.len() + self.rules.tree.partitions() as usize;
        if !self.progress.turns.take(all) {
            return;
        }
        let missing = self.missing_at(self.low());
        let late: Vec<(PartitionId, Incarnation)> = missing
            .iter()
            .filter(|(_, (_, since))| *since <= self.now)
            .map(|(partition, (holder, _))| (*partition, *holder))
            .filter(|(partition, _)| !self.is_backed_up(*partition))
            .collect();
        if !late.is_empty() {
            let busy = missing.values().map(|(holder, _)| *holder).collect();
            let idle = self.idle(busy);
            self.tell_late(&late, effects);
            self.back_up(&late, &idle, effects);
        }
    }

    /// What a step lacks: its holder, and when this one is late with it.
    fn missing_at(&self, step: Step) -> SortedMap<PartitionId, (Incarnation, Time)> {
        let patience = self.patience();
        let uncovered = self.uncovered_at(step);
        let late = |partition: PartitionId| {
            let held = self.leases.get(partition).iter();
            let lease = held.clone().find(|lease| lease.covers(step))?;
            let state = self.members.get(lease.holder)?;
            let allowance = match state.proven {
                true => patience,
                false => patience.times(FIRST_ALLOWANCE),
            };
            let since = self.progress.opened.max(lease.given) + allowance;
            Some((partition, (lease.holder, since)))
        };
        uncovered.iter().filter_map(late).collect()
    }

    /// Partitions with samples that some slice lacks at the step.
    pub(super) fn uncovered_at(&self, step: Step) -> PartitionSet {
        let lacks = |partition: &PartitionId| {
            let mut slices = self.slices.values();
            slices.any(|slice| slice.step == step && !slice.covered.contains(*partition))
        };
        let with_samples = self.rules.sampling.with_samples(step);
        with_samples.iter().filter(lacks).collect()
    }

    /// Whether a copy is under way that is not late itself.
    fn is_backed_up(&self, partition: PartitionId) -> bool {
        let open = self.progress.backups.get(&self.progress.step);
        let backup = open.and_then(|backups| backups.get(&partition));
        backup.is_some_and(|backup| backup.since + self.patience() > self.now)
    }

    /// Members that have nothing to do for the open step.
    fn idle(&self, mut busy: SortedSet<Incarnation>) -> Vec<Incarnation> {
        let open = self.progress.backups.get(&self.progress.step);
        let uncovered = self.uncovered_at(self.progress.step);
        let copying = open.into_iter().flatten();
        busy.extend(
            copying
                .filter(|(partition, _)| uncovered.contains(**partition))
                .map(|(_, backup)| backup.by),
        );
        let reaches = |member: &Incarnation| {
            let reach = self.members.get(*member).map(State::reach);
            reach == Some(Reach::Full)
        };
        let able = self.active().filter(reaches);
        able.filter(|member| !busy.contains(member)).collect()
    }

    /// Names who is late, each as often as its `Lateness` allows.
    fn tell_late(&mut self, late: &[(PartitionId, Incarnation)], effects: &mut Vec<Effect>) {
        let step = self.progress.step;
        let members: SortedSet<Incarnation> = late.iter().map(|(_, member)| *member).collect();
        for member in members {
            let Some(state) = self.members.get_mut(member) else {
                continue;
            };
            if let Some(untold) = state.lateness.late_for(step) {
                effects.push(Effect::Tell(Fact::Late {
                    step,
                    member,
                    name: state.name.clone(),
                    untold,
                }));
            }
        }
    }

    /// Shares the late partitions out among the idle members, in runs of neighbours.
    fn back_up(
        &mut self,
        late: &[(PartitionId, Incarnation)],
        idle: &[Incarnation],
        effects: &mut Vec<Effect>,
    ) {
        if idle.is_empty() {
            return;
        }
        let (step, since) = (self.progress.step, self.now);
        let share = late.len().div_ceil(idle.len());
        self.progress.copied = Some(step);
        let backups = self.progress.backups.entry(step).or_default();
        for (part, by) in late.chunks(share).zip(idle.iter().copied()) {
            for (partition, holder) in part.iter().copied() {
                let backup = Backup { holder, by, since };
                backups.insert(partition, backup);
            }
        }
        if self.progress.backups.len() > JUDGED {
            self.progress.backups.pop_first();
        }
        self.backups_again(effects);
    }

    /// Tells again who copies what; questions may have been lost.
    pub(super) fn backups_again(&self, effects: &mut Vec<Effect>) {
        let step = self.progress.step;
        let Some(backups) = self.progress.backups.get(&step) else {
            return;
        };
        let uncovered = self.uncovered_at(step);
        let mut parts: SortedMap<Incarnation, PartitionSet> = SortedMap::new();
        for (partition, backup) in backups {
            if uncovered.contains(*partition) && self.members.has(backup.by) {
                parts.entry(backup.by).or_default().insert(*partition);
            }
        }
        let timeline = self.branch.timeline;
        for (by, partitions) in parts {
            let says = CoordinatorSays::Backup {
                timeline,
                step,
                partitions,
            };
            effects.push(Effect::Say(by, says));
        }
    }

    /// What a lost member was to copy is asked of others.
    pub(super) fn backup_lost(&mut self, lost: Incarnation) {
        if let Some(backups) = self.progress.backups.get_mut(&self.progress.step) {
            backups.retain(|_, backup| backup.by != lost);
        }
    }

    /// A step is in the ledger: who was beaten by a later copy, and who was not.
    pub(super) fn judge_backups(
        &mut self,
        step: Step,
        nodes: &[Contributor],
        effects: &mut Vec<Effect>,
    ) {
        for node in nodes {
            if let Some(state) = self.members.get_mut(node.incarnation) {
                state.proven = true;
            }
        }
        let backups = self.progress.backups.remove(&step).unwrap_or_default();
        let mut beaten = SortedSet::new();
        for (partition, backup) in &backups {
            let covers = |c: &&Contributor| (c.node.first()..c.node.end()).contains(&partition.0);
            let first = nodes.iter().find(covers).map(|c| c.incarnation);
            if first == Some(backup.by) && backup.by != backup.holder {
                beaten.insert(backup.holder);
            }
        }
        let contributed: SortedSet<Incarnation> = nodes.iter().map(|c| c.incarnation).collect();
        for (member, state) in self.members.iter_mut() {
            if beaten.contains(&member) {
                state.strikes += 1;
            } else if contributed.contains(&member) {
                state.strikes = 0;
            }
        }
        self.fence_stuck(step, effects);
    }

    /// At most one a step: whoever takes its place shows first that it can.
    fn fence_stuck(&mut self, step: Step, effects: &mut Vec<Effect>) {
        let stuck = self.members.iter_mut().find(|(_, s)| s.strikes >= STRIKES);
        let Some((member, state)) = stuck else {
            return;
        };
        state.strikes = 0;
        let cause = format!(
            "it is stuck: what it was asked for in the {STRIKES} steps up to {step} was evaluated \
             later and sooner elsewhere"
        );
        effects.push(Effect::Tell(Fact::Fenced {
            member,
            cause: cause.clone(),
        }));
        effects.push(Effect::Fence(member, cause));
    }
}
