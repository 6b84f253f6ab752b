//! **Saver**: turns the slices' cuts into checkpoints: all or nothing, one at a time.
//!
//! A step is announced as durable only when manifest and commit record are (PROTOCOL 25). Trouble
//! with the store never stops training: the cut is given up and the state is *degraded* until one
//! succeeds.

use std::collections::BTreeSet;

use crate::id::{SliceId, Step};
use crate::time::{Span, Time};

/// What happens to the saver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A slice has copied the version and its file is being written.
    Begun(SliceId, Step),
    /// The slice's file is durable.
    Written(SliceId, Step),
    /// Manifest and commit record are durable.
    Committed(Step),
    /// Something about the cut failed; what was written of it is removed.
    Failed(Step, String),
    /// The deadline passed.
    Tick,
}

/// What the shell does for the saver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask every slice to cut at its next vote.
    RequestCut,
    /// All files are there: sync the ledger, write the manifest, then the commit record.
    Commit(Step),
    /// Remove what was written of the cut.
    Abandon(Step),
    /// Tell every slice that the cut is over.
    CutOver(Step),
    /// Tell the job: the version is durable.
    Durable(Step),
    /// Tell the job: persistence is degraded, for this reason.
    Degraded(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Writing(BTreeSet<SliceId>),
    Committing,
}

/// The machine of a run's checkpoints.
pub struct Saver {
    slices: u16,
    interval: Option<Span>,
    /// A cut that takes longer is given up: a store call may hang for ever on a full disk.
    patience: Span,
    cut: Option<(Step, Stage, Time)>,
    durable: Option<Step>,
    last_at: Option<Time>,
    requested: bool,
    saved: u64,
}

impl Saver {
    /// A saver for a run of `slices` that has `durable` already; `interval` asks for a cut whenever
    /// that long passed since the last, `patience` bounds one.
    #[must_use]
    pub fn new(slices: u16, durable: Option<Step>, interval: Option<Span>, patience: Span) -> Self {
        let (cut, last_at, requested, saved) = (None, None, false, 0);
        Self {
            slices,
            interval,
            patience,
            cut,
            durable,
            last_at,
            requested,
            saved,
        }
    }

    /// Takes one event.
    pub fn step(&mut self, now: Time, event: Event, effects: &mut Vec<Effect>) {
        self.last_at.get_or_insert(now);
        match event {
            Event::Begun(_, step) => self.begun(now, step, effects),
            Event::Written(slice, step) => self.written(slice, step, effects),
            Event::Committed(step) => self.committed(now, step, effects),
            Event::Failed(step, reason) => self.failed(now, step, reason, effects),
            Event::Tick => {}
        }
        if let Some((step, _, _)) = self.cut.as_ref().filter(|cut| cut.2 + self.patience <= now) {
            let (step, waited) = (*step, self.patience);
            let reason = format!("the checkpoint of step {step} took longer than {waited}");
            self.failed(now, step, reason, effects);
        }
        let due = self
            .last_at
            .zip(self.interval)
            .is_some_and(|(last, wait)| last + wait <= now);
        if due && self.cut.is_none() && !self.requested {
            self.requested = true;
            effects.push(Effect::RequestCut);
        }
    }

    /// When `Tick` is due.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let patience = self
            .cut
            .as_ref()
            .map(|(_, _, begun)| *begun + self.patience);
        let due = self
            .last_at
            .zip(self.interval)
            .map(|(last, interval)| last + interval);
        let due = due.filter(|_| self.cut.is_none() && !self.requested);
        [patience, due].into_iter().flatten().min()
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

    fn begun(&mut self, now: Time, step: Step, effects: &mut Vec<Effect>) {
        // A slice's part may come after its cut was given up; the next cut shows that it was.
        if let Some(older) = self.cut.as_ref().map(|cut| cut.0).filter(|at| *at < step) {
            let reason = format!("the checkpoint of step {older} lacks a slice");
            self.failed(now, older, reason, effects);
        }
        self.cut
            .get_or_insert((step, Stage::Writing(BTreeSet::new()), now));
    }

    fn written(&mut self, slice: SliceId, step: Step, effects: &mut Vec<Effect>) {
        let Some((_, stage, _)) = self.cut.as_mut().filter(|cut| cut.0 == step) else {
            return;
        };
        if let Stage::Writing(written) = stage {
            written.insert(slice);
            if written.len() == usize::from(self.slices) {
                *stage = Stage::Committing;
                effects.push(Effect::Commit(step));
            }
        }
    }

