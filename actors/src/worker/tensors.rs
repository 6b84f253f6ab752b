//! The tensors that the worker's machine holds as handles or by version.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use resilin_core::message::Use;
use resilin_core::{SliceId, Step, Tensor};

use crate::link::{BufferPool, PooledBuffer, SharedValues};

/// Sums by handle.
#[derive(Default)]
pub(super) struct Sums {
    held: BTreeMap<Tensor, SharedValues>,
    last: Tensor,
}

impl Sums {
    /// Takes a sum in and names it.
    pub(super) fn insert(&mut self, values: SharedValues) -> Tensor {
        self.last = self.last.next();
        self.held.insert(self.last, values);
        self.last
    }

    /// A sum that the machine has not freed.
    pub(super) fn get(&self, tensor: Tensor) -> &SharedValues {
        self.held
            .get(&tensor)
            .expect("held until the machine frees it")
    }

    /// Gives the memory back, as soon as no link sends from it.
    pub(super) fn free(&mut self, tensor: Tensor) {
        self.held.remove(&tensor);
    }
}

/// Weights as they arrived, slice by slice.
#[derive(Default)]
pub(super) struct Arrivals {
    /// The version asked for last: a link serves one request for each use.
    asked: BTreeMap<(Use, SliceId), Step>,
    parts: BTreeMap<(Use, Step), BTreeMap<SliceId, SharedValues>>,
}

impl Arrivals {
    /// Notes a request.
    pub(super) fn ask(&mut self, slice: SliceId, step: Step, purpose: Use) {
        self.asked.insert((purpose, slice), step);
    }

    /// Keeps a slice's weights for each use that they were asked for; returns those.
    pub(super) fn arrived(
        &mut self,
        slice: SliceId,
        step: Step,
        values: &SharedValues,
    ) -> Vec<Use> {
        let asked = |purpose: &Use| self.asked.get(&(*purpose, slice)) == Some(&step);
        let uses: Vec<Use> = [Use::Train, Use::Evaluate]
            .into_iter()
            .filter(asked)
            .collect();
        for purpose in &uses {
            let parts = self.parts.entry((*purpose, step)).or_default();
            parts.insert(slice, values.clone());
        }
        uses
    }

    /// Drops versions below `step`.
    pub(super) fn forget(&mut self, purpose: Use, step: Step) {
        self.parts
            .retain(|(kept, version), _| *kept != purpose || *version >= step);
    }

    /// Drops everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// All slices of a version, in order.
    pub(super) fn whole(&self, purpose: Use, step: Step, pool: &BufferPool) -> Whole {
        let parts = self.parts.get(&(purpose, step));
        let parts = parts.expect("the machine saw every slice arrive");
        Whole {
            parts: parts.values().cloned().collect(),
            flat: OnceLock::new(),
            pool: pool.clone(),
        }
    }
}

/// The weights of a version: one flat vector, put together by the first thread that needs it.
pub(super) struct Whole {
    parts: Vec<SharedValues>,
    flat: OnceLock<PooledBuffer>,
    pool: BufferPool,
}

impl Whole {
    /// The flat vector.
    pub(super) fn get(&self) -> &[f32] {
        match &self.parts[..] {
            [only] => only,
            parts => self.flat.get_or_init(|| {
                let length = parts.iter().map(|part| part.len()).sum();
                let mut flat = self.pool.take(length);
                let mut rest = &mut flat[..];
                for part in parts {
                    let (head, tail) = rest.split_at_mut(part.len());
                    head.copy_from_slice(part);
                    rest = tail;
                }
                flat
            }),
        }
    }
}
