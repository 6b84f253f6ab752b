//! The tape: values in the order they were made, and the way back through each.
//!
//! Buffers belong to positions on the tape and are kept when it is cleared: the same loss evaluated
//! again allocates nothing large.

use std::ops::Range;

use ndarray::ArrayView2;

use super::{Parameters, Shape};
use crate::math::{Float, Write, multiply, sum_rows, view};

/// A value on a tape. Valid until the tape is cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Var(usize);

/// How the gradient of an operation's output becomes gradients of its inputs.
type PullBack<F> = Box<dyn Fn(&Upstream<'_, F>, &mut Gradients<'_, F>) + Send>;

/// Values, and how each was made.
pub struct Tape<F> {
    parameters: Parameters,
    weights: Vec<F>,
    nodes: Vec<Node<F>>,
    /// Memory by position; what an earlier evaluation left there is never read.
    values: Vec<Vec<F>>,
    gradients: Vec<Vec<F>>,
    /// Whether a gradient has been written in this pass.
    touched: Vec<bool>,
}

/// One value of the tape.
struct Node<F> {
    shape: Shape,
    source: Source<F>,
}

/// Where a value comes from.
enum Source<F> {
    /// A range of the flat weights.
    Parameter(Range<usize>),
    /// Data, masks and the like: no gradient goes there.
    Constant,
    /// An operation on other values, of which at least one has a gradient.
    Operation(PullBack<F>),
}

