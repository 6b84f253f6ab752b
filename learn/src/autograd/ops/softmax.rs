//! Softmax over the last dimension, and its logarithm.

use crate::autograd::{Tape, Var};
use crate::math::{self, Float};

/// e^x over its sum, along the last dimension.
pub fn softmax<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    let shape = tape.shape(x);
    let width = shape.width();
    tape.record(
        shape,
        &[x],
        |values, out| {
            out.copy_from_slice(values.slice(x));
            for row in out.chunks_exact_mut(width.max(1)) {
                math::softmax(row);
            }
        },
        move |up, gradients| {
            let output = up.output();
            gradients.add_by_row(x, width.max(1), |row| {
                let row = row * width..(row + 1) * width;
                let (above, output) = (&up.gradient[row.clone()], &output[row]);
                let total = math::sum_of(width, |i| above[i] * output[i]);
                move |i| output[i] * (above[i] - total)
            });
        },
    )
}

/// Logarithm of the softmax over the last dimension.
pub fn log_softmax<F: Float>(tape: &mut Tape<F>, x: Var) -> Var {
    let shape = tape.shape(x);
    let width = shape.width();
    tape.record(
        shape,
        &[x],
        |values, out| {
            out.copy_from_slice(values.slice(x));
            math::log_softmax(out, width);
        },
        move |up, gradients| {
            let output = up.output();
            gradients.add_by_row(x, width, |row| {
                let row = row * width..(row + 1) * width;
                let (above, output) = (&up.gradient[row.clone()], &output[row]);
                let total = math::sum(above);
                move |i| above[i] - math::exp(output[i]) * total
            });
        },
    )
}
