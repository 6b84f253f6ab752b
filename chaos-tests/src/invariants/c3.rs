//! C3: the ledger has the chain line of every version up to an announced one, and up to the one that
//! a start begins with, unless the disk damaged it.

use super::{Fact, Invariant, World, ensure};

#[derive(Default)]
pub(super) struct Lines {
    /// The disk damaged the ledger once: what is lost stays lost.
    damaged: bool,
}

impl Invariant for Lines {
    fn id(&self) -> &'static str {
        "C3"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &World<'_>) -> Result<(), String> {
        if let Fact::Began {
            base,
            lines,
            ledger_damaged,
            ..
        } = fact
        {
            self.damaged |= ledger_damaged;
            ensure(lines > base || self.damaged, || {
                format!("a start from {base}, the ledger lacks line {lines}")
            })?;
        }
        let Fact::Announced { step, lines, .. } = fact else {
            return Ok(());
        };
        ensure(lines > step || self.damaged, || {
            format!("{step} is announced, the ledger lacks line {lines}")
        })
    }
}
