//! Tensors that are counted for as long as a link or anything else keeps them alive, with contents
//! that tell one from another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::link::{BufferPool, PooledBuffer};

/// Bytes of tensors that are alive.
#[derive(Default)]
pub(super) struct Held {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Held {
    /// The most that there ever were.
    pub(super) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

/// A tensor that counts as held until the link lets go of it.
pub(super) struct HeldTensor {
    values: PooledBuffer,
    held: Arc<Held>,
}

impl HeldTensor {
    pub(super) fn new(pool: &BufferPool, length: usize, number: u64, held: &Arc<Held>) -> Self {
        let mut values = pool.take(length);
        let bits: &mut [u32] = bytemuck::cast_slice_mut(&mut values);
        for (at, bits) in bits.iter_mut().enumerate() {
            *bits = pattern(number, at);
        }
        let bytes = length * size_of::<f32>();
        let now = held.now.fetch_add(bytes, Ordering::Relaxed) + bytes;
        held.most.fetch_max(now, Ordering::Relaxed);
        Self {
            values,
            held: Arc::clone(held),
        }
    }
}

impl AsRef<[f32]> for HeldTensor {
    fn as_ref(&self) -> &[f32] {
        &self.values
    }
}

impl Drop for HeldTensor {
    fn drop(&mut self) {
        let bytes = self.values.len() * size_of::<f32>();
        self.held.now.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Bits of a value: another one at every place of every tensor, NaN with payloads among them.
pub(super) fn pattern(number: u64, at: usize) -> u32 {
    let at = (at as u32).wrapping_mul(0x9e37_79b1);
    at ^ (number as u32).wrapping_mul(0x85eb_ca6b)
}
