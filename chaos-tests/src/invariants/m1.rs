//! M1: a partition's holder is a live member, and no two hold it for the same step of one
//! generation.

use std::collections::{BTreeMap, BTreeSet};

use resilin_core::message::Lease;
use resilin_core::{Generation, Incarnation, Step};

use super::{Fact, Invariant, World, ensure};

#[derive(Default)]
pub(super) struct Holders {
    live: BTreeSet<Incarnation>,
    generation: Generation,
    leases: BTreeMap<Incarnation, Vec<Lease>>,
}

impl Invariant for Holders {
    fn id(&self) -> &'static str {
        "M1"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &World<'_>) -> Result<(), String> {
        if let Fact::Began { .. } = fact {
            self.live.clear();
            self.leases.clear();
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
        }
        let live = self.live.contains(member) || assignment.leases.is_empty();
        ensure(live, || format!("{member} holds leases and is no member"))?;
        self.leases.insert(*member, assignment.leases.clone());
        self.apart(*member)
    }
}

impl Holders {
    fn apart(&self, member: Incarnation) -> Result<(), String> {
        let end = |lease: &Lease| lease.until.unwrap_or(Step(u64::MAX));
        for (other, theirs) in self.leases.iter().filter(|(other, _)| **other != member) {
            for (a, b) in self.leases[&member]
                .iter()
                .flat_map(|a| theirs.iter().map(move |b| (a, b)))
            {
                let shared = a.partition == b.partition && a.from < end(b) && b.from < end(a);
                ensure(!shared, || {
                    format!(
                        "{member} and {other} hold {a:?} and {b:?} in generation {}",
                        self.generation
                    )
                })?;
            }
        }
        Ok(())
    }
}
