//! Two-dimensional convolution, as products over the whole microbatch.
//!
//! Images are [count, height, width, channels]: what a window covers are runs of channels, and the
//! product's rows are the pixels of the output, in order. `transpose` turns other layouts.
//!
//! What the windows cover is many times the images, so it is written out for some pixels at a time,
//! which stay in the cache, and once more on the way back. Cuts are where products cut their inner
//! dimension themselves: the bits are those of one product.

use std::ops::Range;

use super::window::{Sweep, Window};
use crate::autograd::{Gradients, Shape, Tape, Upstream, Values, Var};
use crate::math::{
    Activation, Float, INNER, Write, add_bias, continue_sum_of_rows, multiply, sum_rows, view,
};

/// Bytes of what windows cover that are written out at once, if a single cut is not more.
const CACHED: usize = 512 * 1024;

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
    Convolution::new(tape, [x, w], b, stride, padding).record(tape)
}

/// [`conv2d`] and the activation that follows it: the same bits as [`super::activate`] of it, without
/// the passes over memory for values that are in the cache anyway.
///
/// # Panics
/// As [`conv2d`].
pub fn conv2d_activated<F: Float>(
    tape: &mut Tape<F>,
    [x, w]: [Var; 2],
    b: Option<Var>,
    stride: [usize; 2],
    padding: [usize; 4],
    activation: Activation,
) -> Var {
    let mut convolution = Convolution::new(tape, [x, w], b, stride, padding);
    convolution.activation = Some(activation);
    convolution.record(tape)
}

#[derive(Clone, Copy)]
struct Convolution {
    x: Var,
    w: Var,
    b: Option<Var>,
    sweep: Sweep,
    /// Values that the window covers at a position.
    covered: usize,
    outputs: usize,
    activation: Option<Activation>,
}

impl Convolution {
    fn new<F: Float>(
        tape: &Tape<F>,
        [x, w]: [Var; 2],
        b: Option<Var>,
        stride: [usize; 2],
        padding: [usize; 4],
    ) -> Self {
        let (images, weight) = (tape.shape(x), tape.shape(w));
        let &[height, width, channels, outputs] = weight.dimensions() else {
            panic!("a weight is [height, width, channels, outputs]");
        };
        let window = Window {
            size: [height, width],
            stride,
            padding,
        };
        let sweep = Sweep::new(window, images.dimensions());
        assert_eq!(channels, sweep.channels, "a weight per channel");
        if let Some(b) = b {
            assert_eq!(tape.shape(b).len(), outputs, "a bias per output");
        }
        Self {
            x,
            w,
            b,
            sweep,
            covered: height * width * channels,
            outputs,
            activation: None,
        }
    }

    fn record<F: Float>(self, tape: &mut Tape<F>) -> Var {
        let [rows, columns] = self.sweep.output;
        let count = tape.shape(self.x).dimensions()[0];
        tape.record_with_scratch(
            Shape::new(&[count, rows, columns, self.outputs]),
            &[self.x, self.w, self.b.unwrap_or(self.w)],
            self.scratch::<F>(),
            move |values, out, columns| self.forward(values, out, columns),
            move |up, gradients| self.pull_back(up, gradients),
        )
    }

    /// Positions that are written out at once.
    fn positions<F>(&self) -> usize {
        let cut = INNER * self.covered * size_of::<F>();
        INNER * (CACHED / cut.max(1)).max(1)
    }

    fn scratch<F>(&self) -> usize {
        self.positions::<F>().min(self.sweep.positions()) * self.covered
    }

    /// Ranges of positions, in order, each with room in `columns` for what their windows cover.
    fn parts<F>(&self) -> impl Iterator<Item = Range<usize>> {
        let (all, step) = (self.sweep.positions(), self.positions::<F>());
        (0..all)
            .step_by(step)
            .map(move |start| start..all.min(start + step))
    }

    fn forward<F: Float>(&self, values: &Values<'_, F>, out: &mut [F], columns: &mut [F]) {
        let (x, weight) = (values.slice(self.x), self.weight(values));
        for part in self.parts::<F>() {
            let columns = &mut columns[..part.len() * self.covered];
            self.unfold(part.clone(), x, columns);
            let out = &mut out[self.rows(&part)];
            let columns = view(columns, part.len(), self.covered);
            multiply(columns, weight, out, Write::Replace);
            if let Some(b) = self.b {
                add_bias(out, values.slice(b));
            }
            if let Some(activation) = self.activation {
                activation.apply(out);
            }
        }
    }

    fn pull_back<F: Float>(&self, up: &Upstream<'_, F>, gradients: &mut Gradients<'_, F>) {
        let (x, weight) = (up.values.slice(self.x), self.weight(&up.values));
        let most = self.positions::<F>().min(self.sweep.positions());
        let [columns, below] = [self.covered, self.outputs].map(|each| each * most);
        let mut scratch = gradients.take_scratch(columns + below + self.outputs);
        let (columns, rest) = scratch.split_at_mut(columns);
        let (below, sums) = rest.split_at_mut(below);
        sums.fill(F::ZERO);
        for part in self.parts::<F>() {
            let columns = &mut columns[..part.len() * self.covered];
            self.unfold(part.clone(), x, columns);
            let columns = view(columns, part.len(), self.covered);
            let above = self.above(&part, up, below);
            let matrix = view(above, part.len(), self.outputs);
            gradients.add_product(self.w, columns.reversed_axes(), matrix);
            if self.b.is_some() {
                match part.start {
                    0 => sum_rows(above, sums),
                    _ => continue_sum_of_rows(above, sums),
                }
            }
        }
        if let Some(b) = self.b {
            gradients.add_each(b, [sums], |[sum]| sum);
        }
        gradients.scatter(self.x, |to| {
            for part in self.parts::<F>() {
                let columns = &mut columns[..part.len() * self.covered];
                let above = view(self.above(&part, up, below), part.len(), self.outputs);
                multiply(above, weight.reversed_axes(), columns, Write::Replace);
                self.fold(part, columns, to);
            }
        });
        gradients.keep_scratch(scratch);
    }

