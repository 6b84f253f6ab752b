//! New branches of history: what a rollback and a change of the slice layout have in common.
//!
//! All slices begin again at the base, on hosts that are there; receivers drop what belongs to lower
//! timelines (PROTOCOL 2, 4).

use super::{Effect, Job, SliceState};
use crate::fact::Fact;
use crate::id::{MapNumber, Step, Timeline};
use crate::machine::saver;
use crate::message::{Branch, SliceView};
use crate::time::Time;
use crate::tree::PartitionSet;

/// What is being written down for good.
#[derive(Clone, Debug)]
pub(super) enum Keeping {
    /// A branch, and why it begins.
    Branch(Branch, Why),
    /// Views, each with its cause.
    Views(Vec<(SliceView, String)>),
    /// A checkpoint: the branch that is to begin for this reason waits for what comes of it.
    Commit(String),
}

/// Why a branch begins.
#[derive(Clone, Debug)]
pub(super) enum Why {
    /// Something was lost.
    Lost(String),
    /// An operator wants another number of slices.
    Reshard,
}

impl SliceState {
    /// A slice at the base of a branch.
    pub(super) fn at(step: Step) -> Self {
        Self {
            step,
            seen: step,
            covered: PartitionSet::default(),
            pinned: None,
            resting: false,
            voted: false,
            behind: None,
        }
    }
}

impl Job {
    /// All slices go back to the newest version that is durable. While another is being committed
    /// it is not known which that is, and a branch from before would supersede lines of a version
    /// that is announced. The store does one after the other: waiting takes no longer.
    pub(super) fn roll_back(&mut self, cause: String, effects: &mut Vec<Effect>) {
        if self.hosting.committing.is_some() {
            self.hosting.keeping = Some(Keeping::Commit(cause));
            return;
        }
        let Branch { map, shards, .. } = self.branch;
        let base = self.durable.unwrap_or_default();
        self.keep_branch(map, shards, base, Why::Lost(cause), effects);
    }

    pub(super) fn commit(&mut self, version: Step, effects: &mut Vec<Effect>) {
        self.hosting.committing = Some(version);
        effects.push(Effect::Commit(version));
    }

    /// It is known what came of a commit.
    pub(super) fn commit_over(&mut self, version: Step, effects: &mut Vec<Effect>) {
        self.hosting.committing.take_if(|step| *step == version);
        let over = self.hosting.committing.is_none();
        let waits = |keeping: &mut Keeping| over && matches!(keeping, Keeping::Commit(_));
        if let Some(Keeping::Commit(cause)) = self.hosting.keeping.take_if(waits) {
            self.roll_back(cause, effects);
        }
    }

    pub(super) fn keep_branch(
        &mut self,
        map: MapNumber,
        shards: u16,
        base: Step,
        why: Why,
        effects: &mut Vec<Effect>,
    ) {
        let (last, reign) = (self.hosting.last_timeline, self.settings.reign);
        let timeline = if last.reign == reign {
            last.next()
        } else {
            Timeline::first(reign)
        };
        self.hosting.last_timeline = timeline;
        let branch = Branch {
            timeline,
            map,
            shards,
            base,
        };
        effects.push(Effect::KeepBranch(branch));
        self.hosting.keeping = Some(Keeping::Branch(branch, why));
    }

    /// It is durable: from now on nothing of the branch before counts.
    pub(super) fn branch_kept(&mut self, now: Time, kept: Timeline, effects: &mut Vec<Effect>) {
        let current = |keeping: &mut Keeping| match keeping {
            Keeping::Branch(branch, _) => branch.timeline == kept,
            Keeping::Views(_) | Keeping::Commit(_) => false,
        };
        let Some(Keeping::Branch(branch, why)) = self.hosting.keeping.take_if(current) else {
            return;
        };
        self.hosting.trouble = None;
        self.begin(now, branch, effects);
        match why {
            Why::Lost(cause) => {
                let base = branch.base;
                effects.push(Effect::Tell(Fact::Rollback { base, cause }));
            }
            Why::Reshard => {
                self.hosting.reshard = None;
                let Branch { base, shards, .. } = branch;
                effects.push(Effect::Tell(Fact::Resharded { base, shards }));
            }
        }
    }

    /// Whether something can be written down: one write is under way at a time.
    pub(super) fn may_keep(&self, now: Time) -> bool {
        let trouble = self.hosting.trouble.as_ref();
        self.hosting.keeping.is_none() && trouble.is_none_or(|(until, _)| *until <= now)
    }

    /// Nothing was written: it is decided anew, under another number, after a while.
    pub(super) fn keep_failed(&mut self, now: Time, reason: String) {
        if self.hosting.keeping.take().is_some() {
            self.hosting.trouble = Some((now + self.rules.retry(), reason));
        }
    }

    /// Nobody can begin at a damaged checkpoint: all go back to an older one. Hosts that failed to
    /// begin there are not to blame.
    pub(super) fn base_damaged(&mut self, newest: Option<Step>, effects: &mut Vec<Effect>) {
        let branch = |keeping: &mut Keeping| matches!(keeping, Keeping::Branch(..));
        let Some(Keeping::Branch(branch, why)) = self.hosting.keeping.take_if(branch) else {
            return;
        };
        let damaged = format!("the checkpoint of step {} is damaged", branch.base);
        self.durable = newest;
        for host in self.hosting.hosts.values_mut() {
            host.unfit = None;
        }
        self.degraded = Some(damaged.clone());
        let cause = damaged.clone();
        effects.push(Effect::Tell(Fact::Degraded { cause }));
        let cause = match why {
            Why::Lost(cause) => cause,
            // The change of the layout is tried again from there.
            Why::Reshard => damaged,
        };
        self.roll_back(cause, effects);
    }

    /// Everything that was known of the slices is of a branch that is left.
    fn begin(&mut self, now: Time, branch: Branch, effects: &mut Vec<Effect>) {
        let base = branch.base;
        self.leave_unscored(base, effects);
        self.branch = branch;
        self.hosting.failed = None;
        self.rules.slices = self.rules.slices.with_slices(branch.shards);
        self.views.clear();
        let slices = self.rules.slices.ids();
        self.slices = slices.map(|slice| (slice, SliceState::at(base))).collect();
        self.records.clear();
        self.recorded = base;
        let gone = self.chain.split_off(&base.next());
        self.settings.superseded.extend(gone);
        self.suspects.clear();
        self.evaluation = None;
        self.metrics.split_off(&base.next());
        self.untaken.clear();
        self.unscored.split_off(&base.next());
        self.judged = base;
        self.commits.clear();
        self.progress.go_back(now, base);
        (self.at_last, self.unsaved) = (None, None);
        self.halted.clear();
        if let Some(stop) = &mut self.stop {
            stop.begin_again(now);
        }
        self.leases.alter_where(
            |held| !held.is_empty(),
            |held| {
                let standing = held.pop().filter(|lease| lease.until.is_none());
                held.clear();
                held.extend(standing.map(|lease| super::leases::Held {
                    from: base,
                    given: now,
                    ..lease
                }));
            },
        );
        (self.hosting.taken, self.hosting.gap) = (base, None);
        self.hosting.synced.clear();
        self.hosting.fresh.clear();
        self.hosting.backlogs.clear();
        self.hosting.unheard.clear();
        self.hosting.patience = Some(now + self.rules.lease);
        let slices = branch.shards;
        effects.push(Effect::Saver(saver::Event::Branch(slices, base)));
        self.replan(effects);
    }
}
