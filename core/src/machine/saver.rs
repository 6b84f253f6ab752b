//! **Saver**: turns the slices' cuts into checkpoints: all or nothing, one at a time.
//!
//! A step is announced as durable only when manifest and commit record are (PROTOCOL 25), and these
//! are written only after the ledger has every line up to it (PROTOCOL 26). Trouble with the store
//! never stops training: the cut is given up and the state is *degraded* until one succeeds.

use crate::id::{SliceId, Step};
use crate::sorted::{SortedMap, SortedSet};
use crate::time::{Span, Time};

#[cfg(test)]
mod tests;

/// What happens to the saver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A slice has copied the version and its file is being written.
    Begun(SliceId, Step),
    /// The slice's file is durable.
    Written(SliceId, Step),
    /// Manifest and commit record are durable.
    Committed(Step),
    /// A slice's file of the cut, or with `None` its commit, failed.
    Failed(Option<SliceId>, Step, String),
    /// The ledger has every line up to this version.
    Recorded(Step),
    /// A slice says that it is busy with the cut of this version.
    Cutting(SliceId, Step),
    /// Another process serves the slice: what the one before was to cut, of versions up to this one,
    /// will not come (PROTOCOL 24).
    Promoted(SliceId, Step),
    /// All slices begin a new branch: so many of them, at this version.
    Branch(u16, Step),
    /// The run halted: no cut becomes durable any more.
    Over,
    /// The deadline passed.
    Tick,
}

/// What the shell does for the saver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask every slice to cut at its next vote.
    RequestCut,
    /// Tell the job: all files are there, have the version committed.
    Commit(Step),
    /// Tell the job: the commit failed.
    NotCommitted(Step),
    /// Remove what was written of the cut.
    Abandon(Step),
    /// Tell every slice that the cut is over.
    CutOver(Step),
    /// Tell one slice, which has not heard it.
    CutOverAt(SliceId, Step),
    /// Tell the job: the version is durable.
    Durable(Step),
    /// Tell the job: persistence is degraded, for this reason.
    Degraded(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    /// A part that failed ends its slice's share too: only when all have ended does nothing of this
    /// try come any more that could count for the next one.
    Writing {
        ended: SortedSet<SliceId>,
        failed: Option<String>,
    },
    /// The outcome is unknown until the store tells it.
    Committing,
}

#[derive(Clone, Debug)]
struct Cut {
    step: Step,
    stage: Stage,
    /// When it is said to take too long.
    late_at: Option<Time>,
}

/// The machine of a run's checkpoints.
#[derive(Clone, Debug)]
pub struct Saver {
    slices: u16,
    interval: Option<Span>,
    /// A cut that takes longer is given up: a store call may hang for ever on a full disk.
    patience: Span,
    cut: Option<Cut>,
    /// A cut that a slice has and nobody else knows of.
    unknown: Option<(Step, Time)>,
    durable: Option<Step>,
    recorded: Step,
    last_at: Option<Time>,
    requested: Option<Time>,
    saved: u64,
    over: bool,
    /// Slices whose cuts up to a version went with the process that served them.
    missing: SortedMap<SliceId, Step>,
}

impl Saver {
    /// A saver for a run of `slices` that has `durable` already, and every line up to the version
    /// `recorded` in its ledger; `interval` asks for a cut whenever that long passed since the last,
    /// `patience` bounds one.
    #[must_use]
    pub fn new(
        slices: u16,
        (durable, recorded): (Option<Step>, Step),
        interval: Option<Span>,
        patience: Span,
    ) -> Self {
        Self {
            slices,
            interval,
            patience,
            cut: None,
            unknown: None,
            durable,
            recorded: recorded.max(durable.unwrap_or_default()),
            last_at: None,
            requested: None,
            saved: 0,
            over: false,
            missing: SortedMap::new(),
        }
    }

