//! Pooling: the largest value or the mean of what a window covers, channel by channel.

use std::ops::Range;

use super::window::{Sweep, Window};
use crate::autograd::{Shape, Tape, Var};
use crate::math::Float;

/// Channels that are looked at together, so that what is known of them stays in registers while the
/// window's places pass.
const TOGETHER: usize = 4;

/// The largest value under the window for images [count, height, width, channels]; of equal ones
/// the first gets the gradient. Nothing on the border counts.
///
/// # Panics
/// If the window does not fit, or covers nothing but border somewhere.
pub fn max_pool2d<F: Float>(tape: &mut Tape<F>, x: Var, window: Window) -> Var {
    let (sweep, shape) = plan(tape, x, window);
    tape.record(
        shape,
        &[x],
        |values, out| {
            let images = values.slice(x).chunks_exact(sweep.input_len());
            for (x, out) in images.zip(out.chunks_exact_mut(sweep.output_len())) {
                each_window(&sweep, |places, own| raise(places, x, &mut out[own]));
            }
        },
        move |up, gradients| {
            let (values, output) = (up.values.slice(x), up.output());
            let given = values.chunks_exact(sweep.input_len());
            let made = output.chunks_exact(sweep.output_len());
            let above = up.gradient.chunks_exact(sweep.output_len());
            let mut images = given.zip(made).zip(above);
            gradients.scatter_parts(x, sweep.input_len(), |to| {
                let ((values, highest), above) = images.next().expect("an image of each");
                each_window(&sweep, |places, own| {
                    let (highest, above) = (&highest[own.clone()], &above[own]);
                    give(places, values, highest, above, to);
                });
            });
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

/// Calls `visit` for every position of the window on one image, with the first channels of the
/// pixels that it covers there, and where its outputs are.
fn each_window(sweep: &Sweep, mut visit: impl FnMut(&[usize], Range<usize>)) {
    let channels = sweep.channels;
    let mut places = Vec::with_capacity(sweep.places());
    sweep.among(0..sweep.positions_each(), |number, at| {
        places.clear();
        sweep.pixels(at, |_, pixel| places.extend(pixel));
        assert!(
            !places.is_empty(),
            "a window lies on the border alone; use less padding"
        );
        visit(&places, number * channels..(number + 1) * channels);
    });
}

/// Writes the largest value of each channel.
fn raise<F: Float>(places: &[usize], x: &[F], out: &mut [F]) {
    let (chunks, rest) = out.as_chunks_mut::<TOGETHER>();
    let done = chunks.len() * TOGETHER;
    for (number, out) in chunks.iter_mut().enumerate() {
        *out = highest(places, &x[number * TOGETHER..]);
    }
    for (channel, out) in rest.iter_mut().enumerate() {
        [*out] = highest(places, &x[done + channel..]);
    }
}

/// The largest of the values at these places, for some channels. A NaN stays, or takes the place of
/// what was there, so that it is found.
#[expect(clippy::eq_op, reason = "the generic test for NaN")]
#[inline]
fn highest<F: Float, const N: usize>(places: &[usize], x: &[F]) -> [F; N] {
    let mut highest: [F; N] = *some(x, places[0]);
    for place in &places[1..] {
        let values: &[F; N] = some(x, *place);
        for i in 0..N {
            let rises = values[i] > highest[i] || values[i] != values[i];
            highest[i] = if rises { values[i] } else { highest[i] };
        }
    }
    highest
}

/// Adds the gradient of each channel to the first pixel that has the highest value.
fn give<F: Float>(places: &[usize], x: &[F], highest: &[F], above: &[F], to: &mut [F]) {
    let (high, rest) = highest.as_chunks::<TOGETHER>();
    let (up, rest_up) = above.as_chunks::<TOGETHER>();
    let done = high.len() * TOGETHER;
    for (number, (highest, above)) in high.iter().zip(up).enumerate() {
        let start = number * TOGETHER;
        give_some(places, &x[start..], *highest, *above, &mut to[start..]);
    }
    for (channel, (highest, above)) in rest.iter().zip(rest_up).enumerate() {
        let start = done + channel;
        give_some(places, &x[start..], [*highest], [*above], &mut to[start..]);
    }
}

/// [`give`] for some channels.
#[inline]
fn give_some<F: Float, const N: usize>(
    places: &[usize],
    x: &[F],
    highest: [F; N],
    above: [F; N],
    to: &mut [F],
) {
    // What is given to a pixel without the highest value, and is left for those behind the first
    // that has it: adding it changes nothing, not even the sign of a zero.
    let nothing = -F::ZERO;
    let mut left = above;
    for place in places {
        let values: [F; N] = *some(x, *place);
        let sums = to[*place..].first_chunk_mut::<N>().expect(WHOLE);
        let takes: [bool; N] = std::array::from_fn(|i| values[i] == highest[i]);
        let given: [F; N] = std::array::from_fn(|i| if takes[i] { left[i] } else { nothing });
        left = std::array::from_fn(|i| if takes[i] { nothing } else { left[i] });
        *sums = std::array::from_fn(|i| sums[i] + given[i]);
    }
}

const WHOLE: &str = "a pixel has all channels";

#[inline]
fn some<F, const N: usize>(values: &[F], place: usize) -> &[F; N] {
    values[place..].first_chunk().expect(WHOLE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autograd::{Tensor, make_vjp, ops};

    /// Few different values, so that windows have several highest.
    fn values(count: usize, of: usize) -> Vec<f32> {
        let draw = |i: usize| ((i * 2_654_435_761 + of * 40_503) >> 7) % 5;
        (0..count).map(|i| draw(i) as f32 * -0.5).collect()
    }

    /// Outputs, and `to` with the gradients added, one value at a time.
    fn one_by_one(sweep: &Sweep, x: &[f32], above: &[f32], to: &mut [f32]) -> Vec<f32> {
        let mut out = Vec::new();
        sweep.each(|number, at| {
            for channel in 0..sweep.channels {
                let mut highest: Option<usize> = None;
                sweep.pixels(at, |_, pixel| {
                    let Some(place) = pixel.map(|pixel| pixel + channel) else {
                        return;
                    };
                    if highest.is_none_or(|highest| x[place] > x[highest]) {
                        highest = Some(place);
                    }
                });
                let highest = highest.expect("a pixel under the window");
                out.push(x[highest]);
                to[highest] += above[number * sweep.channels + channel];
            }
        });
        out
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    #[test]
    fn channels_together_have_the_bits_of_values_one_by_one() {
        for (size, stride, padding) in [(1, 1, 0), (2, 2, 0), (2, 1, 1), (3, 2, 1), (5, 2, 2)] {
            for (count, channels) in [(1, 1), (1, 4), (3, 7), (2, 20)] {
                let window = Window::square(size, stride, padding);
                let images = [count, 7, 6, channels];
                let case = format!("{window:?} on {images:?}");
                let sweep = Sweep::new(window, &images);
                let x = values(images.iter().product(), 1);
                let above = values(sweep.positions() * channels, 2);
                let tensor = Tensor::new(&images, x.clone());
                let pool = |tape: &mut Tape<f32>, v: &[Var]| max_pool2d(tape, v[0], window);
                let mut vjp = make_vjp(pool, std::slice::from_ref(&tensor));
                let mut to = vec![0.0; x.len()];
                let out = one_by_one(&sweep, &x, &above, &mut to);
                assert_eq!(bits(vjp.value().values()), bits(&out), "{case}");
                assert_eq!(bits(vjp.pull(&above)[0].values()), bits(&to), "{case}");

                // Added to a gradient that is there: that of the other term, zeros below zero.
                let twice = |tape: &mut Tape<f32>, v: &[Var]| {
                    let pooled = max_pool2d(tape, v[0], window);
                    let (pooled, other) = (ops::sum(tape, pooled), ops::sum(tape, v[0]));
                    ops::add(tape, pooled, other)
                };
                let mut vjp = make_vjp(twice, &[tensor]);
                let mut to = vec![-0.0; x.len()];
                one_by_one(&sweep, &x, &vec![-0.0; out.len()], &mut to);
                assert_eq!(bits(vjp.pull(&[-0.0])[0].values()), bits(&to), "{case}");
            }
        }
    }

    #[test]
    fn a_nan_is_found() {
        let pool =
            |tape: &mut Tape<f32>, v: &[Var]| max_pool2d(tape, v[0], Window::square(2, 2, 0));
        for place in 0..4 {
            let mut x = vec![1.0; 4 * 5];
            x[place * 5 + 4] = f32::NAN;
            let value = make_vjp(pool, &[Tensor::new(&[1, 2, 2, 5], x)]).value();
            assert_eq!(value.values()[..4], [1.0; 4]);
            assert!(value.values()[4].is_nan(), "the NaN at place {place}");
        }
    }
}
