//! Whether a step's sums are where they are needed: a processor of this host has nothing more urgent
//! to do for this worker then.

use resilin_core::layout::SliceMap;
use resilin_core::sorted::SortedMap;
use resilin_core::{SliceId, Step};

/// The newest step of which each slice has stored something.
#[derive(Default)]
pub(super) struct Stored(SortedMap<SliceId, Step>);

impl Stored {
    /// A slice has stored its part of a sum of the step; whether all of `slices` have now.
    pub(super) fn note(&mut self, slice: SliceId, step: Step, slices: SliceMap) -> bool {
        self.0.insert(slice, step);
        slices.ids().all(|each| self.0.get(&each) == Some(&step))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_stored_once_every_slice_has_its_part() {
        let slices = SliceMap::new(4, 2);
        let mut stored = Stored::default();
        let parts = [(1, 0), (1, 0), (0, 0), (0, 1), (1, 1), (1, 2)];
        let all = parts.map(|(slice, step)| stored.note(SliceId(slice), Step(step), slices));
        assert_eq!(all, [false, false, true, false, true, false]);
    }
}
