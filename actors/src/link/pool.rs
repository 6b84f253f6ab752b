//! Buffers of values that are used again: a fresh parameter-sized allocation costs about five
//! times a copy into memory that is already mapped.

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, PoisonError};

use resilin_core::frame;
use resilin_core::sorted::SortedMap;

/// Values in the smallest page of memory that a system has.
const PAGE_VALUES: usize = 4096 / size_of::<f32>();

/// Buffers by length. Clones share one pool.
#[derive(Clone)]
pub struct BufferPool {
    idle: Arc<Mutex<Idle>>,
}

struct Idle {
    by_length: SortedMap<usize, Vec<Vec<f32>>>,
    bytes: usize,
    limit: usize,
}

impl BufferPool {
    /// A pool that keeps at most `limit` bytes of idle buffers; what comes back above that is
    /// freed.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let idle = Idle {
            by_length: SortedMap::new(),
            bytes: 0,
            limit,
        };
        Self {
            idle: Arc::new(Mutex::new(idle)),
        }
    }

    /// A buffer of `length` values with unspecified contents.
    #[must_use]
    pub fn take(&self, length: usize) -> PooledBuffer {
        let reused = self.with(|idle| {
            let values = idle.by_length.get_mut(&length)?.pop()?;
            idle.bytes -= bytes_of(length);
            Some(values)
        });
        PooledBuffer {
            values: reused.unwrap_or_else(|| vec![0.0; length]),
            home: self.clone(),
        }
    }

    /// Has `count` buffers of `length` values ready, with the system's memory behind them: the first
    /// touch of each page costs more than a copy into it. For who knows that they will be needed and
    /// has nothing else to do.
    pub fn prepare(&self, length: usize, count: usize) {
        let mut ready = Vec::new();
        for _ in 0..count {
            let mut buffer = self.take(length);
            for page in buffer.chunks_mut(PAGE_VALUES) {
                page[0] = 0.0;
            }
            ready.push(buffer);
        }
    }

    /// Bytes of idle buffers.
    #[must_use]
    pub fn idle_bytes(&self) -> usize {
        self.with(|idle| idle.bytes)
    }

    fn put_back(&self, values: Vec<f32>) {
        let length = values.len();
        self.with(|idle| {
            if length > 0 && idle.bytes + bytes_of(length) <= idle.limit {
                idle.bytes += bytes_of(length);
                idle.by_length.entry(length).or_default().push(values);
            }
        });
    }

    /// A panic elsewhere cannot leave the idle lists half changed, so a poisoned lock is usable.
    fn with<R>(&self, act: impl FnOnce(&mut Idle) -> R) -> R {
        act(&mut self.idle.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferPool({} bytes idle)", self.idle_bytes())
    }
}

fn bytes_of(length: usize) -> usize {
    length * size_of::<f32>()
}

/// A buffer of values; dropped, it goes back to its pool.
#[derive(Debug)]
pub struct PooledBuffer {
    values: Vec<f32>,
    home: BufferPool,
}

impl PooledBuffer {
    /// The buffer, or a part of it, to be sent.
    #[must_use]
    pub fn share(self) -> SharedValues {
        SharedValues::new(Arc::new(self))
    }
}

impl Deref for PooledBuffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.values
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.values
    }
}

impl AsRef<[f32]> for PooledBuffer {
    fn as_ref(&self) -> &[f32] {
        &self.values
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        self.home.put_back(std::mem::take(&mut self.values));
    }
}

/// Values that several links can send at once without a copy: a range of a shared buffer.
#[derive(Clone)]
pub struct SharedValues {
    source: Arc<dyn AsRef<[f32]> + Send + Sync>,
    range: Range<usize>,
    /// Crcs of ranges that were sent: every other link sends the same pieces.
    crcs: Arc<Mutex<SortedMap<(usize, usize), u32>>>,
}

impl SharedValues {
    /// All values of a shared buffer, such as an `Arc<Vec<f32>>`.
    #[must_use]
    pub fn new(source: Arc<dyn AsRef<[f32]> + Send + Sync>) -> Self {
        let range = 0..(*source).as_ref().len();
        let crcs = Arc::default();
        Self {
            source,
            range,
            crcs,
        }
    }

    /// The values `range` of these: a sum is cut at slice borders without a copy.
    #[must_use]
    pub fn part(&self, range: Range<usize>) -> Self {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "a part lies inside"
        );
        Self {
            source: Arc::clone(&self.source),
            range: self.range.start + range.start..self.range.start + range.end,
            crcs: Arc::clone(&self.crcs),
        }
    }

    /// The crc of the values' bytes; made once for all clones.
    pub(super) fn crc(&self) -> u32 {
        self.crc_or(|| frame::crc(bytemuck::cast_slice(self)))
    }

    /// Whether the crc was made already.
    pub(super) fn has_crc(&self) -> bool {
        let crcs = self.crcs.lock().unwrap_or_else(PoisonError::into_inner);
        crcs.contains_key(&(self.range.start, self.range.end))
    }

    /// [`Self::crc`], which `make` makes if nobody has.
    pub(super) fn crc_or(&self, make: impl FnOnce() -> u32) -> u32 {
        let mut crcs = self.crcs.lock().unwrap_or_else(PoisonError::into_inner);
        let made = crcs.entry((self.range.start, self.range.end));
        *made.or_insert_with(make)
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether there is no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }
}

impl Deref for SharedValues {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &(*self.source).as_ref()[self.range.clone()]
    }
}

impl fmt::Debug for SharedValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedValues({:?})", self.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_and_the_idle_bytes_are_bounded() {
        let pool = BufferPool::new(100);
        let mut first = pool.take(20);
        first[3] = 5.0;
        let second = pool.take(20);
        drop(first);
        drop(second);
        assert_eq!(pool.idle_bytes(), 80, "the second one is above the limit");
        let again = pool.take(20);
        assert_eq!((again[3], pool.idle_bytes()), (5.0, 0));
    }

    #[test]
    fn prepared_buffers_are_idle_and_within_the_limit() {
        let pool = BufferPool::new(100);
        pool.prepare(0, 1);
        pool.prepare(12, 3);
        assert_eq!(pool.idle_bytes(), 96, "two of three");
        pool.prepare(12, 1);
        assert_eq!(pool.idle_bytes(), 96, "one that was idle");
    }

    #[test]
    fn a_part_of_a_part_is_counted_from_the_part() {
        let values = SharedValues::new(Arc::new(vec![0.0, 1.0, 2.0, 3.0, 4.0]));
        assert_eq!(*values.part(1..5).part(1..3), [2.0, 3.0]);
        for part in [values.part(1..5), values.part(2..4), values.part(1..5)] {
            assert_eq!(part.crc(), frame::crc(bytemuck::cast_slice(&part[..])));
        }
    }
}
