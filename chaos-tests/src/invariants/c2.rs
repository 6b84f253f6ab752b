//! C2: no start and no branch goes back behind an announced version, unless that checkpoint was
//! damaged.

use resilin_core::Step;

use super::{Fact, Invariant, World, ensure};

#[derive(Default)]
pub(super) struct Kept {
    announced: Step,
    /// The branch that comes next could not begin at the newest checkpoint.
    damaged: bool,
}

impl Invariant for Kept {
    fn id(&self) -> &'static str {
        "C2"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &World<'_>) -> Result<(), String> {
        if let Fact::Announced { step, .. } = fact {
            self.announced = self.announced.max(*step);
        }
        self.damaged |= matches!(fact, Fact::BaseDamaged);
        let (base, damaged) = if let Fact::Branched(branch) = fact {
            (branch.base, self.damaged)
        } else if let Fact::Began { base, damaged, .. } = fact {
            (*base, *damaged)
        } else {
            return Ok(());
        };
        let announced = std::mem::replace(&mut self.announced, base);
        self.damaged = false;
        ensure(base >= announced || damaged, || {
            format!("a start from {base}, {announced} was announced")
        })
    }
}
