//! C2: no start goes back behind an announced version that was not left by a rollback, unless that
//! checkpoint was damaged.

use resilin_core::Step;

use super::{Fact, Invariant, World, ensure};

#[derive(Default)]
pub(super) struct Kept {
    announced: Step,
}

impl Invariant for Kept {
    fn id(&self) -> &'static str {
        "C2"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &World<'_>) -> Result<(), String> {
        if let Fact::Announced { step, .. } = fact {
            self.announced = self.announced.max(*step);
        }
        // A version may become durable between a rollback's decision and its branch.
        if let Fact::Branched(branch) = fact {
            self.announced = self.announced.min(branch.base);
        }
        let Fact::Began { base, damaged, .. } = fact else {
            return Ok(());
        };
        let announced = std::mem::replace(&mut self.announced, *base);
        ensure(*base >= announced || *damaged, || {
            format!("a start from {base}, {announced} was announced")
        })
    }
}
