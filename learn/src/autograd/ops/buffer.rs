//! The next value of a model's buffer, such as a running mean.

use crate::autograd::{Shape, Tape, Var};
use crate::math::Float;

/// A term of the loss with value 0 through which the buffer `buffer` becomes `next` at the step:
/// exactly, the mean of all microbatches' `next` weighted by `rows`. Add it to the loss.
///
/// A buffer is an entry with the role `Buffer`: its sum over the microbatches, divided by the
/// weight, replaces it. So that sum is what the gradient of the buffer holds.
///
/// # Panics
/// If `next` is not as long as the buffer.
pub fn buffer<F: Float>(tape: &mut Tape<F>, buffer: Var, next: Var, rows: usize) -> Var {
    assert_eq!(
        tape.shape(buffer).len(),
        tape.shape(next).len(),
        "a next value per value of the buffer"
    );
    let weight = F::from_f64(rows as f64);
    tape.record(
        Shape::SCALAR,
        &[buffer],
        |_, out| out[0] = F::ZERO,
        move |up, gradients| {
            let next = up.values.slice(next);
            gradients.add(buffer, |i| weight * next[i]);
        },
    )
}
