//! New views and layouts: what a worker keeps when others serve its slices (PROTOCOL 15).
//!
//! A promoted backup has the same weights, so weights and sums stay, and only what its coverage
//! lacks is sent again. Of another branch nothing is worth keeping.

use super::{Assignment, Effect, Worker};
use crate::id::SliceId;
use crate::sorted::SortedSet;

impl Worker {
    /// Dials the slices that another process serves; returns those whose view has only another
    /// number, and so what was sent under the one before may be refused.
    pub(super) fn change_views(
        &mut self,
        assignment: &Assignment,
        effects: &mut Vec<Effect>,
    ) -> SortedSet<SliceId> {
        let known = self.assignment.as_ref().map(|known| known.views.clone());
        let mut renumbered = SortedSet::new();
        for (before, view) in known.iter().flatten().zip(&assignment.views) {
            let slice = view.slice;
            if before == view || !self.links.contains_key(&slice) {
                continue;
            }
            if (before.primary, &before.address) == (view.primary, &view.address) {
                renumbered.insert(slice);
                continue;
            }
            self.slice_down(slice);
            effects.push(Effect::Hangup(slice));
            effects.push(Effect::Dial(view.clone()));
        }
        renumbered
    }

    /// Asks again under the new number for what was asked for under the one before.
    pub(super) fn ask_renumbered(&self, slices: &SortedSet<SliceId>, effects: &mut Vec<Effect>) {
        let up: Vec<SliceId> = self.up().filter(|slice| slices.contains(slice)).collect();
        for slice in up {
            self.ask_slice_again(slice, effects);
            self.evaluation_pull(slice, effects);
        }
    }

    /// The layout of a new branch, which has a view a slice.
    pub(super) fn lay_out(&mut self, assignment: &Assignment, effects: &mut Vec<Effect>) {
        let count = u16::try_from(assignment.views.len()).expect("a message is bounded");
        let slices = self.rules.slices.with_slices(count);
        if slices != self.rules.slices {
            self.rules.slices = slices;
            effects.push(Effect::Layout(slices));
        }
    }
}
