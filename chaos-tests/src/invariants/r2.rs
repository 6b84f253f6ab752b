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
        if let Fact::Began { base, rules, .. } = fact {
            self.versions = rules.slices.ids().map(|slice| (slice, *base)).collect();
        }
        let Fact::Applied { slice, step, .. } = fact else {
            return Ok(());
        };
        self.versions.insert(*slice, step.next());
        let low = self.versions.values().min().expect("a slice just applied");
        ensure(step <= low, || {
            format!("slice {slice} made {} while one has {low}", step.next())
        })
    }
}
