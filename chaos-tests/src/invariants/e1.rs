//! E1: test rows are each scored once, and the last version's score is that of the serial run.

use super::{Fact, Invariant, World, ensure};

pub(super) struct Scores;

impl Invariant for Scores {
    fn id(&self) -> &'static str {
        "E1"
    }

    fn see(&mut self, fact: &Fact<'_>, world: &World<'_>) -> Result<(), String> {
        match fact {
            Fact::Scored(metrics) => {
                let Some(test) = &world.oracle.test else {
                    return Err(format!("scores without test rows: {metrics:?}"));
                };
                ensure(metrics.rows == test.rows, || format!("rows of {metrics:?}"))?;
                let last = metrics.version.0 == world.oracle.task.total_steps;
                let same = (metrics.correct, metrics.loss_sum.to_bits())
                    == (test.correct, test.loss_sum.to_bits());
                ensure(!last || same, || format!("{metrics:?} is not {test:?}"))
            }
            Fact::Began { .. }
            | Fact::Welcomed(_)
            | Fact::Down(_)
            | Fact::Assigned(..)
            | Fact::Settled
            | Fact::Applied { .. }
            | Fact::Committed(_)
            | Fact::Recorded(_)
            | Fact::Announced { .. }
            | Fact::Stored(..)
            | Fact::Damaged
            | Fact::Quiet(_)
            | Fact::Now(_)
            | Fact::Over => Ok(()),
        }
    }
}
