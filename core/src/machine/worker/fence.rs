//! A life that no longer counts: the worker drops what it holds and joins anew. Whoever reads its
//! log hears of both, since a fence alone looks like the end.

use super::{Effect, Worker};

impl Worker {
    pub(super) fn fence(&mut self, cause: String, effects: &mut Vec<Effect>) {
        (self.incarnation, self.fenced) = (None, true);
        self.drop_assignment(effects);
        effects.push(Effect::Rejoin { cause });
    }

    /// It is taken in again once it is told what to do.
    pub(super) fn taken_in(&mut self, effects: &mut Vec<Effect>) {
        if let Some(incarnation) = self.incarnation.filter(|_| self.fenced) {
            self.fenced = false;
            effects.push(Effect::Rejoined(incarnation));
        }
    }
}
