//! E1: test rows are each scored once, and the last version's score is that of the serial run.

use super::{Fact, Invariant, World, ensure};

pub(super) struct Scores;

impl Invariant for Scores {
    fn id(&self) -> &'static str {
        "E1"
    }

    fn wants_right_gradients(&self) -> bool {
        true
    }

    fn see(&mut self, fact: &Fact<'_>, world: &World<'_>) -> Result<(), String> {
        let Fact::Scored(metrics) = fact else {
            return Ok(());
        };
        let Some(test) = &world.oracle.test else {
            return Err(format!("scores without test rows: {metrics:?}"));
        };
        ensure(metrics.rows == test.rows, || format!("rows of {metrics:?}"))?;
        let last = metrics.version.0 == world.oracle.task.total_steps;
        let same = (metrics.correct, metrics.loss_sum.to_bits())
            == (test.correct, test.loss_sum.to_bits());
        ensure(!last || same, || format!("{metrics:?} is not {test:?}"))
    }
}
