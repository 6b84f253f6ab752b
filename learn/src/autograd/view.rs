//! A tensor's values in another order: permuted, cut or repeated. Nothing is copied until a walk
//! does so, and the walk of a gradient goes the same way back.

use std::ops::Range;

use super::Shape;
use super::shape::MOST;
use crate::math::Float;

/// Places of a tensor's values, visited row-major over a shape of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    shape: Shape,
    strides: [usize; MOST],
    start: usize,
}

impl View {
    /// All values in their own order.
    pub(super) fn of(shape: Shape) -> Self {
        let mut strides = [0; MOST];
        let mut step = 1;
        for (axis, size) in shape.dimensions().iter().enumerate().rev() {
            strides[axis] = step;
            step *= size;
        }
        Self {
            shape,
            strides,
            start: 0,
        }
    }

    /// With dimension `axes[i]` in place `i`.
    ///
    /// # Panics
    /// If `axes` does not name each dimension once.
    pub(super) fn permuted(self, axes: &[usize]) -> Self {
        let sizes = self.shape.dimensions();
        let mut named = axes.to_vec();
        named.sort_unstable();
        assert!(
            named.into_iter().eq(0..sizes.len()),
            "axes {axes:?} of a tensor of {} dimensions: name each once",
            sizes.len()
        );
        let mut strides = [0; MOST];
        for (stride, axis) in strides.iter_mut().zip(axes) {
            *stride = self.strides[*axis];
        }
        let sizes: Vec<usize> = axes.iter().map(|axis| sizes[*axis]).collect();
        Self {
            shape: Shape::new(&sizes),
            strides,
            start: self.start,
        }
    }

    /// Only `range` of a dimension.
    ///
    /// # Panics
    /// If the tensor has no such dimension or range.
    pub(super) fn cut(self, axis: usize, range: &Range<usize>) -> Self {
        let mut sizes = self.shape.dimensions().to_vec();
        assert!(
            axis < sizes.len() && range.start <= range.end && range.end <= sizes[axis],
            "{range:?} of dimension {axis} of {sizes:?}"
        );
        sizes[axis] = range.len();
        Self {
            shape: Shape::new(&sizes),
            strides: self.strides,
            start: self.start + range.start * self.strides[axis],
        }
    }

    /// Repeated over a larger shape, as [`Shape::broadcast`] made it.
    pub(super) fn repeated(self, shape: Shape) -> Self {
        let (own, all) = (self.shape.dimensions(), shape.dimensions());
        let new = all.len() - own.len();
        let mut strides = [0; MOST];
        for (axis, size) in own.iter().enumerate() {
            strides[new + axis] = if *size == 1 { 0 } else { self.strides[axis] };
        }
        Self {
            shape,
            strides,
            start: self.start,
        }
    }

    /// What is walked over.
    pub(super) fn shape(&self) -> Shape {
        self.shape
    }

    /// Calls `visit` with every number of a value, ascending, and its place.
    #[inline]
    pub(super) fn each(&self, mut visit: impl FnMut(usize, usize)) {
        self.each_pair(self, |i, place, _| visit(i, place));
    }

    /// Copies the values to their numbers.
    pub(super) fn gather<F: Copy>(&self, values: &[F], out: &mut [F]) {
        let (length, stride) = self.inner();
        self.each_run(self, |start, place, _| {
            let out = &mut out[start..start + length];
            match stride {
                1 => out.copy_from_slice(&values[place..place + length]),
                _ => {
                    for (j, out) in out.iter_mut().enumerate() {
                        *out = values[place + j * stride];
                    }
                }
            }
        });
    }

    /// Adds to the values what is at their numbers.
    pub(super) fn scatter<F: Float>(&self, values: &mut [F], added: &[F]) {
        let (length, stride) = self.inner();
        self.each_run(self, |start, place, _| {
            let added = &added[start..start + length];
            match stride {
                1 => {
                    for (value, added) in values[place..place + length].iter_mut().zip(added) {
                        *value += *added;
                    }
                }
                _ => {
                    for (j, added) in added.iter().enumerate() {
                        values[place + j * stride] += *added;
                    }
                }
            }
        });
    }

    /// Calls `visit` with every number of a value, ascending, and its places in both views, which
    /// have one shape.
    #[inline]
    pub(super) fn each_pair(&self, other: &Self, mut visit: impl FnMut(usize, usize, usize)) {
        let ((length, one), (_, two)) = (self.inner(), other.inner());
        self.each_run(other, |start, first, second| {
            for j in 0..length {
                visit(start + j, first + j * one, second + j * two);
            }
        });
    }

    /// Values in the last dimension, and the distance of their places.
    pub(super) fn inner(&self) -> (usize, usize) {
        let last = self.shape.dimensions().len().checked_sub(1);
        last.map_or((1, 0), |last| (self.shape.width(), self.strides[last]))
    }

    /// Calls `visit` with the number of the first value of every run along the last dimension, and
    /// its places in both views, which have one shape.
    #[inline]
    fn each_run(&self, other: &Self, mut visit: impl FnMut(usize, usize, usize)) {
        debug_assert_eq!(self.shape, other.shape, "two views of one shape");
        if self.shape.is_empty() {
            return;
        }
        let (mut first, mut second) = (self.start, other.start);
        let Some((inner, outer)) = self.shape.dimensions().split_last() else {
            return visit(0, first, second);
        };
        let last = outer.len();
        let mut index = [0; MOST];
        let mut done = 0;
        loop {
            visit(done, first, second);
            done += inner;
            let mut axis = last;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                index[axis] += 1;
                first += self.strides[axis];
                second += other.strides[axis];
                if index[axis] < outer[axis] {
                    break;
                }
                first -= self.strides[axis] * outer[axis];
                second -= other.strides[axis] * outer[axis];
                index[axis] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(view: View) -> Vec<usize> {
        let mut places = Vec::new();
        view.each(|i, place| {
            assert_eq!(i, places.len());
            places.push(place);
        });
        places
    }

    #[test]
    fn walks_go_row_major_over_the_views_own_shape() {
        let all = View::of(Shape::new(&[2, 3]));
        assert_eq!(places(all), [0, 1, 2, 3, 4, 5]);
        assert_eq!(places(all.permuted(&[1, 0])), [0, 3, 1, 4, 2, 5]);
        assert_eq!(places(all.cut(1, &(1..3))), [1, 2, 4, 5]);
        assert_eq!(places(all.cut(0, &(1..2)).permuted(&[1, 0])), [3, 4, 5]);
        let row = View::of(Shape::new(&[1, 3])).repeated(Shape::new(&[2, 2, 3]));
        assert_eq!(places(row), [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
        let column = View::of(Shape::new(&[2, 1])).repeated(Shape::new(&[2, 3]));
        assert_eq!(places(column), [0, 0, 0, 1, 1, 1]);
        assert_eq!(
            places(View::of(Shape::SCALAR).repeated(Shape::new(&[2]))),
            [0, 0]
        );
        assert_eq!(places(View::of(Shape::SCALAR)), [0]);
        assert_eq!(places(View::of(Shape::new(&[2, 0]))), [0; 0]);
    }
}
