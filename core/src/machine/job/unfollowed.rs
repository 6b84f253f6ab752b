//! Primaries whose backup does not acknowledge, though both are linked here: the two may be cut off
//! from each other, and the primary would wait for ever (PROTOCOL 12).

use super::Job;
use crate::id::{SliceId, Step};
use crate::time::Time;

impl Job {
    /// A primary reported: since when it has been at this step with something unacknowledged.
    pub(super) fn hear_backlog(&mut self, now: Time, slice: SliceId, step: Step) {
        let state = self.slices.get(&slice);
        if state.is_none_or(|state| state.behind.unwrap_or(0) == 0) {
            self.hosting.backlogs.remove(&slice);
            return;
        }
        let since = self.hosting.backlogs.entry(slice).or_insert((step, now));
        if since.0 != step {
            *since = (step, now);
        }
    }

    /// Whether nothing but the backup can have kept the slice at its step for a lease: it has not
    /// voted for it, or all have.
    pub(super) fn is_unfollowed(&self, now: Time, slice: SliceId) -> bool {
        let (Some((step, since)), Some(own)) =
            (self.hosting.backlogs.get(&slice), self.slices.get(&slice))
        else {
            return false;
        };
        let mut others = self.slices.values();
        let decided = others.all(|s| s.seen > *step || (s.seen == *step && s.voted));
        *since + self.rules.lease <= now && (!own.voted || decided)
    }
}
