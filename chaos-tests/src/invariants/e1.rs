//! E1: test rows are each scored once, and every version's score is that of the serial run.

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
        let Some(test) = world.oracle.scores.get(&metrics.epoch) else {
            return Err(format!("scores that are not due: {metrics:?}"));
        };
        let scored = (metrics.rows, metrics.correct, metrics.loss_sum.to_bits());
        let same = scored == (test.rows, test.correct, test.loss_sum.to_bits());
        ensure(same, || format!("{metrics:?} is not {test:?}"))
    }
}
