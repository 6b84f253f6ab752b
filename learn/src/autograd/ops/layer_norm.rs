//! Layer normalization (Ba et al. 2016): each row to mean 0 and variance 1.

use crate::autograd::{Shape, Tape, Var};
use crate::math::{self, Float};

/// (x - mean) / sqrt(variance + epsilon) * weight + bias over the last dimension, with the biased
/// variance.
///
/// # Panics
/// If weight or bias is not as long as a row.
pub fn layer_norm<F: Float>(
    tape: &mut Tape<F>,
    x: Var,
    weight: Var,
    bias: Option<Var>,
    epsilon: F,
) -> Var {
    let normal = normalize(tape, x, epsilon);
    let scaled = super::mul(tape, normal, weight);
    bias.map_or(scaled, |bias| super::add(tape, scaled, bias))
}

/// Each row to mean 0 and variance 1.
fn normalize<F: Float>(tape: &mut Tape<F>, x: Var, epsilon: F) -> Var {
    let shape = tape.shape(x);
    let width = shape.width();
    let count = F::from_f64(width as f64);
    // The reciprocal of each row's deviation is kept for the way back.
    let scales = tape.computed(Shape::new(&[shape.rows()]), |values, out| {
        for (scale, row) in out.iter_mut().zip(values.slice(x).chunks_exact(width)) {
            let mean = math::sum(row) / count;
            let variance = math::sum_of(width, |i| (row[i] - mean) * (row[i] - mean)) / count;
            *scale = F::ONE / (variance + epsilon).root();
        }
    });
    tape.record(
        shape,
        &[x],
        |values, out| {
            let rows = values.slice(x).chunks_exact(width);
            let outs = out.chunks_exact_mut(width);
            for ((out, row), scale) in outs.zip(rows).zip(values.slice(scales)) {
                let mean = math::sum(row) / count;
                for (out, x) in out.iter_mut().zip(row) {
                    *out = (*x - mean) * *scale;
                }
            }
        },
        move |up, gradients| {
            let (output, scales) = (up.output(), up.values.slice(scales));
            gradients.add_by_row(x, width, |row| {
                let start = row * width;
                let above = &up.gradient[start..start + width];
                let normal = &output[start..start + width];
                let mean = math::sum(above) / count;
                let along = math::sum_of(width, |i| above[i] * normal[i]) / count;
                let scale = scales[row];
                move |i| scale * (above[i] - mean - normal[i] * along)
            });
        },
    )
}
