//! C1: a checkpoint is complete or invisible, has the bits of its version, and is announced only
//! once it and the ledger up to it are durable.

use super::{Fact, Invariant, World, ensure};

pub(super) struct Whole;

impl Invariant for Whole {
    fn id(&self) -> &'static str {
        "C1"
    }

    fn see(&mut self, fact: &Fact<'_>, world: &World<'_>) -> Result<(), String> {
        let at = |step: u64| world.oracle.blocks.get(step as usize).map(Vec::as_slice);
        match fact {
            Fact::Began { base, blocks, .. } => ensure(at(base.0) == Some(*blocks), || {
                format!("a start from other weights {base}")
            }),
            Fact::Stored(step, blocks) => ensure(at(step.0) == Some(*blocks), || {
                format!("a checkpoint of other weights {step}")
            }),
            Fact::Announced {
                step,
                stored,
                recorded,
            } => {
                ensure(*stored, || format!("{step} is announced and not durable"))?;
                ensure(recorded >= step, || {
                    format!("{step} is announced, the ledger ends at {recorded}")
                })
            }
            Fact::Welcomed(_)
            | Fact::Down(_)
            | Fact::Assigned(..)
            | Fact::Settled
            | Fact::Applied { .. }
            | Fact::Committed(_)
            | Fact::Recorded(_)
            | Fact::Scored(_)
            | Fact::Damaged
            | Fact::Quiet(_)
            | Fact::Now(_)
            | Fact::Over => Ok(()),
        }
    }
}
