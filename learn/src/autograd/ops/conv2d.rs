//! Two-dimensional convolution, as one product over the whole microbatch.
//!
//! Images are [count, height, width, channels]: what a window covers are runs of channels, and the
//! product's rows are the pixels of the output, in order. `transpose` turns other layouts.

use super::window::{Sweep, Window};
use super::{dense, reshape};
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
    let matrix = reshape(tape, w, &[covered, outputs]);
    let product = dense(tape, columns, matrix, b);
    let [rows, columns] = sweep.output;
    reshape(
        tape,
        product,
        &[images.dimensions()[0], rows, columns, outputs],
    )
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
                sweep.pixels(at, |place, pixel| {
                    let to = &mut row[place * channels..(place + 1) * channels];
                    match pixel {
                        Some(from) => to.copy_from_slice(&x[from..from + channels]),
                        None => to.fill(F::ZERO),
                    }
                });
            });
        },
        move |up, gradients| {
            gradients.scatter(x, |to| {
                sweep.each(|number, at| {
                    let row = &up.gradient[number * covered..(number + 1) * covered];
                    sweep.pixels(at, |place, pixel| {
                        let Some(pixel) = pixel else { return };
                        let from = &row[place * channels..(place + 1) * channels];
                        for (to, from) in to[pixel..pixel + channels].iter_mut().zip(from) {
                            *to += *from;
                        }
                    });
                });
            });
        },
    )
}
