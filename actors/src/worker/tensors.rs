//! The tensors that the worker's machine holds as handles or by version.

use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, MutexGuard};

use resilin_core::frame::DataHeader;
use resilin_core::message::Use;
use resilin_core::sorted::{SortedMap, SortedSet};
use resilin_core::{MapNumber, SliceId, Step, Tensor, Timeline};

use crate::link::{BufferPool, JointBuffer, OutValues, PooledBuffer, Wanted};

/// Sums by handle.
#[derive(Default)]
pub(super) struct Sums(SortedMap<Tensor, OutValues>);

impl Sums {
    /// Takes a sum in, the first time that it is heard of.
    pub(super) fn insert(&mut self, tensor: Tensor, values: OutValues) {
        self.0.entry(tensor).or_insert(values);
    }

    /// A sum that the machine has not freed.
    pub(super) fn get(&self, tensor: Tensor) -> &OutValues {
        let values = self.0.get(&tensor);
        values.expect("held until the machine frees it")
    }

    /// Gives the memory back, as soon as no link sends from it.
    pub(super) fn free(&mut self, tensor: Tensor) {
        self.0.remove(&tensor);
    }
}

/// Weights as they arrive, slice by slice, each read off its link to its place in the whole. Clones
/// share it: links ask where to, the actor hears what is there.
#[derive(Clone)]
pub(super) struct Arrivals {
    state: Arc<Mutex<State>>,
    /// Values of a whole version.
    length: usize,
    pool: BufferPool,
}

/// What all pieces of one version agree on.
type Version = (Timeline, MapNumber, Step);

#[derive(Default)]
struct State {
    /// The version asked for last: a link serves one request for each use.
    asked: SortedMap<(Use, SliceId), Step>,
    wholes: SortedMap<Version, Landing>,
    /// Where a use finds a step's weights.
    used: SortedMap<(Use, Step), Version>,
}

/// A version that is put together.
struct Landing {
    whole: Arc<Whole>,
    /// Slices that were told where to, by links that may not have brought them yet.
    told: SortedSet<SliceId>,
    here: SortedSet<SliceId>,
}

impl Arrivals {
    /// Nothing asked for yet, of weights of `length` values.
    pub(super) fn new(length: usize, pool: BufferPool) -> Self {
        Self {
            state: Arc::default(),
            length,
            pool,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("a panic ends the process")
    }

    /// Notes a request.
    pub(super) fn ask(&self, slice: SliceId, step: Step, purpose: Use) {
        self.state().asked.insert((purpose, slice), step);
    }

    /// Where weights of a slice go that a link brings: `values` of the whole. Only what was asked
    /// for is taken, and only the first link that brings it writes to the whole, since the whole
    /// may be in use when another does. Changes need the version that they are based on.
    pub(super) fn place(
        &self,
        slice: SliceId,
        values: &Range<usize>,
        header: &DataHeader,
    ) -> Wanted {
        let mut state = self.state();
        if state.uses(slice, header.step).is_empty() {
            return Wanted::Discard;
        }
        let version = (header.timeline, header.map, header.step);
        let part = |landing: &Landing| landing.whole.0.part(values.clone());
        let before = match header.based_on {
            None => None,
            Some(step) => {
                let held = state.wholes.get(&(header.timeline, header.map, step));
                // Of a branch that was left, or the machine would not have said that it holds it.
                let Some(held) = held.filter(|held| held.here.contains(&slice)) else {
                    return Wanted::Discard;
                };
                Some(part(held))
            }
        };
        let landing = state.landing(version, || self.pool.take(self.length));
        if landing.told.insert(slice) {
            Wanted::Place(part(landing), before)
        } else {
            Wanted::Take(before)
        }
    }

    /// A slice's weights are here, at their place or, if that was promised to another link, in
    /// `elsewhere`; returns the uses that they were asked for.
    pub(super) fn arrived(
        &self,
        slice: SliceId,
        values: &Range<usize>,
        version: Version,
        elsewhere: &[f32],
    ) -> Vec<Use> {
        let mut state = self.state();
        let uses = state.uses(slice, version.2);
        if uses.is_empty() {
            return uses;
        }
        let landing = state.landing(version, || self.pool.take(self.length));
        if landing.here.insert(slice) && !elsewhere.is_empty() {
            let part = landing.whole.0.part(values.clone());
            part.write(0..values.len(), |place| place.copy_from_slice(elsewhere));
        }
        for purpose in &uses {
            state.used.insert((*purpose, version.2), version);
        }
        uses
    }

    /// Drops versions below `step`.
    pub(super) fn forget(&self, purpose: Use, step: Step) {
        let mut state = self.state();
        let State {
            asked,
            wholes,
            used,
        } = &mut *state;
        used.retain(|(kept, version), _| *kept != purpose || *version >= step);
        wholes.retain(|version, _| {
            used.values().any(|in_use| in_use == version)
                || asked.values().any(|step| *step == version.2)
        });
    }

    /// Drops everything.
    pub(super) fn clear(&self) {
        *self.state() = State::default();
    }

    /// The whole weights of a version.
    pub(super) fn whole(&self, purpose: Use, step: Step) -> Arc<Whole> {
        let state = self.state();
        let landing = state.used.get(&(purpose, step)).map(|v| &state.wholes[v]);
        Arc::clone(&landing.expect("the machine saw every slice arrive").whole)
    }
}

impl State {
    fn uses(&self, slice: SliceId, step: Step) -> Vec<Use> {
        let asked = |purpose: &Use| self.asked.get(&(*purpose, slice)) == Some(&step);
        let uses = [Use::Train, Use::Evaluate].into_iter();
        uses.filter(asked).collect()
    }

    fn landing(&mut self, version: Version, buffer: impl FnOnce() -> PooledBuffer) -> &mut Landing {
        self.wholes.entry(version).or_insert_with(|| Landing {
            whole: Arc::new(Whole(JointBuffer::new(buffer()))),
            told: SortedSet::new(),
            here: SortedSet::new(),
        })
    }
}

/// The weights of a version: one flat vector.
pub(super) struct Whole(JointBuffer);

impl Whole {
    /// The flat vector. Nobody writes to it any more.
    pub(super) fn get(&self) -> impl Deref<Target = PooledBuffer> {
        self.0.read()
    }
}

#[cfg(test)]
#[path = "tensors_test.rs"]
mod tests;
