//! What operations see of a tape: values on the way forward, gradients on the way back.

use ndarray::ArrayView2;

use super::Parameters;
use super::tape::{Node, Source, Var};
use crate::math::{Float, Write, add_sum_of_rows, multiply, sum_rows, view};

/// Read access to what is on a tape.
pub struct Values<'a, F> {
    pub(super) nodes: &'a [Node<F>],
    pub(super) own: &'a [Vec<F>],
    pub(super) weights: &'a [F],
}

impl<'a, F: Float> Values<'a, F> {
    /// A value, row-major.
    #[must_use]
    pub fn slice(&self, var: Var) -> &'a [F] {
        match &self.nodes[var.0].source {
            Source::Parameter(range) => &self.weights[range.clone()],
            Source::Constant | Source::Operation(_) => &self.own[var.0],
        }
    }

    /// A value as a matrix over its last dimension.
    #[must_use]
    pub fn matrix(&self, var: Var) -> ArrayView2<'a, F> {
        let shape = self.nodes[var.0].shape;
        view(self.slice(var), shape.rows(), shape.width())
    }
}

/// What a pull-back is given.
pub struct Upstream<'a, F> {
    /// All values before and at the operation's output.
    pub values: Values<'a, F>,
    pub(super) output: Var,
    /// Gradient of the loss with respect to the output.
    pub gradient: &'a [F],
}

impl<'a, F: Float> Upstream<'a, F> {
    /// The operation's output.
    #[must_use]
    pub fn output(&self) -> &'a [F] {
        self.values.slice(self.output)
    }

    /// The gradient as a matrix over the output's last dimension.
    #[must_use]
    pub fn matrix(&self) -> ArrayView2<'a, F> {
        let shape = self.values.nodes[self.output.0].shape;
        view(self.gradient, shape.rows(), shape.width())
    }
}

/// Gradients under construction. What is added for a constant is dropped, unevaluated.
pub struct Gradients<'a, F> {
    pub(super) nodes: &'a [Node<F>],
    pub(super) own: &'a mut [Vec<F>],
    pub(super) flat: &'a mut [F],
    pub(super) touched: &'a mut [bool],
    pub(super) scratch: &'a mut Vec<F>,
}

