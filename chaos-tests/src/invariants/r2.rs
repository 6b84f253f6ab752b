//! R2: the versions of the slices differ by at most one.

use resilin_core::sorted::SortedMap;
use resilin_core::{SliceId, Step, Timeline};

use super::{Fact, Invariant, World, ensure};

#[derive(Default)]
pub(super) struct Together {
    timeline: Timeline,
    versions: SortedMap<SliceId, Step>,
}

impl Invariant for Together {
    fn id(&self) -> &'static str {
        "R2"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &World<'_>) -> Result<(), String> {
        if let Fact::Began {
            timeline,
            base,
            rules,
            resumed: false,
            ..
        } = fact
        {
            self.begin(*timeline, rules.slices.slices(), *base);
        }
        if let Fact::Branched(branch) = fact {
            self.begin(branch.timeline, branch.shards, branch.base);
        }
        let Fact::Applied {
            slice,
            timeline,
            step,
            ..
        } = fact
        else {
            return Ok(());
        };
        if *timeline != self.timeline {
            return Ok(());
        }
        // A backup follows later.
        let version = self.versions.entry(*slice).or_default();
        *version = step.next().max(*version);
        let low = self.versions.values().min().expect("a slice just applied");
        ensure(step <= low, || {
            format!("slice {slice} made {} while one has {low}", step.next())
        })
    }
}

impl Together {
    fn begin(&mut self, timeline: Timeline, slices: u16, base: Step) {
        self.timeline = timeline;
        self.versions = (0..slices).map(|slice| (SliceId(slice), base)).collect();
    }
}
