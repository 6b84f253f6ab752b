//! A sum on its way: portions of it go to the links as they are made.

use std::ops::Range;

use resilin_learn::kernel::Early;
use resilin_learn::model::Outcome;

use crate::link::{BufferPool, Coming, PooledBuffer};

/// Least values of a portion: each wakes a few threads, and a step has time for few of that.
const PORTION: usize = 1 << 17;

/// Takes the parts of one sum.
pub(super) struct Parts<'a, F> {
    pool: &'a BufferPool,
    /// Told once, when the first part is about to be made.
    begin: F,
    coming: Option<Coming>,
    /// Values of the portions to come, the next one last.
    portions: Vec<usize>,
    portion: Option<PooledBuffer>,
    /// Where the part that is being made lies in the portion.
    part: Range<usize>,
}

impl<'a, F: FnMut(Outcome, Coming)> Parts<'a, F> {
    /// Of one sum; buffers are the pool's.
    pub(super) fn new(pool: &'a BufferPool, begin: F) -> Self {
        Self {
            pool,
            begin,
            coming: None,
            portions: Vec::new(),
            portion: None,
            part: 0..0,
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
    fn begin(&mut self, outcome: Outcome, parts: &[Range<usize>]) -> bool {
        self.portions = portions(parts);
        if self.portions.len() < 2 {
            return false;
        }
        let coming = Coming::new(self.portions.iter().sum());
        self.coming = Some(coming.clone());
        (self.begin)(outcome, coming);
        true
    }

    fn part(&mut self, values: usize) -> &mut [f32] {
        let portion = self.portion.get_or_insert_with(|| {
            let values = self.portions.pop();
            self.pool.take(values.expect("parts as they were told"))
        });
        self.part = self.part.end..self.part.end + values;
        &mut portion[self.part.clone()]
    }

    fn made(&mut self) {
        let made = self
            .portion
            .take_if(|portion| portion.len() == self.part.end);
        if let Some((made, coming)) = made.zip(self.coming.as_ref()) {
            self.part = 0..0;
            coming.give(made.share());
        }
    }
}

/// Values of the portions that the parts make, the first one last.
fn portions(parts: &[Range<usize>]) -> Vec<usize> {
    let mut portions = Vec::new();
    let mut values = 0;
    for part in parts {
        values += part.len();
        if values >= PORTION {
            portions.push(std::mem::take(&mut values));
        }
    }
    match portions.last_mut() {
        Some(last) => *last += values,
        None => portions.push(values),
    }
    portions.reverse();
    portions
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    fn ranges(lengths: &[usize]) -> Vec<Range<usize>> {
        let ends = lengths.iter().scan(0, |end, length| {
            *end += length;
            Some(*end - length..*end)
        });
        ends.collect()
    }

    #[test]
    fn short_parts_share_a_portion_with_their_neighbours() {
        let of = |lengths: &[usize]| portions(&ranges(lengths));
        assert_eq!(of(&[PORTION, 3, PORTION, 7, 5]), [PORTION + 15, PORTION]);
        assert_eq!(of(&[100_000, 100_000, 512]), [200_512]);
        assert_eq!(of(&[3, 4]), [7]);
    }

    #[test]
    fn every_part_is_given_in_its_place_and_small_sums_are_left_alone() {
        let pool = BufferPool::new(1 << 24);
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut parts = Parts::new(&pool, |outcome: Outcome, _| {
            told.lock().unwrap().push(outcome.samples);
        });
        let outcome = Outcome {
            samples: 3,
            ..Outcome::default()
        };
        assert!(!parts.begin(outcome, &ranges(&[10, 20])));
        let lengths = [PORTION, 3, PORTION, 7];
        assert!(parts.begin(outcome, &ranges(&lengths)));
        for (number, length) in lengths.into_iter().enumerate() {
            parts.part(length).fill(number as f32);
            parts.made();
        }
        let coming = parts.end(true).expect("it came in parts");
        let expected: Vec<f32> = (0_u8..4)
            .zip(lengths)
            .flat_map(|(number, length)| vec![f32::from(number); length])
            .collect();
        assert!(coming.values() == expected);
        assert_eq!(*told.lock().unwrap(), [3]);
    }
}
