//! C4: a run whose disk is well does not end for want of a checkpoint.

use super::{Fact, Invariant, World, ensure};

pub(super) struct Saved;

impl Invariant for Saved {
    fn id(&self) -> &'static str {
        "C4"
    }

    fn see(&mut self, fact: &Fact<'_>, _: &World<'_>) -> Result<(), String> {
        let Fact::SaveFailed { reason, spoilt } = fact else {
            return Ok(());
        };
        ensure(*spoilt, || {
            format!("nothing is wrong with the disk: {reason}")
        })
    }
}