    fn committed(&mut self, now: Time, step: Step, effects: &mut Vec<Effect>) {
        // A commit that comes after the cut was given up is real all the same.
        self.durable = self.durable.max(Some(step));
        self.saved += 1;
        self.over(now, step, effects);
        effects.push(Effect::Durable(step));
    }

    fn failed(&mut self, now: Time, step: Step, reason: String, effects: &mut Vec<Effect>) {
        if self.cut.as_ref().is_some_and(|cut| cut.0 == step) {
            self.over(now, step, effects);
            effects.push(Effect::Abandon(step));
            effects.push(Effect::Degraded(reason));
        }
    }

    fn over(&mut self, now: Time, step: Step, effects: &mut Vec<Effect>) {
        if self.cut.as_ref().is_some_and(|cut| cut.0 == step) {
            self.cut = None;
            self.requested = false;
            self.last_at = Some(now);
        }
        effects.push(Effect::CutOver(step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time(0) + Span::from_millis(millis)
    }

    fn saver() -> Saver {
        Saver::new(
            2,
            None,
            Some(Span::from_millis(100)),
            Span::from_millis(1000),
        )
    }

    fn run(saver: &mut Saver, millis: u64, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        saver.step(at(millis), event, &mut effects);
        effects
    }

    #[test]
    fn durable_is_said_only_after_the_commit() {
        let mut saver = saver();
        let step = Step(7);
        assert_eq!(run(&mut saver, 0, Event::Tick), vec![]);
        assert_eq!(run(&mut saver, 100, Event::Tick), vec![Effect::RequestCut]);
        assert_eq!(run(&mut saver, 101, Event::Tick), vec![]);
        assert_eq!(run(&mut saver, 102, Event::Begun(SliceId(0), step)), vec![]);
        assert_eq!(
            run(&mut saver, 103, Event::Written(SliceId(0), step)),
            vec![]
        );
        assert_eq!(run(&mut saver, 104, Event::Begun(SliceId(1), step)), vec![]);
        assert_eq!(
            run(&mut saver, 104, Event::Written(SliceId(0), step)),
            vec![]
        );
        let all = run(&mut saver, 105, Event::Written(SliceId(1), step));
        assert_eq!((all, saver.durable()), (vec![Effect::Commit(step)], None));
        assert_eq!(
            run(&mut saver, 110, Event::Committed(step)),
            vec![Effect::CutOver(step), Effect::Durable(step)]
        );
        assert_eq!((saver.durable(), saver.saved()), (Some(step), 1));
        assert_eq!(saver.deadline(), Some(at(210)));
    }

    #[test]
    fn a_failed_or_hanging_cut_is_given_up_and_tried_again_later() {
        let mut saver = saver();
        run(&mut saver, 0, Event::Begun(SliceId(0), Step(4)));
        let failed = run(&mut saver, 50, Event::Failed(Step(4), "disk full".into()));
        assert_eq!(
            failed,
            vec![
                Effect::CutOver(Step(4)),
                Effect::Abandon(Step(4)),
                Effect::Degraded("disk full".into())
            ]
        );
        assert_eq!(run(&mut saver, 150, Event::Tick), vec![Effect::RequestCut]);
        run(&mut saver, 160, Event::Begun(SliceId(0), Step(9)));
        let hanging = run(&mut saver, 1160, Event::Tick);
        assert!(matches!(&hanging[2], Effect::Degraded(reason) if reason.contains("step 9")));
        assert_eq!(
            run(&mut saver, 1161, Event::Written(SliceId(0), Step(9))),
            vec![]
        );
    }

    #[test]
    fn a_part_that_comes_after_its_cut_was_given_up_does_not_hold_the_next_one() {
        let mut saver = saver();
        run(&mut saver, 0, Event::Begun(SliceId(0), Step(4)));
        run(&mut saver, 1, Event::Failed(Step(4), "disk full".into()));
        assert_eq!(
            run(&mut saver, 2, Event::Begun(SliceId(1), Step(4))),
            vec![]
        );
        let next = run(&mut saver, 3, Event::Begun(SliceId(0), Step(9)));
        assert_eq!(
            next[..2],
            [Effect::CutOver(Step(4)), Effect::Abandon(Step(4))]
        );
        run(&mut saver, 4, Event::Written(SliceId(0), Step(9)));
        let all = run(&mut saver, 5, Event::Written(SliceId(1), Step(9)));
        assert_eq!(all, vec![Effect::Commit(Step(9))]);
    }
}