    /// Takes one event.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        self.last_at.get_or_insert(now);
        match event {
            Event::Begun(slice, step) => {
                // Whatever was thought of it, the slice cuts the version itself.
                self.missing
                    .retain(|lost, upto| *lost != slice || *upto < step);
                self.begun(now, step, effects);
            }
            Event::Written(slice, step) => self.ended(now, slice, step, None, effects),
            Event::Committed(step) => self.committed(now, step, effects),
            Event::Failed(Some(slice), step, reason) => {
                self.ended(now, slice, step, Some(reason), effects);
            }
            Event::Failed(None, step, reason) => {
                if self.is_committing(step) {
                    self.give_up(now, step, reason, effects);
                    effects.push(Effect::NotCommitted(step));
                }
            }
            Event::Recorded(step) => {
                self.recorded = self.recorded.max(step);
                self.judge(now, effects);
            }
            Event::Cutting(slice, step) => self.cutting(now, slice, step, effects),
            Event::Promoted(slice, upto) => self.promoted(now, slice, upto, effects),
            Event::Branch(slices, base) => self.branched(now, slices, base, effects),
            Event::Over => self.halted(effects),
            Event::Tick => {}
        }
        self.lose_patience(now, effects);
        self.request(now, effects);
    }

    /// When `Tick` is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let late = self.cut.as_ref().and_then(|cut| cut.late_at);
        [late, self.due()].into_iter().flatten().min()
    }

    /// The newest announced version.
    #[must_use]
    pub fn durable(&self) -> Option<Step> {
        self.durable
    }

    /// Checkpoints made since the start.
    #[must_use]
    pub fn saved(&self) -> u64 {
        self.saved
    }

    /// When a cut is asked for, or asked for again: the order may have been lost.
    fn due(&self) -> Option<Time> {
        if self.cut.is_some() || self.over {
            return None;
        }
        let since = self.requested.or(self.last_at)?;
        Some(since + self.interval?)
    }

    fn request(&mut self, now: Time, effects: &mut Vec<Effect>) {
        if self.due().is_some_and(|at| at <= now) {
            self.requested = Some(now);
            effects.push(Effect::RequestCut);
        }
    }

    fn begun(&mut self, now: Time, step: Step, effects: &mut Vec<Effect>) {
        let current = self.cut.as_ref().map(|cut| cut.step);
        if current == Some(step) {
            return;
        }
        let committing = current.is_some_and(|current| self.is_committing(current));
        if self.is_over(step) || committing {
            return effects.push(Effect::CutOver(step));
        }
        // A slice's part may come after its cut was given up; the next cut shows that it was.
        if let Some(older) = current {
            let reason = format!("the checkpoint of step {older} lacks a slice");
            self.give_up(now, older, reason, effects);
        }
        (self.unknown, self.requested) = (None, None);
        self.cut = Some(Cut {
            step,
            stage: Stage::Writing {
                ended: SortedSet::new(),
                failed: None,
            },
            late_at: Some(now + self.patience),
        });
        self.judge(now, effects);
    }

    fn promoted(&mut self, now: Time, slice: SliceId, upto: Step, effects: &mut Vec<Effect>) {
        let known = self.missing.entry(slice).or_insert(upto);
        *known = upto.max(*known);
        self.judge(now, effects);
    }

    /// Slices whose part of the cut nobody makes any more.
    fn lost(&self, step: Step, ended: &SortedSet<SliceId>) -> Vec<SliceId> {
        let lost = self.missing.iter().filter(|(_, upto)| step <= **upto);
        let slices = lost.map(|(slice, _)| *slice);
        slices.filter(|slice| !ended.contains(slice)).collect()
    }

    /// What was being written is of a branch that is left. A commit is not taken back: its version
    /// has the same bits on any branch.
    fn branched(&mut self, now: Time, slices: u16, base: Step, effects: &mut Vec<Effect>) {
        self.slices = slices;
        self.recorded = base;
        // A newer one that was durable is damaged: its version is cut again.
        if self.durable > Some(base) {
            self.durable = Some(base).filter(|base| *base > Step(0));
        }
        self.missing.clear();
        (self.unknown, self.requested) = (None, None);
        let open = self.cut.as_ref().map(|cut| cut.step);
        if let Some(step) = open.filter(|step| !self.is_committing(*step)) {
            self.close(now, step);
            effects.push(Effect::Abandon(step));
        }
    }

    /// A slice's part has ended, well or badly.
    fn ended(
        &mut self,
        now: Time,
        slice: SliceId,
        step: Step,
        reason: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        if self.is_over(step) {
            return effects.push(Effect::CutOver(step));
        }
        let Some(cut) = self.cut.as_mut().filter(|cut| cut.step == step) else {
            return;
        };
        match &mut cut.stage {
            Stage::Writing { ended, failed } => {
                ended.insert(slice);
                *failed = failed.take().or(reason);
            }
            Stage::Committing => {}
        }
        self.judge(now, effects);
    }

    /// Commits, or gives up, once no part is under way and the ledger is as far.
    fn judge(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let Some(cut) = &self.cut else { return };
        let step = cut.step;
        let Stage::Writing { ended, failed } = &cut.stage else {
            return;
        };
        let lost = self.lost(step, ended);
        if ended.len() + lost.len() < usize::from(self.slices) {
            return;
        }
        let gone =
            |slice: &SliceId| format!("the process that cut slice {slice} at step {step} was lost");
        let reason = failed.clone().or_else(|| lost.first().map(gone));
        if let Some(reason) = reason {
            return self.give_up(now, step, reason, effects);
        }
        if step <= self.recorded {
            self.cut = self.cut.take().map(|cut| Cut {
                stage: Stage::Committing,
                ..cut
            });
            effects.push(Effect::Commit(step));
        }
    }

    fn committed(&mut self, now: Time, step: Step, effects: &mut Vec<Effect>) {
        // A commit that comes after the cut was given up is real all the same.
        self.durable = self.durable.max(Some(step));
        self.saved += 1;
        self.close(now, step);
        effects.push(Effect::CutOver(step));
        effects.push(Effect::Durable(step));
    }

    /// A slice may not have heard that its cut is over; one that nobody knows of may still be on its
    /// way to the store, and is given time.
    fn cutting(&mut self, now: Time, slice: SliceId, step: Step, effects: &mut Vec<Effect>) {
        if self.cut.as_ref().is_some_and(|cut| cut.step == step) {
            return;
        }
        let since = match self.unknown {
            Some((known, since)) if known == step => since,
            Some(_) | None => now,
        };
        self.unknown = Some((step, since));
        if self.is_over(step) || since + self.patience <= now {
            effects.push(Effect::CutOverAt(slice, step));
        }
    }

    fn halted(&mut self, effects: &mut Vec<Effect>) {
        self.over = true;
        if let Some(cut) = self.cut.take() {
            effects.push(Effect::Abandon(cut.step));
        }
    }

    fn lose_patience(&mut self, now: Time, effects: &mut Vec<Effect>) {
        let Some(cut) = self
            .cut
            .as_mut()
            .filter(|c| c.late_at.is_some_and(|at| at <= now))
        else {
            return;
        };
        let (step, waited) = (cut.step, self.patience);
        let reason = format!("the checkpoint of step {step} took longer than {waited}");
        match cut.stage {
            Stage::Writing { .. } => self.give_up(now, step, reason, effects),
            // It may yet be durable: it is neither removed nor made again.
            Stage::Committing => {
                cut.late_at = None;
                effects.push(Effect::Degraded(reason));
            }
        }
    }

    /// Whether nothing comes of the cut any more, whatever is heard of it.
    fn is_over(&self, step: Step) -> bool {
        let newer = self.cut.as_ref().is_some_and(|cut| cut.step > step);
        self.over || newer || Some(step) <= self.durable
    }

    fn is_committing(&self, step: Step) -> bool {
        let cut = self.cut.as_ref().filter(|cut| cut.step == step);
        cut.is_some_and(|cut| cut.stage == Stage::Committing)
    }

    fn give_up(&mut self, now: Time, step: Step, reason: String, effects: &mut Vec<Effect>) {
        self.close(now, step);
        effects.push(Effect::CutOver(step));
        effects.push(Effect::Abandon(step));
        effects.push(Effect::Degraded(reason));
    }

    fn close(&mut self, now: Time, step: Step) {
        if self.cut.as_ref().is_some_and(|cut| cut.step == step) {
            self.cut = None;
            self.requested = None;
            self.last_at = Some(now);
        }
    }
}
