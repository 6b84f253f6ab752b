//! Batch normalization (Ioffe and Szegedy 2015) over all but the last dimension.
//!
//! The batch is the microbatch: its statistics never depend on the worker or on how many
//! microbatches one has. Running statistics are a model's buffers, see [`super::buffer`].

use super::{add, mul};
use crate::autograd::{Shape, Tape, Var};
use crate::math::{Float, sum_rows};

/// A channel's mean and biased variance over the microbatch.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// Mean of each channel.
    pub mean: Var,
    /// Variance of each channel, divided by the count.
    pub variance: Var,
}

/// (x - mean) / sqrt(variance + epsilon) * weight + bias, with each channel's own mean and
/// variance, which are given too. Channels are the last dimension.
///
/// # Panics
/// Without rows, or if weight or bias has not one value a channel.
pub fn batch_norm<F: Float>(
    tape: &mut Tape<F>,
    x: Var,
    weight: Var,
    bias: Var,
    epsilon: F,
) -> (Var, Moments) {
    let moments = moments(tape, x);
    let normal = normalize(tape, x, moments, epsilon);
    let scaled = mul(tape, normal, weight);
    (add(tape, scaled, bias), moments)
}

/// [`batch_norm`] with a mean and a variance that are given, as when rows are scored. They get no
/// gradient.
pub fn normalized<F: Float>(
    tape: &mut Tape<F>,
    x: Var,
    moments: Moments,
    [weight, bias]: [Var; 2],
    epsilon: F,
) -> Var {
    let channels = Shape::new(&[tape.shape(x).width()]);
    let factor = tape.computed(channels, |values, out| {
        for (out, variance) in out.iter_mut().zip(values.slice(moments.variance)) {
            *out = F::ONE / (*variance + epsilon).root();
        }
    });
    let shift = tape.computed(channels, |values, out| {
        out.copy_from_slice(values.slice(moments.mean));
    });
    let centred = super::sub(tape, x, shift);
    let normal = mul(tape, centred, factor);
    let scaled = mul(tape, normal, weight);
    add(tape, scaled, bias)
}

fn moments<F: Float>(tape: &mut Tape<F>, x: Var) -> Moments {
    let shape = tape.shape(x);
    assert!(shape.rows() > 0, "statistics of no rows");
    let count = F::from_f64(shape.rows() as f64);
    let width = shape.width();
    let channels = Shape::new(&[width]);
    let mean = tape.computed(channels, |values, out| {
        sum_rows(values.slice(x), out);
        out.iter_mut().for_each(|sum| *sum = *sum / count);
    });
    let variance = tape.computed(channels, |values, out| {
        let mean = values.slice(mean);
        out.fill(F::ZERO);
        for row in values.slice(x).chunks_exact(width) {
            for ((out, x), mean) in out.iter_mut().zip(row).zip(mean) {
                *out += (*x - *mean) * (*x - *mean);
            }
        }
        out.iter_mut().for_each(|sum| *sum = *sum / count);
    });
    Moments { mean, variance }
}

/// The gradient sees that mean and variance come from `x` too.
fn normalize<F: Float>(tape: &mut Tape<F>, x: Var, moments: Moments, epsilon: F) -> Var {
    let shape = tape.shape(x);
    let width = shape.width();
    let count = F::from_f64(shape.rows() as f64);
    let scale = move |variance: F| F::ONE / (variance + epsilon).root();
    tape.record(
        shape,
        &[x],
        |values, out| {
            let (mean, variance) = (values.slice(moments.mean), values.slice(moments.variance));
            let rows = values.slice(x).chunks_exact(width);
            for (out, row) in out.chunks_exact_mut(width).zip(rows) {
                for channel in 0..width {
                    out[channel] = (row[channel] - mean[channel]) * scale(variance[channel]);
                }
            }
        },
        move |up, gradients| {
            let (output, variance) = (up.output(), up.values.slice(moments.variance));
            // Sums of the gradient, then of its products with the output: one a channel.
            let mut sums = gradients.take_scratch(2 * width);
            let (above, along) = sums.split_at_mut(width);
            sum_rows(up.gradient, above);
            along.fill(F::ZERO);
            let rows = up.gradient.chunks_exact(width);
            for (above, normal) in rows.zip(output.chunks_exact(width)) {
                for channel in 0..width {
                    along[channel] += above[channel] * normal[channel];
                }
            }
            gradients.add_by_row(x, width, |row| {
                let start = row * width;
                let sums = &sums;
                move |channel| {
                    let i = start + channel;
                    let centred = up.gradient[i] - sums[channel] / count;
                    let rest = centred - output[i] * (sums[width + channel] / count);
                    scale(variance[channel]) * rest
                }
            });
            gradients.keep_scratch(sums);
        },
    )
}
