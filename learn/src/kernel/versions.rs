//! The two live versions of a slice's weights, shared with readers without a copy.
//!
//! A reader (a link that streams, a pin, an evaluation) holds an `Arc` of one version. The next
//! update is written into the buffer of the version before the last; if a reader still holds that
//! one, a retired or new buffer is taken instead, so an update never waits for a reader.

use std::sync::Arc;

use resilin_core::Step;

/// Buffers kept back for reuse: a pin, an evaluation and a copy may be held at once (PROTOCOL 11).
const RETIRED: usize = 3;

/// Weights `t` and `t - 1`.
pub(super) struct Versions {
    step: Step,
    newest: Arc<Vec<f32>>,
    previous: Option<Arc<Vec<f32>>>,
    retired: Vec<Arc<Vec<f32>>>,
}

impl Versions {
    /// Only version `step`.
    pub(super) fn new(step: Step, weights: Vec<f32>) -> Self {
        Self {
            step,
            newest: Arc::new(weights),
            previous: None,
            retired: Vec::with_capacity(RETIRED + 1),
        }
    }

    /// The newest version.
    pub(super) fn step(&self) -> Step {
        self.step
    }

    /// The newest weights.
    pub(super) fn newest(&self) -> &Arc<Vec<f32>> {
        &self.newest
    }

    /// The weights of a live version; `None` for one that is not live.
    pub(super) fn get(&self, step: Step) -> Option<&Arc<Vec<f32>>> {
        if step == self.step {
            return Some(&self.newest);
        }
        self.previous.as_ref().filter(|_| step.next() == self.step)
    }

    /// Makes the next version: `write` gets the newest weights and the buffer to fill, whose
    /// contents are unspecified.
    pub(super) fn advance<R>(&mut self, write: impl FnOnce(&[f32], &mut [f32]) -> R) -> R {
        let mut next = self.free_buffer();
        let buffer = Arc::get_mut(&mut next).expect("a free buffer has no reader");
        let result = write(&self.newest, buffer);
        self.previous = Some(std::mem::replace(&mut self.newest, next));
        self.step = self.step.next();
        result
    }

    /// The next version with the same weights: readers of both share one buffer.
    pub(super) fn repeat(&mut self) {
        if let Some(old) = self.previous.replace(Arc::clone(&self.newest)) {
            self.retire(old);
        }
        self.step = self.step.next();
    }

    fn free_buffer(&mut self) -> Arc<Vec<f32>> {
        if let Some(old) = self.previous.take() {
            self.retire(old);
        }
        let free = self.retired.iter().rposition(|b| Arc::strong_count(b) == 1);
        match free {
            Some(index) => self.retired.swap_remove(index),
            None => Arc::new(vec![0.0; self.newest.len()]),
        }
    }

    fn retire(&mut self, buffer: Arc<Vec<f32>>) {
        if !Arc::ptr_eq(&buffer, &self.newest) {
            self.retired.push(buffer);
        }
        if self.retired.len() > RETIRED {
            self.retired.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_one(versions: &mut Versions) {
        versions.advance(|old, new| {
            for (n, o) in new.iter_mut().zip(old) {
                *n = o + 1.0;
            }
        });
    }

    #[test]
    fn two_versions_live_in_two_buffers() {
        let mut versions = Versions::new(Step(0), vec![0.0]);
        add_one(&mut versions);
        let first = Arc::as_ptr(versions.newest());
        add_one(&mut versions);
        let second = Arc::as_ptr(versions.newest());
        add_one(&mut versions);
        assert_eq!(Arc::as_ptr(versions.newest()), first);
        add_one(&mut versions);
        assert_eq!(Arc::as_ptr(versions.newest()), second);
        assert_eq!(**versions.get(Step(4)).unwrap(), [4.0]);
        assert_eq!(**versions.get(Step(3)).unwrap(), [3.0]);
        assert_eq!(versions.get(Step(2)), None);
        assert_eq!(versions.get(Step(5)), None);
    }

    #[test]
    fn a_held_version_keeps_its_values_and_returns_its_buffer() {
        let mut versions = Versions::new(Step(0), vec![0.0]);
        let held = Arc::clone(versions.newest());
        for _ in 0..5 {
            add_one(&mut versions);
        }
        assert_eq!(*held, [0.0]);
        drop(held);
        for _ in 0..5 {
            add_one(&mut versions);
            assert!(versions.retired.len() <= RETIRED);
        }
        assert_eq!(**versions.newest(), [10.0]);
    }

    #[test]
    fn a_repeated_version_shares_its_weights() {
        let mut versions = Versions::new(Step(0), vec![0.0]);
        add_one(&mut versions);
        versions.repeat();
        versions.repeat();
        assert_eq!(**versions.get(Step(3)).unwrap(), [1.0]);
        assert_eq!(**versions.get(Step(2)).unwrap(), [1.0]);
        add_one(&mut versions);
        assert_eq!(**versions.get(Step(4)).unwrap(), [2.0]);
        assert_eq!(**versions.get(Step(3)).unwrap(), [1.0]);
    }
}
