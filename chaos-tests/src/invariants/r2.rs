//! R2: the versions of the slices differ by at most one.

use std::collections::BTreeMap;

use resilin_core::{SliceId, Step};

use super::{Fact, Invariant, World, ensure};

#[derive(Default)]
pub(super) struct Together {
    versions: BTreeMap<SliceId, Step>,
}

impl Invariant for Together {
    fn id(&self) -> &'static str {
        "R2"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &World<'_>) -> Result<(), String> {
        match fact {
            Fact::Began { base, rules, .. } => {
                self.versions = rules.slices.ids().map(|slice| (slice, *base)).collect();
            }
            Fact::Applied { slice, step, .. } => {
                self.versions.insert(*slice, step.next());
                let low = self.versions.values().min().expect("a slice just applied");
                return ensure(step.0 <= low.0, || {
                    format!("slice {slice} made {} while one has {low}", step.next())
                });
            }
            Fact::Welcomed(_)
            | Fact::Down(_)
            | Fact::Assigned(..)
            | Fact::Settled
            | Fact::Committed(_)
            | Fact::Recorded(_)
            | Fact::Announced { .. }
            | Fact::Stored(..)
            | Fact::Scored(_)
            | Fact::Damaged
            | Fact::Quiet(_)
            | Fact::Now(_)
            | Fact::Over => {}
        }
        Ok(())
    }
}
