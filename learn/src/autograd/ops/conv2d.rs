//! Two-dimensional convolution, as one product over the whole microbatch.
//!
//! Images are [count, height, width, channels]: what a window covers are runs of channels, and the
//! product's rows are the pixels of the output, in order. `transpose` turns other layouts.

use super::dense::dense_of_shape;
use super::window::{Sweep, Window};
use crate::autograd::{Shape, Tape, Var};
use crate::math::Float;

/// x [count, height, width, channels] with w [window height, window width, channels, outputs], and
/// b `[outputs]`: the cross-correlation that is called convolution.
///
/// # Panics
/// If the shapes do not fit, or the window not into the image.
pub fn conv2d<F: Float>(
    tape: &mut Tape<F>,
    x: Var,
    w: Var,
    b: Option<Var>,
    stride: [usize; 2],
    padding: [usize; 4],
) -> Var {
    let (images, weight) = (tape.shape(x), tape.shape(w));
    let &[height, width, channels, outputs] = weight.dimensions() else {
        panic!("a weight is [height, width, channels, outputs]");
    };
    let size = [height, width];
    let window = Window {
        size,
        stride,
        padding,
    };
    let sweep = Sweep::new(window, images.dimensions());
    assert_eq!(channels, sweep.channels, "a weight per channel");
    let covered = height * width * channels;
    let columns = columns(tape, x, sweep, covered);
    let [rows, across] = sweep.output;
    let shape = Shape::new(&[images.dimensions()[0], rows, across, outputs]);
    dense_of_shape(tape, shape, columns, w, b)
}

/// What the window covers, a row for each of its positions.
fn columns<F: Float>(tape: &mut Tape<F>, x: Var, sweep: Sweep, covered: usize) -> Var {
    let channels = sweep.channels;
    tape.record(
        Shape::new(&[sweep.positions(), covered]),
        &[x],
        |values, out| {
            let x = values.slice(x);
            sweep.each(|number, at| {
                let row = &mut out[number * covered..(number + 1) * covered];
                sweep.runs(at, |run| {
                    let (start, length) = (run.place * channels, run.length * channels);
                    let to = &mut row[start..start + length];
                    match run.pixel {
                        Some(from) => to.copy_from_slice(&x[from..from + length]),
                        None => to.fill(F::ZERO),
                    }
                });
            });
        },
        move |up, gradients| {
            gradients.scatter(x, |to| {
                sweep.each(|number, at| {
                    let row = &up.gradient[number * covered..(number + 1) * covered];
                    sweep.runs(at, |run| {
                        let Some(pixel) = run.pixel else { return };
                        let (start, length) = (run.place * channels, run.length * channels);
                        let from = &row[start..start + length];
                        for (to, from) in to[pixel..pixel + length].iter_mut().zip(from) {
                            *to += *from;
                        }
                    });
                });
            });
        },
    )
}
