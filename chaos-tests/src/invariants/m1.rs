//! M1: a partition's holder is a live member, and no two hold it for the same step of one
//! generation.

use resilin_core::message::Lease;
use resilin_core::sorted::{SortedMap, SortedSet};
use resilin_core::{Generation, Incarnation, PartitionId, Step};

use super::{Fact, Invariant, World, ensure};

#[derive(Default)]
pub(super) struct Holders {
    live: SortedSet<Incarnation>,
    generation: Generation,
    leases: SortedMap<PartitionId, Vec<(Incarnation, Lease)>>,
    told: SortedMap<Incarnation, Vec<PartitionId>>,
}

impl Invariant for Holders {
    fn id(&self) -> &'static str {
        "M1"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &World<'_>) -> Result<(), String> {
        if let Fact::Began { .. } = fact {
            self.live.clear();
            self.leases.clear();
            self.told.clear();
        }
        if let Fact::Welcomed(member) = fact {
            self.live.insert(*member);
        }
        if let Fact::Down(member) = fact {
            self.live.remove(member);
        }
        let Fact::Assigned(member, assignment) = fact else {
            return Ok(());
        };
        if assignment.generation != self.generation {
            self.generation = assignment.generation;
            self.leases.clear();
            self.told.clear();
        }
        let live = self.live.contains(member) || assignment.leases.is_empty();
        ensure(live, || format!("{member} holds leases and is no member"))?;
        let partitions = assignment.leases.iter().map(|lease| lease.partition);
        let before = self.told.insert(*member, partitions.collect());
        for partition in before.unwrap_or_default() {
            let held = self.leases.entry(partition).or_default();
            held.retain(|(holder, _)| holder != member);
        }
        for lease in &assignment.leases {
            let held = self.leases.entry(lease.partition).or_default();
            apart(held, (*member, *lease))
                .map_err(|what| format!("{what} in generation {}", self.generation))?;
            held.push((*member, *lease));
        }
        Ok(())
    }
}

fn apart(
    held: &[(Incarnation, Lease)],
    (member, lease): (Incarnation, Lease),
) -> Result<(), String> {
    let end = |lease: &Lease| lease.until.unwrap_or(Step(u64::MAX));
    for (other, theirs) in held.iter().filter(|(other, _)| *other != member) {
        let shared = lease.from < end(theirs) && theirs.from < end(&lease);
        ensure(!shared, || {
            format!("{member} and {other} hold {lease:?} and {theirs:?}")
        })?;
    }
    Ok(())
}
