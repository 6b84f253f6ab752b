//! A buffer that several links fill, each its own range: a tensor that comes in slices is read
//! straight to where it belongs in the whole.

use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::pool::PooledBuffer;

/// The whole. Clones share it.
#[derive(Clone, Debug)]
pub struct JointBuffer(Arc<RwLock<PooledBuffer>>);

impl JointBuffer {
    /// A whole of the buffer's length.
    #[must_use]
    pub fn new(buffer: PooledBuffer) -> Self {
        Self(Arc::new(RwLock::new(buffer)))
    }

    /// All values; whoever fills a part waits meanwhile, so read only what is complete.
    pub fn read(&self) -> RwLockReadGuard<'_, PooledBuffer> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A part to be filled.
    ///
    /// # Panics
    /// If the range does not lie inside.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Part {
        assert!(
            range.start <= range.end && range.end <= self.read().len(),
            "a part lies inside"
        );
        Part {
            whole: self.clone(),
            range,
        }
    }
}

/// A range of a [`JointBuffer`].
#[derive(Clone, Debug)]
pub struct Part {
    whole: JointBuffer,
    range: Range<usize>,
}

impl Part {
    /// Values in it.
    pub(super) fn len(&self) -> usize {
        self.range.len()
    }

    /// Copies values of the part, counted from its start, to `target`.
    pub(crate) fn copy_to(&self, range: Range<usize>, target: &mut [f32]) {
        target.copy_from_slice(&self.whole.read()[self.range.clone()][range]);
    }

    /// Writes to values of the part, counted from its start.
    pub fn write<R>(&self, range: Range<usize>, act: impl FnOnce(&mut [f32]) -> R) -> R {
        let JointBuffer(whole) = &self.whole;
        let mut whole = whole.write().unwrap_or_else(PoisonError::into_inner);
        act(&mut whole[self.range.clone()][range])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::BufferPool;

    #[test]
    fn parts_are_filled_apart_and_read_as_one() {
        let whole = JointBuffer::new(BufferPool::new(0).take(5));
        let (low, high) = (whole.part(0..2), whole.part(2..5));
        high.write(1..3, |values| values.copy_from_slice(&[4.0, 5.0]));
        low.write(0..2, |values| values.copy_from_slice(&[1.0, 2.0]));
        high.write(0..1, |values| values[0] = 3.0);
        assert_eq!(**whole.read(), [1.0, 2.0, 3.0, 4.0, 5.0]);
    }
}
