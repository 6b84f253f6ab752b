//! Which leaves are evaluated by a second member: a keyed draw that every process makes alike, so
//! that nobody needs to be told (PROTOCOL 33).

use crate::id::{PartitionId, Step};
use crate::random::{Key, Purpose};
use crate::tree::PartitionSet;

/// The share of leaves that is audited, and for how long it can be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AuditRules {
    /// Share of all leaves, 0 to 1.
    pub rate: f64,
    /// Seed of the run.
    pub seed: u64,
    /// Versions of the weights, of those with an audited leaf, that a worker keeps for a third
    /// evaluation: the open one and those before it.
    pub versions: u64,
}

impl AuditRules {
    /// No audits.
    pub const OFF: Self = Self {
        rate: 0.0,
        seed: 0,
        versions: 0,
    };

    /// Whether the leaf is audited.
    #[must_use]
    pub fn draws(&self, step: Step, partition: PartitionId) -> bool {
        let key = Key {
            clock: step.0,
            partition: partition.0,
            ..Key::new(self.seed, Purpose::Audit)
        };
        self.rate > 0.0 && key.stream().unit_f64() < self.rate
    }

    /// The audited ones of some leaves.
    #[must_use]
    pub fn drawn(&self, step: Step, leaves: &PartitionSet) -> PartitionSet {
        if self.rate <= 0.0 {
            return PartitionSet::default();
        }
        leaves
            .iter()
            .filter(|leaf| self.draws(step, *leaf))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_the_rate_and_the_draw_a_function_of_step_and_leaf() {
        let leaves: PartitionSet = (0..8).map(PartitionId).collect();
        for (rate, expected) in [(0.0, 0), (0.1, 788), (1.0, 8000)] {
            let rules = AuditRules {
                rate,
                seed: 7,
                versions: 4,
            };
            let drawn: usize = (0..1000)
                .map(|step| rules.drawn(Step(step), &leaves).len())
                .sum();
            assert_eq!(drawn, expected);
        }
        let drawn = |seed| {
            let rules = AuditRules {
                rate: 0.5,
                seed,
                versions: 4,
            };
            rules.drawn(Step(3), &leaves)
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