impl<F: Float> Gradients<'_, F> {
    /// Adds `value(i)` to the gradient of the `i`-th value of `var`.
    pub fn add(&mut self, var: Var, value: impl Fn(usize) -> F) {
        match self.place(var) {
            None => {}
            Some((place, Write::Replace)) => {
                place
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, g)| *g = value(i));
            }
            Some((place, Write::Add)) => {
                place
                    .iter_mut()
                    .enumerate()
                    .for_each(|(i, g)| *g += value(i));
            }
        }
    }

    /// Adds `value` of the values at the same place in `sources` to each value of the gradient of
    /// `var`. What [`Self::add`] can do, too, but without a look at bounds for every value.
    ///
    /// # Panics
    /// If a source is shorter than `var`.
    pub fn add_each<const N: usize>(
        &mut self,
        var: Var,
        sources: [&[F]; N],
        value: impl Fn([F; N]) -> F,
    ) {
        let Some((place, write)) = self.place(var) else {
            return;
        };
        let sources = sources.map(|source| &source[..place.len()]);
        match write {
            Write::Replace => {
                for i in 0..place.len() {
                    place[i] = value(sources.map(|source| source[i]));
                }
            }
            Write::Add => {
                for i in 0..place.len() {
                    place[i] += value(sources.map(|source| source[i]));
                }
            }
        }
    }

    /// Adds to the gradient of `var`, `width` values a row, what `row(r)` gives for each column: for
    /// gradients that need something of the whole row first.
    pub fn add_by_row<V: Fn(usize) -> F>(
        &mut self,
        var: Var,
        width: usize,
        row: impl Fn(usize) -> V,
    ) {
        let Some((place, write)) = self.place(var) else {
            return;
        };
        for (r, place) in place.chunks_exact_mut(width).enumerate() {
            let value = row(r);
            match write {
                Write::Replace => (0..width).for_each(|column| place[column] = value(column)),
                Write::Add => (0..width).for_each(|column| place[column] += value(column)),
            }
        }
    }

    /// Adds a matrix product to the gradient of `var`.
    pub fn add_product(&mut self, var: Var, left: ArrayView2<'_, F>, right: ArrayView2<'_, F>) {
        if let Some((place, write)) = self.place(var) {
            multiply(left, right, place, write);
        }
    }

    /// Adds the sum of a matrix's rows to the gradient of `var`.
    pub fn add_rows(&mut self, var: Var, matrix: &[F]) {
        match self.place(var) {
            None => {}
            Some((place, Write::Replace)) => sum_rows(matrix, place),
            Some((place, Write::Add)) => add_sum_of_rows(matrix, place),
        }
    }

    /// Adds matrix products, one after the other, to the gradient of `var`: a batch of products.
    pub fn add_products<'v>(
        &mut self,
        var: Var,
        products: impl ExactSizeIterator<Item = (ArrayView2<'v, F>, ArrayView2<'v, F>)>,
    ) where
        F: 'v,
    {
        let Some((place, write)) = self.place(var) else {
            return;
        };
        let length = place.len() / products.len().max(1);
        for (place, (left, right)) in place.chunks_exact_mut(length.max(1)).zip(products) {
            multiply(left, right, place, write);
        }
    }

    /// Lets `add` add to the gradient of `var`, which is zero where nothing was added before: for
    /// gradients that are scattered.
    pub fn scatter(&mut self, var: Var, add: impl FnOnce(&mut [F])) {
        let Some((place, write)) = self.place(var) else {
            return;
        };
        match write {
            Write::Replace => place.fill(F::ZERO),
            Write::Add => {}
        }
        add(place);
    }

    /// [`Self::scatter`] for parts of `length` values that only get what is their own, in order: each
    /// is zeroed when its turn comes, and is in the cache then.
    ///
    /// # Panics
    /// If `length` is 0.
    pub fn scatter_parts(&mut self, var: Var, length: usize, mut add: impl FnMut(&mut [F])) {
        let Some((place, write)) = self.place(var) else {
            return;
        };
        for part in place.chunks_exact_mut(length) {
            match write {
                Write::Replace => part.fill(F::ZERO),
                Write::Add => {}
            }
            add(part);
        }
    }

    /// A buffer of `length` values with unspecified contents, to be given back by
    /// [`Self::keep_scratch`]: memory of a pull-back that is not allocated at every step.
    #[must_use]
    pub fn take_scratch(&mut self, length: usize) -> Vec<F> {
        let mut scratch = std::mem::take(self.scratch);
        scratch.resize(length, F::ZERO);
        scratch
    }

    /// Keeps a buffer for the next that asks.
    pub fn keep_scratch(&mut self, scratch: Vec<F>) {
        *self.scratch = scratch;
    }

    /// Where the gradient of a value is, and whether something is already there.
    fn place(&mut self, var: Var) -> Option<(&mut [F], Write)> {
        let Node { shape, source } = &self.nodes[var.0];
        let write = if self.touched[var.0] {
            Write::Add
        } else {
            Write::Replace
        };
        let place = match source {
            Source::Constant => return None,
            Source::Parameter(range) => &mut self.flat[range.clone()],
            Source::Operation(_) => {
                let own = &mut self.own[var.0];
                own.resize(shape.len(), F::ZERO);
                own.as_mut_slice()
            }
        };
        self.touched[var.0] = true;
        Some((place, write))
    }

    /// Zeroes what no operation wrote.
    pub(super) fn finish(&mut self, parameters: &Parameters) {
        let mut start = 0;
        for entry in parameters.entries() {
            let range = start..start + entry.len();
            start = range.end;
            let written = self
                .nodes
                .iter()
                .zip(self.touched.iter())
                .any(|(node, touched)| {
                    *touched && matches!(&node.source, Source::Parameter(other) if *other == range)
                });
            if !written {
                self.flat[range].fill(F::ZERO);
            }
        }
    }
}