impl<F: Float> Tape<F> {
    /// An empty tape; the weights are zero until [`Self::load`].
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        Self {
            weights: vec![F::ZERO; parameters.len()],
            parameters,
            nodes: Vec::new(),
            values: Vec::new(),
            gradients: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Takes weights in layout order and clears the tape.
    ///
    /// # Panics
    /// If there are not as many as the parameters have values.
    pub fn load(&mut self, weights: &[F]) {
        self.weights.copy_from_slice(weights);
        self.clear();
    }

    /// Forgets all values; weights and buffers stay.
    pub fn clear(&mut self) {
        self.nodes.clear();
    }

    /// A named parameter; the same value each time it is asked for.
    ///
    /// # Panics
    /// If there is none of the name.
    pub fn parameter(&mut self, name: &str) -> Var {
        let Some((range, shape)) = self.parameters.get(name) else {
            panic!("no parameter is named `{name}`; name it among the model's entries");
        };
        let known = self.nodes.iter().position(|node| match &node.source {
            Source::Parameter(other) => *other == range && node.shape == shape,
            Source::Constant | Source::Operation(_) => false,
        });
        known.map_or_else(|| self.push(shape, Source::Parameter(range)), Var)
    }

    /// Data of the given dimensions.
    ///
    /// # Panics
    /// If the number of values differs from the dimensions' product.
    pub fn constant(&mut self, dimensions: &[usize], values: &[F]) -> Var {
        self.computed(Shape::new(dimensions), |_, out| out.copy_from_slice(values))
    }

    /// Rows of f32 data, such as a batch's features.
    ///
    /// # Panics
    /// If there are not `rows * width` values.
    pub fn rows(&mut self, rows: usize, width: usize, values: &[f32]) -> Var {
        self.computed(Shape::new(&[rows, width]), |_, out| {
            assert_eq!(out.len(), values.len(), "rows x width values");
            for (out, value) in out.iter_mut().zip(values) {
                *out = F::from_f32(*value);
            }
        })
    }

    /// A value without a gradient that `fill` writes, given the values before it.
    pub fn computed(&mut self, shape: Shape, fill: impl FnOnce(&Values<'_, F>, &mut [F])) -> Var {
        self.write(shape, fill, Source::Constant)
    }

    /// An operation: `forward` writes its output (contents unspecified before), `pull_back` adds
    /// to the gradients of `inputs` what the output's gradient makes of them. Every value that
    /// `pull_back` adds to must be among the inputs.
    pub fn record(
        &mut self,
        shape: Shape,
        inputs: &[Var],
        forward: impl FnOnce(&Values<'_, F>, &mut [F]),
        pull_back: impl Fn(&Upstream<'_, F>, &mut Gradients<'_, F>) + Send + 'static,
    ) -> Var {
        let constant = inputs.iter().all(|input| self.is_constant(*input));
        let source = if constant {
            Source::Constant
        } else {
            Source::Operation(Box::new(pull_back))
        };
        self.write(shape, forward, source)
    }

    /// Dimensions of a value.
    #[must_use]
    pub fn shape(&self, var: Var) -> Shape {
        self.nodes[var.0].shape
    }

    /// A value, row-major.
    #[must_use]
    pub fn value(&self, var: Var) -> &[F] {
        self.read().slice(var)
    }

    /// A single value.
    ///
    /// # Panics
    /// If it has more than one.
    #[must_use]
    pub fn scalar(&self, var: Var) -> F {
        let value = self.value(var);
        assert_eq!(value.len(), 1, "a loss is one value; sum over the rows");
        value[0]
    }

    /// Writes the gradient of `loss` with respect to every parameter, in layout order; zero for
    /// parameters that the loss does not use.
    ///
    /// # Panics
    /// If `loss` is not a single value or `gradient` is not as long as the weights.
    pub fn backward(&mut self, loss: Var, gradient: &mut [F]) {
        assert_eq!(
            self.shape(loss).len(),
            1,
            "a loss is one value; sum over the rows"
        );
        assert_eq!(
            gradient.len(),
            self.weights.len(),
            "a gradient value per weight"
        );
        // Taken out of the tape for the pass, so that values can be read beside them.
        let mut own = std::mem::take(&mut self.gradients);
        let mut touched = std::mem::take(&mut self.touched);
        own.resize_with(self.nodes.len().max(own.len()), Vec::new);
        touched.clear();
        touched.resize(self.nodes.len(), false);
        let mut gradients = Gradients {
            nodes: &self.nodes,
            own: &mut own,
            flat: gradient,
            touched: &mut touched,
        };
        if !self.is_constant(loss) {
            gradients.add(loss, |_| F::ONE);
        }
        for index in (0..=loss.0).rev() {
            let node = &self.nodes[index];
            match &node.source {
                Source::Operation(pull_back) if gradients.touched[index] => {
                    let output = std::mem::take(&mut gradients.own[index]);
                    let upstream = Upstream {
                        values: self.read(),
                        output: Var(index),
                        gradient: &output,
                    };
                    pull_back(&upstream, &mut gradients);
                    gradients.own[index] = output;
                }
                Source::Operation(_) | Source::Parameter(_) | Source::Constant => {}
            }
        }
        gradients.finish(&self.parameters);
        self.gradients = own;
        self.touched = touched;
    }

    fn is_constant(&self, var: Var) -> bool {
        matches!(self.nodes[var.0].source, Source::Constant)
    }

    fn read(&self) -> Values<'_, F> {
        Values {
            nodes: &self.nodes,
            own: &self.values,
            weights: &self.weights,
        }
    }

    fn write(
        &mut self,
        shape: Shape,
        fill: impl FnOnce(&Values<'_, F>, &mut [F]),
        source: Source<F>,
    ) -> Var {
        let var = self.push(shape, source);
        let mut value = std::mem::take(&mut self.values[var.0]);
        value.resize(shape.len(), F::ZERO);
        fill(&self.read(), &mut value);
        self.values[var.0] = value;
        var
    }

    fn push(&mut self, shape: Shape, source: Source<F>) -> Var {
        let index = self.nodes.len();
        self.nodes.push(Node { shape, source });
        if self.values.len() == index {
            self.values.push(Vec::new());
        }
        Var(index)
    }
}

/// Read access to what is on a tape.
pub struct Values<'a, F> {
    nodes: &'a [Node<F>],
    own: &'a [Vec<F>],
    weights: &'a [F],
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
    output: Var,
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
    nodes: &'a [Node<F>],
    own: &'a mut [Vec<F>],
    flat: &'a mut [F],
    touched: &'a mut [bool],
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
            for (column, gradient) in place.iter_mut().enumerate() {
                match write {
                    Write::Replace => *gradient = value(column),
                    Write::Add => *gradient += value(column),
                }
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
            Some((place, Write::Add)) => {
                let width = place.len();
                for (column, sum) in place.iter_mut().enumerate() {
                    let values = matrix.iter().skip(column).step_by(width).copied();
                    *sum += values
                        .reduce(|total, value| total + value)
                        .unwrap_or(F::ZERO);
                }
            }
        }
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
    fn finish(&mut self, parameters: &Parameters) {
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
