//! Values that are sent while they are made: each portion is complete when it is given, and never
//! written again, so what was made is on its way while the rest is still computed.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::pool::SharedValues;

/// The values of a tensor that is sent.
#[derive(Clone, Debug)]
pub enum OutValues {
    /// They are all there.
    Here(SharedValues),
    /// They come.
    Coming(Coming),
}

/// What is to be had of values at a place.
#[derive(Debug)]
pub(super) enum Found {
    /// At least one of them.
    Some(SharedValues),
    /// Nothing yet.
    NotYet,
    /// Nothing ever: the tensor is not to be sent to its end.
    Never,
}

/// Values that come portion by portion, or a range of them. Clones share them.
#[derive(Clone)]
pub struct Coming {
    state: Arc<Mutex<State>>,
    range: Range<usize>,
}

#[derive(Default)]
struct State {
    /// Portions one after the other, with where each ends.
    here: Vec<(usize, SharedValues)>,
    given_up: bool,
    /// Links that wait for values, and for which.
    links: Vec<(Range<usize>, Arc<Notify>)>,
}

impl Coming {
    /// `values` values, none of which is there yet.
    #[must_use]
    pub fn new(values: usize) -> Self {
        Self {
            state: Arc::default(),
            range: 0..values,
        }
    }

    /// Gives the next portion.
    ///
    /// # Panics
    /// If there are more values than were said to come.
    pub fn give(&self, portion: SharedValues) {
        let mut state = self.state();
        let start = state.here.last().map_or(0, |(end, _)| *end);
        let end = start + portion.len();
        assert!(end <= self.range.end, "portions of other values");
        state.here.push((end, portion));
        let waits = |range: &Range<usize>| range.start < end && start < range.end;
        for (_, link) in state.links.iter().filter(|(range, _)| waits(range)) {
            link.notify_one();
        }
    }

    /// No more will come: whoever sends the values stops in the middle, and what was sent is void.
    pub fn give_up(&self) {
        let mut state = self.state();
        state.given_up = true;
        for (_, link) in &state.links {
            link.notify_one();
        }
    }

    /// The values that are there, one after the other.
    #[cfg(test)]
    pub(crate) fn values(&self) -> Vec<f32> {
        let state = self.state();
        let portions = state.here.iter().flat_map(|(_, portion)| portion.iter());
        portions.copied().collect()
    }

    /// The values `range` of these.
    fn part(&self, range: Range<usize>) -> Self {
        let start = self.range.start;
        assert!(range.end <= self.range.len(), "a part lies inside");
        Self {
            state: Arc::clone(&self.state),
            range: start + range.start..start + range.end,
        }
    }

    /// What there is of the values from `at` on, `most` at most.
    fn find(&self, at: usize, most: usize) -> Found {
        let state = self.state();
        if state.given_up {
            return Found::Never;
        }
        let at = self.range.start + at;
        let portion = state.here.partition_point(|(end, _)| *end <= at);
        let Some((end, portion)) = state.here.get(portion) else {
            return Found::NotYet;
        };
        let first = at - (end - portion.len());
        let last = portion.len().min(first + most);
        Found::Some(portion.part(first..last))
    }

    /// Wakes `link` now and whenever there is more.
    fn listen(&self, link: &Arc<Notify>) {
        let entry = (self.range.clone(), Arc::clone(link));
        self.state().links.push(entry);
        link.notify_one();
    }

    /// No code panics while it holds the lock half-way through a change.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Coming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Coming({:?})", self.range)
    }
}

impl OutValues {
    /// Number of values.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Here(values) => values.len(),
            Self::Coming(coming) => coming.range.len(),
        }
    }

    /// The values `range` of these: a sum is cut at slice borders without a copy.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        match self {
            Self::Here(values) => Self::Here(values.part(range)),
            Self::Coming(coming) => Self::Coming(coming.part(range)),
        }
    }

    /// What there is of the values from `at` on, `most` at most; there are that many.
    pub(super) fn find(&self, at: usize, most: usize) -> Found {
        match self {
            Self::Here(values) => Found::Some(values.part(at..at + most)),
            Self::Coming(coming) => coming.find(at, most),
        }
    }

    /// Wakes `link` whenever there is more.
    pub(super) fn listen(&self, link: &Arc<Notify>) {
        match self {
            Self::Here(_) => {}
            Self::Coming(coming) => coming.listen(link),
        }
    }
}

impl From<SharedValues> for OutValues {
    fn from(values: SharedValues) -> Self {
        Self::Here(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portion(values: Range<u16>) -> SharedValues {
        let values: Vec<f32> = values.map(f32::from).collect();
        SharedValues::new(Arc::new(values))
    }

    fn found(values: &OutValues, at: usize, most: usize) -> Vec<f32> {
        match values.find(at, most) {
            Found::Some(values) => values.to_vec(),
            other @ (Found::NotYet | Found::Never) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_piece_lies_in_one_portion_and_is_there_as_soon_as_that_is() {
        let coming = Coming::new(9);
        let part = OutValues::Coming(coming.clone()).part(2..8);
        assert!(matches!(part.find(0, 6), Found::NotYet));
        coming.give(portion(0..5));
        assert_eq!(found(&part, 0, 6), [2.0, 3.0, 4.0]);
        assert_eq!(found(&part, 1, 1), [3.0]);
        assert!(matches!(part.find(3, 3), Found::NotYet));
        coming.give(portion(5..9));
        assert_eq!(found(&part, 3, 3), [5.0, 6.0, 7.0]);
        coming.give_up();
        assert!(matches!(part.find(0, 6), Found::Never));
    }

    #[tokio::test]
    async fn a_link_that_listens_is_woken_by_what_was_there_before_and_by_more() {
        let (coming, link) = (Coming::new(2), Arc::new(Notify::new()));
        coming.give(portion(0..1));
        OutValues::Coming(coming.clone()).listen(&link);
        link.notified().await;
        coming.give(portion(1..2));
        link.notified().await;
        coming.give_up();
        link.notified().await;
    }
}