    /// Where the outputs of some positions are.
    fn rows(&self, part: &Range<usize>) -> Range<usize> {
        part.start * self.outputs..part.end * self.outputs
    }

    /// The gradient of some outputs before the activation, which has to be made in `below`.
    fn above<'a, F: Float>(
        &self,
        part: &Range<usize>,
        up: &Upstream<'a, F>,
        below: &'a mut [F],
    ) -> &'a [F] {
        let rows = self.rows(part);
        let gradient = &up.gradient[rows.clone()];
        let Some(activation) = self.activation else {
            return gradient;
        };
        let below = &mut below[..gradient.len()];
        let outputs = &up.output()[rows];
        for ((below, output), gradient) in below.iter_mut().zip(outputs).zip(gradient) {
            *below = activation.slope(*output, *gradient);
        }
        below
    }

    fn weight<'a, F: Float>(&self, values: &Values<'a, F>) -> ndarray::ArrayView2<'a, F> {
        view(values.slice(self.w), self.covered, self.outputs)
    }

    /// Writes what the window covers, a row for each of the positions.
    fn unfold<F: Float>(&self, part: Range<usize>, x: &[F], columns: &mut [F]) {
        let (first, channels) = (part.start, self.sweep.channels);
        self.sweep.among(part, |number, at| {
            let row = &mut columns[(number - first) * self.covered..][..self.covered];
            self.sweep.runs(at, |run| {
                let (start, length) = (run.place * channels, run.length * channels);
                let to = &mut row[start..start + length];
                match run.pixel {
                    Some(from) => to.copy_from_slice(&x[from..from + length]),
                    None => to.fill(F::ZERO),
                }
            });
        });
    }

    /// Adds such rows to the pixels that they are of.
    fn fold<F: Float>(&self, part: Range<usize>, columns: &[F], to: &mut [F]) {
        let (first, channels) = (part.start, self.sweep.channels);
        self.sweep.among(part, |number, at| {
            let row = &columns[(number - first) * self.covered..][..self.covered];
            self.sweep.runs(at, |run| {
                let Some(pixel) = run.pixel else { return };
                let (start, length) = (run.place * channels, run.length * channels);
                let from = &row[start..start + length];
                for (to, from) in to[pixel..pixel + length].iter_mut().zip(from) {
                    *to += *from;
                }
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use resilin_core::layout::{Entry, Role};

    use super::*;
    use crate::autograd::Parameters;

    const IMAGES: [usize; 4] = [2, 17, 15, 64];
    const WEIGHT: [usize; 4] = [3, 3, 64, 3];

    fn values(count: usize, of: u32) -> Vec<f32> {
        let draw = |i: u32| (i.wrapping_mul(2_654_435_761).wrapping_add(of) >> 8) as f32;
        (0..count as u32)
            .map(|i| draw(i) / 8_388_608.0 - 1.0)
            .collect()
    }

    #[test]
    fn parts_have_the_bits_of_one_product() {
        let entry = |name: &str, shape: &[usize]| Entry {
            name: name.into(),
            shape: shape.to_vec(),
            role: Role::Trained,
        };
        let entries = vec![entry("x", &IMAGES), entry("w", &WEIGHT)];
        let parameters = Parameters::new(entries).expect("two names");
        let (length, x_length) = (parameters.len(), IMAGES.iter().product::<usize>());
        let weights = values(length, 1);
        let (x, w) = weights.split_at(x_length);
        let mut tape = Tape::new(parameters);
        tape.load(&weights);
        let inputs = (tape.parameter("x"), tape.parameter("w"));
        let out = conv2d(&mut tape, inputs.0, inputs.1, None, [1, 1], [1; 4]);
        let above = values(tape.shape(out).len(), 2);
        let mut gradient = vec![0.0; length];
        tape.backward_from(out, &above, &mut gradient);

        let sweep = Sweep::new(Window::square(3, 1, 1), &IMAGES);
        let convolution = Convolution {
            x: inputs.0,
            w: inputs.1,
            b: None,
            sweep,
            covered: 576,
            outputs: 3,
            activation: None,
        };
        let (positions, parts) = (sweep.positions(), convolution.parts::<f32>().count());
        assert_eq!((positions, parts), (510, 2));
        let mut columns = vec![0.0; positions * 576];
        convolution.unfold(0..positions, x, &mut columns);
        let covered = view(&columns, positions, 576);
        let (w, up) = (view(w, 576, 3), view(&above, positions, 3));
        let mut product = vec![0.0; positions * 3];
        multiply(covered, w, &mut product, Write::Replace);
        assert_eq!(tape.value(out), product);
        let mut to_w = vec![0.0; 576 * 3];
        multiply(covered.reversed_axes(), up, &mut to_w, Write::Replace);
        multiply(up, w.reversed_axes(), &mut columns, Write::Replace);
        let mut to_x = vec![0.0; x_length];
        convolution.fold(0..positions, &columns, &mut to_x);
        assert_eq!(gradient, [to_x, to_w].concat());
    }
}
