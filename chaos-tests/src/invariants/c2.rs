//! C2: no start goes back behind an announced version, unless that checkpoint was damaged.

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
        match fact {
            Fact::Began { base, damaged, .. } => {
                let back = *base < self.announced;
                ensure(!back || *damaged, || {
                    format!("a start from {base}, {} was announced", self.announced)
                })?;
                self.announced = *base;
            }
            Fact::Announced { step, .. } => self.announced = self.announced.max(*step),
            Fact::Welcomed(_)
            | Fact::Down(_)
            | Fact::Assigned(..)
            | Fact::Settled
            | Fact::Applied { .. }
            | Fact::Committed(_)
            | Fact::Recorded(_)
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
