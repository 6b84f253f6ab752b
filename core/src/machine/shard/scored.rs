//! The version that is kept to be scored on the test rows: one at a time (PROTOCOL 11).
//!
//! Training goes on beside an evaluation. If the next version to be scored is there before it is
//! over, the slice stays at that version until it is: so every one of them is scored, and no second
//! copy of the weights is kept. Contributions are taken meanwhile.

use super::{Effect, Shard};
use crate::id::Step;

impl Shard {
    /// Keeps the newest version if it is to be scored and no other is kept.
    pub(super) fn pin(&mut self, effects: &mut Vec<Effect>) {
        if self.pinned.is_none() && !self.may_leave() {
            self.pinned = Some(self.step);
            effects.push(Effect::Pin(self.step));
        }
    }

    /// Whether the newest version may become the previous one: nobody has to score it, or it is kept
    /// for that, or it was scored before.
    pub(super) fn may_leave(&self) -> bool {
        !self.rules.evaluated(self.step)
            || self.pinned == Some(self.step)
            || self.scored >= Some(self.step)
    }

    /// This version is scored, or never will be, and with it all before it.
    pub(super) fn evaluated(&mut self, version: Step, effects: &mut Vec<Effect>) {
        self.scored = self.scored.max(Some(version));
        let Some(pinned) = self.pinned.filter(|pinned| *pinned <= version) else {
            return;
        };
        self.pinned = None;
        effects.push(Effect::Unpin(pinned));
        self.pin(effects);
        self.progress(effects);
    }

    /// What was scored is to be scored again, as long as nothing came after it. A backup may have yet
    /// to take a copy; if it is promoted, it is asked again.
    pub(super) fn pin_again(&mut self, version: Step, effects: &mut Vec<Effect>) {
        if version == self.step && self.pinned.is_none() && self.is_primary() {
            self.scored = self.scored.filter(|scored| *scored < version);
            self.pin(effects);
        }
    }

    /// The slice's primary voted to leave the newest version: what it kept before was over.
    pub(super) fn pin_as_primary_did(&mut self, effects: &mut Vec<Effect>) {
        if self.may_leave() {
            return;
        }
        let older = self.pinned.take();
        effects.extend(older.map(Effect::Unpin));
        self.pin(effects);
    }
}
