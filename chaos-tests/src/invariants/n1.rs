//! N1: whoever is named for wrong bits made them, in that leaf at that step (PROTOCOL 33).

use std::collections::BTreeSet;

use resilin_core::{Incarnation, PartitionId, Step};

use super::{Fact, Invariant, World, ensure};

#[derive(Default)]
pub(super) struct Named {
    flipped: BTreeSet<(Incarnation, Step, PartitionId)>,
}

impl Invariant for Named {
    fn id(&self) -> &'static str {
        "N1"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &World<'_>) -> Result<(), String> {
        if let Fact::Flipped(member, step, leaf) = fact {
            self.flipped.insert((*member, *step, *leaf));
        }
        let Fact::Named(member, step, leaf) = fact else {
            return Ok(());
        };
        let guilty = self.flipped.contains(&(*member, *step, *leaf));
        ensure(guilty, || {
            format!("{member} is named for partition {leaf} of step {step} and did nothing")
        })
    }
}
