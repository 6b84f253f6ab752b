//! Two-dimensional convolution, as products over the whole microbatch.
//!
//! Images are [count, height, width, channels]: what a window covers are runs of channels, and the
//! product's rows are the pixels of the output, in order. `transpose` turns other layouts.
//!
//! What the windows cover is many times the images, so it is written out for some pixels at a time,
//! which stay in the cache, and once more on the way back. Cuts are where products cut their inner
//! dimension themselves: the bits are those of one product.

use std::ops::Range;

use super::columns::Columns;
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
    columns: Columns,
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
            columns: Columns { sweep },
            outputs,
            activation: None,
        }
    }

    fn record<F: Float>(self, tape: &mut Tape<F>) -> Var {
        let [rows, columns] = self.columns.sweep.output;
        let count = tape.shape(self.x).dimensions()[0];
        tape.record_with_scratch(
            Shape::new(&[count, rows, columns, self.outputs]),
            &[self.x, self.w, self.b.unwrap_or(self.w)],
            self.columns.room(self.most::<F>()),
            move |values, out, columns| self.forward(values, out, columns),
            move |up, gradients| self.pull_back(up, gradients),
        )
    }

    /// Positions that are written out at once, of as many as there may be.
    fn positions<F>(&self) -> usize {
        let cut = INNER * self.columns.covered() * size_of::<F>();
        INNER * (CACHED / cut.max(1)).max(1)
    }

    /// The most positions that are written out at once.
    fn most<F>(&self) -> usize {
        self.positions::<F>().min(self.columns.sweep.positions())
    }

    /// Ranges of positions, in order, of at most [`Self::most`].
    fn parts<F>(&self) -> impl Iterator<Item = Range<usize>> {
        let (all, step) = (self.columns.sweep.positions(), self.positions::<F>());
        (0..all)
            .step_by(step)
            .map(move |start| start..all.min(start + step))
    }

    fn forward<F: Float>(&self, values: &Values<'_, F>, out: &mut [F], columns: &mut [F]) {
        let (x, covered) = (values.slice(self.x), self.columns.covered());
        let weight = view(values.slice(self.w), covered, self.outputs);
        for part in self.parts::<F>() {
            self.columns.unfold(part.clone(), x, columns);
            let out = &mut out[self.rows(&part)];
            let columns = view(&columns[..part.len() * covered], part.len(), covered);
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
        let (most, covered) = (self.most::<F>(), self.columns.covered());
        let (room, below) = (self.columns.room(most), (most + 1) * self.outputs);
        let turned = covered * self.outputs;
        let mut scratch = gradients.take_scratch(room + below + turned);
        let (columns, rest) = scratch.split_at_mut(room);
        let (below, turned) = rest.split_at_mut(below);
        self.pull_back_to_weights(up, gradients, columns, below);
        gradients.scatter(self.x, |to| {
            turn(up.values.slice(self.w), self.outputs, turned);
            let weight = view(turned, self.outputs, covered);
            for part in self.parts::<F>() {
                let columns = &mut columns[..part.len() * covered];
                let above = view(self.above(&part, up, below), part.len(), self.outputs);
                multiply(above, weight, columns, Write::Replace);
                self.columns.fold(part, columns, to);
            }
        });
        gradients.keep_scratch(scratch);
    }

    fn pull_back_to_weights<F: Float>(
        &self,
        up: &Upstream<'_, F>,
        gradients: &mut Gradients<'_, F>,
        columns: &mut [F],
        below: &mut [F],
    ) {
        let (x, covered) = (up.values.slice(self.x), self.columns.covered());
        let (sums, below) = below.split_at_mut(self.outputs);
        sums.fill(F::ZERO);
        for part in self.parts::<F>() {
            self.columns.unfold(part.clone(), x, columns);
            let columns = view(&columns[..part.len() * covered], part.len(), covered);
            let above = self.above(&part, up, below);
            let matrix = view(above, part.len(), self.outputs);
            gradients.add_product(self.w, columns.reversed_axes(), matrix);
            match part.start {
                0 => sum_rows(above, sums),
                _ => continue_sum_of_rows(above, sums),
            }
        }
        if let Some(b) = self.b {
            gradients.add_each(b, [sums], |[sum]| sum);
        }
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
}

/// Writes a matrix of so many columns with rows for columns: products take it up faster so.
fn turn<F: Float>(matrix: &[F], columns: usize, to: &mut [F]) {
    let rows = matrix.len() / columns.max(1);
    for (row, values) in matrix.chunks_exact(columns.max(1)).enumerate() {
        for (column, value) in values.iter().enumerate() {
            to[column * rows + row] = *value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::autograd::{Tensor, make_vjp};

    fn values(count: usize, of: u32) -> Vec<f32> {
        let draw = |i: u32| (i.wrapping_mul(2_654_435_761).wrapping_add(of) >> 8) as f32;
        (0..count as u32)
            .map(|i| draw(i) / 8_388_608.0 - 1.0)
            .collect()
    }

    fn bits<'a>(values: impl IntoIterator<Item = &'a f32>) -> Vec<u32> {
        values.into_iter().map(|value| value.to_bits()).collect()
    }

    /// Images, a weight, and how the one is moved over the other.
    #[derive(Clone, Copy, Debug)]
    struct Case {
        images: [usize; 4],
        weight: [usize; 4],
        stride: usize,
        padding: usize,
    }

    impl Case {
        fn sweep(&self) -> Sweep {
            let window = Window::square(self.weight[0], self.stride, self.padding);
            Sweep::new(window, &self.images)
        }

        /// Outputs and gradients as one product each over all positions, written out place by place.
        fn written_out(&self, [x, w, b]: [&[f32]; 3], above: &[f32]) -> [Vec<f32>; 4] {
            let (sweep, [_, _, channels, outputs]) = (self.sweep(), self.weight);
            let (positions, covered) = (sweep.positions(), sweep.places() * channels);
            let mut columns = vec![0.0; positions * covered];
            let each_place = |visit: &mut dyn FnMut(usize, usize)| {
                sweep.each(|number, at| {
                    sweep.pixels(at, |place, pixel| {
                        let Some(pixel) = pixel else { return };
                        let start = number * covered + place * channels;
                        (0..channels).for_each(|c| visit(start + c, pixel + c));
                    });
                });
            };
            each_place(&mut |column, pixel| columns[column] = x[pixel]);
            let matrix = view(&columns, positions, covered);
            let weight = view(w, covered, outputs);
            let mut out = vec![0.0; positions * outputs];
            multiply(matrix, weight, &mut out, Write::Replace);
            add_bias(&mut out, b);
            Activation::Relu.apply(&mut out);

            let mut below = above.to_vec();
            Activation::Relu.pull_back(&out, &mut below);
            let (mut to_w, mut to_b) = (vec![0.0; w.len()], vec![0.0; b.len()]);
            let up = view(&below, positions, outputs);
            multiply(matrix.reversed_axes(), up, &mut to_w, Write::Replace);
            sum_rows(&below, &mut to_b);
            multiply(up, weight.reversed_axes(), &mut columns, Write::Replace);
            let mut to_x = vec![0.0; x.len()];
            each_place(&mut |column, pixel| to_x[pixel] += columns[column]);
            [out, to_x, to_w, to_b]
        }

        fn check(&self) {
            let x = values(self.images.iter().product(), 1);
            let w = values(self.weight.iter().product(), 2);
            let b = values(self.weight[3], 3);
            let above = values(self.sweep().positions() * self.weight[3], 4);
            let expected = self.written_out([&x, &w, &b], &above);
            let arguments = [
                Tensor::new(&self.images, x),
                Tensor::new(&self.weight, w),
                Tensor::new(&[self.weight[3]], b),
            ];
            let (stride, padding) = ([self.stride; 2], [self.padding; 4]);
            let together = |tape: &mut Tape<f32>, v: &[Var]| {
                let (inputs, b) = ([v[0], v[1]], Some(v[2]));
                conv2d_activated(tape, inputs, b, stride, padding, Activation::Relu)
            };
            let apart = |tape: &mut Tape<f32>, v: &[Var]| {
                let out = conv2d(tape, v[0], v[1], Some(v[2]), stride, padding);
                super::super::relu(tape, out)
            };
            let [mut together, mut apart] =
                [make_vjp(together, &arguments), make_vjp(apart, &arguments)];
            for vjp in [&mut together, &mut apart] {
                assert_eq!(bits(vjp.value().values()), bits(&expected[0]), "{self:?}");
                let found = vjp.pull(&above);
                let found = found.iter().flat_map(Tensor::values);
                assert_eq!(bits(found), bits(expected[1..].concat().iter()), "{self:?}");
            }
        }
    }

    #[test]
    fn every_window_has_the_bits_of_one_product() {
        for size in [1, 3, 5] {
            for stride in [1, 2] {
                for padding in [0, 1, 2] {
                    for (count, channels, outputs) in [(1, 1, 3), (1, 3, 20), (3, 2, 5), (2, 9, 1)]
                    {
                        Case {
                            images: [count, 7, 6, channels],
                            weight: [size, size, channels, outputs],
                            stride,
                            padding,
                        }
                        .check();
                    }
                }
            }
        }
    }

    #[test]
    fn parts_have_the_bits_of_one_product() {
        let (images, weight) = ([2, 17, 15, 64], [3, 3, 64, 3]);
        let case = Case {
            images,
            weight,
            stride: 1,
            padding: 1,
        };
        let mut tape = Tape::new(crate::autograd::Parameters::new(Vec::new()).expect("no names"));
        let [x, w] =
            [images, weight].map(|sizes| tape.constant(&sizes, &values(sizes.iter().product(), 1)));
        let convolution = Convolution::new(&tape, [x, w], None, [1; 2], [1; 4]);
        let lengths: Vec<_> = convolution.parts::<f32>().map(|part| part.len()).collect();
        assert_eq!(lengths, [256, 254]);
        case.check();
    }
}
