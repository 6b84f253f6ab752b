//! V1: under one view one process at most serves a slice, and no version that a slice served within a
//! timeline is ever taken back by whoever serves it next.

use std::collections::BTreeMap;

use resilin_core::{SliceId, Step, Timeline, View};

use super::{Fact, Invariant, World, ensure};

/// What was served under a view.
struct Served {
    process: u32,
    first: Step,
    newest: Step,
}

#[derive(Default)]
pub(super) struct Primaries {
    served: BTreeMap<(SliceId, Timeline), BTreeMap<View, Served>>,
}

impl Invariant for Primaries {
    fn id(&self) -> &'static str {
        "V1"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &World<'_>) -> Result<(), String> {
        let Fact::Served {
            slice,
            timeline,
            view,
            process,
            version,
        } = fact
        else {
            return Ok(());
        };
        let views = self.served.entry((*slice, *timeline)).or_default();
        let known = views.entry(*view).or_insert(Served {
            process: *process,
            first: *version,
            newest: *version,
        });
        ensure(known.process == *process, || {
            let other = known.process;
            format!("slice {slice} is served by {process} and {other} under view {view}")
        })?;
        known.newest = (*version).max(known.newest);
        let mut newest = Step(0);
        for (number, served) in &*views {
            ensure(served.first >= newest, || {
                let first = served.first;
                format!("slice {slice} served {newest} before view {number}, which has {first}")
            })?;
            newest = newest.max(served.newest);
        }
        Ok(())
    }
}
