//! The table of leases: by partition, and by holder, so that what one member holds is found without
//! looking at what everybody holds.

use super::leases::Held;
use crate::id::{Incarnation, PartitionId};
use crate::sorted;
use crate::sorted::{SortedMap, SortedSet};

/// The holders of each partition in the order of their steps.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    held: SortedMap<PartitionId, Vec<Held>>,
    /// Partitions that a member has any lease on; nobody is in it with none.
    of: SortedMap<Incarnation, SortedSet<PartitionId>>,
}

impl Table {
    /// The leases on a partition.
    pub(super) fn get(&self, partition: PartitionId) -> &[Held] {
        self.held.get(&partition).map_or(&[], Vec::as_slice)
    }

    /// Each partition that ever had a holder.
    pub(super) fn iter(&self) -> sorted::Iter<'_, PartitionId, Vec<Held>> {
        self.held.iter()
    }

    /// The same without their numbers.
    pub(super) fn values(&self) -> sorted::Values<'_, PartitionId, Vec<Held>> {
        self.held.values()
    }

    /// Members that have a lease.
    pub(super) fn holders(&self) -> usize {
        self.of.len()
    }

    /// Members that hold something until it is changed.
    pub(super) fn standing_holders(&self) -> SortedSet<Incarnation> {
        let last = self.held.values().filter_map(|held| held.last());
        let standing = last.filter(|lease| lease.until.is_none());
        standing.map(|lease| lease.holder).collect()
    }

    /// Whether a member has a lease.
    pub(super) fn has(&self, member: Incarnation) -> bool {
        self.of.contains_key(&member)
    }

    /// Partitions that a member has a lease on.
    pub(super) fn partitions_of(&self, member: Incarnation) -> Vec<PartitionId> {
        let partitions = self.of.get(&member).into_iter().flatten();
        partitions.copied().collect()
    }

    /// All leases of a member, by partition.
    pub(super) fn of(&self, member: Incarnation) -> impl Iterator<Item = (PartitionId, &Held)> {
        let partitions = self.of.get(&member).into_iter().flatten();
        let held = partitions.flat_map(|p| self.get(*p).iter().map(|lease| (*p, lease)));
        held.filter(move |(_, lease)| lease.holder == member)
    }

    /// Changes the leases on a partition.
    pub(super) fn alter(&mut self, partition: PartitionId, change: impl FnOnce(&mut Vec<Held>)) {
        let held = self.held.entry(partition).or_default();
        let before: Vec<Incarnation> = held.iter().map(|lease| lease.holder).collect();
        change(held);
        for holder in before {
            if held.iter().any(|lease| lease.holder == holder) {
                continue;
            }
            if let Some(partitions) = self.of.get_mut(&holder) {
                partitions.remove(&partition);
                if partitions.is_empty() {
                    self.of.remove(&holder);
                }
            }
        }
        for lease in held {
            self.of.entry(lease.holder).or_default().insert(partition);
        }
    }

    /// Changes those partitions' leases for which `wanted` says so.
    pub(super) fn alter_where(
        &mut self,
        wanted: impl Fn(&[Held]) -> bool,
        change: impl Fn(&mut Vec<Held>),
    ) {
        let all = self.held.iter().filter(|(_, held)| wanted(held));
        let partitions: Vec<PartitionId> = all.map(|(partition, _)| *partition).collect();
        for partition in partitions {
            self.alter(partition, &change);
        }
    }

    /// What must hold after every change.
    pub(super) fn check(&self) {
        let mut of: SortedMap<Incarnation, SortedSet<PartitionId>> = SortedMap::new();
        for (partition, held) in &self.held {
            for lease in held {
                of.entry(lease.holder).or_default().insert(*partition);
            }
        }
        assert_eq!(of, self.of, "the index is that of the leases");
    }
}
