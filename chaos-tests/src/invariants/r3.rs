//! R3: the weights of every version have the bits of the serial run, in the slices and in the
//! ledger. It is judged at every step: a difference may be invisible again at the end.

use super::{Fact, Invariant, World, ensure};

pub(super) struct Bits;

impl Invariant for Bits {
    fn id(&self) -> &'static str {
        "R3"
    }

    fn wants_right_gradients(&self) -> bool {
        true
    }

    fn see(&mut self, fact: &Fact<'_>, world: &World<'_>) -> Result<(), String> {
        if let Fact::Applied {
            slice,
            timeline,
            step,
            first,
            digests,
            ..
        } = fact
        {
            let made = step.next();
            let blocks = world.oracle.blocks.get(made.0 as usize);
            let expected = blocks.map(|blocks| &blocks[*first..first + digests.len()]);
            ensure(expected == Some(*digests), || {
                format!("slice {slice} has other weights {made} in timeline {timeline}")
            })?;
        }
        let Fact::Recorded(record) = fact else {
            return Ok(());
        };
        let made = record.step.next();
        let line = world.oracle.chain.get(made.0 as usize);
        ensure(line == Some(&record.chain), || {
            format!("the ledger's line {made} is not that of the serial run")
        })?;
        let skipped = world.oracle.skipped.contains(&record.step);
        ensure(skipped == record.skipped, || {
            format!("step {} is skipped: {}", record.step, record.skipped)
        })
    }
}
