//! Which samples a partition contributes at a step: a pure function of the run (PROTOCOL 9).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::id::{PartitionId, Step};
use crate::random::{Key, Purpose};
use crate::tree::PartitionSet;

/// How an epoch orders its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shuffle {
    /// One permutation of all rows an epoch.
    Global,
    /// Rows move only within their partition's range.
    Within,
    /// File order.
    None,
}

/// Where a step stands in its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The pass over the data, from 0.
    pub epoch: u64,
    /// The step within the epoch, from 0.
    pub step_of_epoch: u64,
}

/// The sampling rule of a run: `rows` cut into `partitions` ranges that differ by at most one row,
/// `microbatch` rows of each a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    rows: u64,
    partitions: u32,
    microbatch: u64,
    shuffle: Shuffle,
    seed: u64,
}

impl Sampling {
    /// The rule for a data set of `rows` (at least 1) and a run of `partitions` (at least 1) with
    /// `microbatch` rows (at least 1).
    #[must_use]
    pub fn new(rows: u64, partitions: u32, microbatch: u64, shuffle: Shuffle, seed: u64) -> Self {
        assert!(
            rows > 0 && partitions > 0 && microbatch > 0,
            "an empty run is refused before"
        );
        Self {
            rows,
            partitions,
            microbatch,
            shuffle,
            seed,
        }
    }

    /// Rows of the training set.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of partitions.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// ceil(ceil(rows / P) / m).
    #[must_use]
    pub fn steps_per_epoch(&self) -> u64 {
        self.rows
            .div_ceil(u64::from(self.partitions))
            .div_ceil(self.microbatch)
    }

    /// Epoch and step within it.
    #[must_use]
    pub fn position(&self, step: Step) -> Position {
        let steps = self.steps_per_epoch();
        Position {
            epoch: step.0 / steps,
            step_of_epoch: step.0 % steps,
        }
    }

    /// The partition's range of positions in an epoch's order; the first `rows % P` ranges have one
    /// row more.
    #[must_use]
    pub fn range(&self, partition: PartitionId) -> Range<u64> {
        let (count, p) = (u64::from(self.partitions), u64::from(partition.0));
        let (length, longer) = (self.rows / count, self.rows % count);
        let start = p * length + p.min(longer);
        start..start + length + u64::from(p < longer)
    }

    /// Positions in the epoch's order that the partition contributes at the step; may be empty.
    #[must_use]
    pub fn positions(&self, step: Step, partition: PartitionId) -> Range<u64> {
        let range = self.range(partition);
        let from = range.start + self.position(step).step_of_epoch * self.microbatch;
        from.min(range.end)..(from + self.microbatch).min(range.end)
    }

    /// The partitions that have samples at the step.
    #[must_use]
    pub fn with_samples(&self, step: Step) -> PartitionSet {
        (0..self.partitions)
            .map(PartitionId)
            .filter(|p| !self.positions(step, *p).is_empty())
            .collect()
    }

    /// Rows of the whole step.
    #[must_use]
    pub fn samples(&self, step: Step) -> u64 {
        (0..self.partitions)
            .map(|p| {
                let positions = self.positions(step, PartitionId(p));
                positions.end - positions.start
            })
            .sum()
    }

    /// The epoch's order: position -> row id. `rows` entries, so callers keep it for the epoch.
    #[must_use]
    pub fn order(&self, epoch: u64) -> Vec<u32> {
        let rows = u32::try_from(self.rows).expect("a data set has fewer than 2^32 rows");
        let mut order: Vec<u32> = (0..rows).collect();
        let key = Key {
            seed: self.seed,
            clock: epoch,
            ..Key::new(self.seed, Purpose::Order)
        };
        match self.shuffle {
            Shuffle::None => {}
            Shuffle::Global => key.stream().shuffle(&mut order),
            Shuffle::Within => {
                for partition in (0..self.partitions).map(PartitionId) {
                    let range = self.range(partition);
                    let part = &mut order[range.start as usize..range.end as usize];
                    Key {
                        partition: partition.0,
                        ..key
                    }
                    .stream()
                    .shuffle(part);
                }
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_once_an_epoch_and_short_or_empty_last_microbatches() {
        for (rows, partitions, microbatch) in
            [(100, 12, 4), (3, 5, 2), (97, 16, 3), (1, 1, 1), (64, 8, 8)]
        {
            for shuffle in [Shuffle::Global, Shuffle::Within, Shuffle::None] {
                let sampling = Sampling::new(rows, partitions, microbatch, shuffle, 7);
                for epoch in 0..2 {
                    let order = sampling.order(epoch);
                    let mut seen = vec![0; rows as usize];
                    for k in 0..sampling.steps_per_epoch() {
                        let step = Step(epoch * sampling.steps_per_epoch() + k);
                        let mut samples = 0;
                        for p in (0..partitions).map(PartitionId) {
                            let positions = sampling.positions(step, p);
                            samples += positions.end - positions.start;
                            assert_eq!(
                                sampling.with_samples(step).contains(p),
                                !positions.is_empty()
                            );
                            for position in positions {
                                seen[order[position as usize] as usize] += 1;
                            }
                        }
                        assert!(samples > 0, "a step without samples");
                        assert_eq!(samples, sampling.samples(step));
                    }
                    assert!(
                        seen.iter().all(|n| *n == 1),
                        "{rows} rows over {partitions}: {seen:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn epochs_differ_and_repeat_by_seed() {
        let sampling = Sampling::new(50, 4, 4, Shuffle::Global, 3);
        assert_ne!(sampling.order(0), sampling.order(1));
        assert_eq!(sampling.order(1), sampling.order(1));
        assert_ne!(
            sampling.order(0),
            Sampling::new(50, 4, 4, Shuffle::Global, 4).order(0)
        );
    }
}
