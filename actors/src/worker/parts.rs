//! A sum on its way: its parts go to the links as they are made.

use resilin_learn::kernel::Early;
use resilin_learn::model::Outcome;

use crate::link::{BufferPool, Coming, PooledBuffer};

/// Takes the parts of one sum.
pub(super) struct Parts<'a, F> {
    pool: &'a BufferPool,
    length: usize,
    /// Told once, when the first part is about to be made.
    begin: F,
    coming: Option<Coming>,
    next: Option<PooledBuffer>,
}

impl<'a, F: FnMut(Outcome, Coming)> Parts<'a, F> {
    /// Of a sum of `length` values.
    pub(super) fn new(pool: &'a BufferPool, length: usize, begin: F) -> Self {
        Self {
            pool,
            length,
            begin,
            coming: None,
            next: None,
        }
    }

    /// The sum, if it came in parts; it is given up unless it is finite.
    pub(super) fn end(self, finite: bool) -> Option<Coming> {
        if let (Some(coming), false) = (&self.coming, finite) {
            coming.give_up();
        }
        self.coming
    }
}

impl<F: FnMut(Outcome, Coming)> Early for Parts<'_, F> {
    fn begin(&mut self, outcome: Outcome) {
        let coming = self.coming.insert(Coming::new(self.length));
        (self.begin)(outcome, coming.clone());
    }

    fn part(&mut self, values: usize) -> &mut [f32] {
        self.next.insert(self.pool.take(values))
    }

    fn made(&mut self) {
        let made = self.next.take().expect("a part was asked for");
        let coming = self.coming.as_ref().expect("the sum has begun");
        coming.give(made.share());
    }
}
