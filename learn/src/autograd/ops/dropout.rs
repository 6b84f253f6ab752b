//! Dropout.

use resilin_core::random::Stream;

use super::mul;
use crate::autograd::{Tape, Var};
use crate::math::{Float, dropout_mask};

/// Drops each value whose draw is below `rate` and scales the others by 1 / (1 - rate). The draw of
/// a value has its position, row x width + column, in the stream.
///
/// # Panics
/// If the rate is not in [0, 1).
pub fn dropout<F: Float>(tape: &mut Tape<F>, x: Var, rate: f32, stream: &mut Stream) -> Var {
    assert!(
        (0.0..1.0).contains(&rate),
        "dropout {rate}: choose a rate from 0 to below 1"
    );
    let mask = tape.computed(tape.shape(x), |_, out| dropout_mask(stream, rate, out));
    mul(tape, x, mask)
}
