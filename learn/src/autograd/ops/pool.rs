//! Pooling: the largest value or the mean of what a window covers, channel by channel.

use super::window::{Sweep, Window};
use crate::autograd::{Shape, Tape, Var};
use crate::math::Float;

/// The largest value under the window for images [count, height, width, channels]; of equal ones
/// the first gets the gradient. Nothing on the border counts.
///
/// # Panics
/// If the window does not fit, or covers nothing but border somewhere.
pub fn max_pool2d<F: Float>(tape: &mut Tape<F>, x: Var, window: Window) -> Var {
    let (sweep, shape) = plan(tape, x, window);
    let channels = sweep.channels;
    tape.record(
        shape,
        &[x],
        |values, out| {
            let x = values.slice(x);
            sweep.each(|number, at| {
                let out = &mut out[number * channels..(number + 1) * channels];
                let mut empty = true;
                sweep.pixels(at, |_, pixel| {
                    let Some(pixel) = pixel else { return };
                    let pixel = &x[pixel..pixel + channels];
                    if std::mem::take(&mut empty) {
                        out.copy_from_slice(pixel);
                    } else {
                        raise(out, pixel);
                    }
                });
                assert!(
                    !empty,
                    "a window lies on the border alone; use less padding"
                );
            });
        },
        move |up, gradients| {
            let (x_values, output) = (up.values.slice(x), up.output());
            // Channels whose gradient was given away.
            let mut given = gradients.take_scratch(channels);
            gradients.scatter(x, |to| {
                sweep.each(|number, at| {
                    let own = number * channels..(number + 1) * channels;
                    let (highest, above) = (&output[own.clone()], &up.gradient[own]);
                    given.fill(F::ZERO);
                    sweep.pixels(at, |_, pixel| {
                        let Some(pixel) = pixel else { return };
                        let pixel = pixel..pixel + channels;
                        let values = &x_values[pixel.clone()];
                        let sums = &mut to[pixel];
                        give(highest, above, values, sums, &mut given);
                    });
                });
            });
            gradients.keep_scratch(given);
        },
    )
}

/// The mean of what the window covers for images [count, height, width, channels]. The border
/// counts as zeros.
///
/// # Panics
/// If the window does not fit.
pub fn average_pool2d<F: Float>(tape: &mut Tape<F>, x: Var, window: Window) -> Var {
    let (sweep, shape) = plan(tape, x, window);
    let channels = sweep.channels;
    let share = F::ONE / F::from_f64((window.size[0] * window.size[1]) as f64);
    tape.record(
        shape,
        &[x],
        |values, out| {
            let x = values.slice(x);
            out.fill(F::ZERO);
            sweep.each(|number, at| {
                let out = &mut out[number * channels..(number + 1) * channels];
                sweep.pixels(at, |_, pixel| {
                    let Some(pixel) = pixel else { return };
                    for (out, x) in out.iter_mut().zip(&x[pixel..pixel + channels]) {
                        *out += *x;
                    }
                });
                out.iter_mut().for_each(|sum| *sum *= share);
            });
        },
        move |up, gradients| {
            gradients.scatter(x, |to| {
                sweep.each(|number, at| {
                    let above = &up.gradient[number * channels..(number + 1) * channels];
                    sweep.pixels(at, |_, pixel| {
                        let Some(pixel) = pixel else { return };
                        for (to, above) in to[pixel..pixel + channels].iter_mut().zip(above) {
                            *to += *above * share;
                        }
                    });
                });
            });
        },
    )
}

fn plan<F: Float>(tape: &Tape<F>, x: Var, window: Window) -> (Sweep, Shape) {
    let images = tape.shape(x);
    let sweep = Sweep::new(window, images.dimensions());
    let [rows, columns] = sweep.output;
    let shape = Shape::new(&[images.dimensions()[0], rows, columns, sweep.channels]);
    (sweep, shape)
}

/// Adds the gradient of each channel to a pixel that has the highest value, if none before had.
fn give<F: Float>(highest: &[F], above: &[F], values: &[F], sums: &mut [F], given: &mut [F]) {
    let channels = given.len();
    let (highest, above) = (&highest[..channels], &above[..channels]);
    let (values, sums) = (&values[..channels], &mut sums[..channels]);
    for i in 0..channels {
        let takes = values[i] == highest[i] && given[i] == F::ZERO;
        sums[i] = if takes { sums[i] + above[i] } else { sums[i] };
        given[i] = if takes { F::ONE } else { given[i] };
    }
}

/// Replaces values by larger ones. A NaN stays, or takes its place, so that it is found.
#[expect(clippy::eq_op, reason = "the generic test for NaN")]
fn raise<F: Float>(out: &mut [F], pixel: &[F]) {
    for (out, value) in out.iter_mut().zip(pixel) {
        let rises = *value > *out || *value != *value;
        *out = if rises { *value } else { *out };
    }
}
