//! C1: a checkpoint is complete or invisible, has the bits of its version, and is announced only
//! once it is durable.

use resilin_core::Step;

use super::{Fact, Invariant, World, ensure};

pub(super) struct Whole;

impl Invariant for Whole {
    fn id(&self) -> &'static str {
        "C1"
    }

    fn wants_right_gradients(&self) -> bool {
        true
    }

    fn see(&mut self, fact: &Fact<'_>, world: &World<'_>) -> Result<(), String> {
        let at = |step: &Step| world.oracle.blocks.get(step.0 as usize).map(Vec::as_slice);
        if let Fact::Began { base, blocks, .. } = fact {
            ensure(at(base) == Some(*blocks), || {
                format!("a start from other weights {base}")
            })?;
        }
        if let Fact::Stored(step, blocks) = fact {
            ensure(at(step) == Some(*blocks), || {
                format!("a checkpoint of other weights {step}")
            })?;
        }
        let Fact::Announced { step, stored, .. } = fact else {
            return Ok(());
        };
        ensure(*stored, || format!("{step} is announced and not durable"))
    }
}
