//! The tape: values in the order they were made, and the way back through each.
//!
//! Buffers belong to positions on the tape and are kept when it is cleared: the same loss evaluated
//! again allocates nothing large.

use std::ops::Range;

use super::pass::{Gradients, Upstream, Values};
use super::{Parameters, Shape};
use crate::dataset::Batch;
use crate::math::Float;

/// A value on a tape. Valid until the tape is cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Var(pub(super) usize);

/// How the gradient of an operation's output becomes gradients of its inputs.
pub(super) type PullBack<F> = Box<dyn Fn(&Upstream<'_, F>, &mut Gradients<'_, F>) + Send>;

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
    scratch: Vec<F>,
}

/// One value of the tape.
pub(super) struct Node<F> {
    pub(super) shape: Shape,
    pub(super) source: Source<F>,
}

/// Where a value comes from.
pub(super) enum Source<F> {
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
            scratch: Vec::new(),
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

    /// The features of a batch, [rows, width].
    ///
    /// # Panics
    /// If there are not `rows * width`.
    pub fn batch(&mut self, batch: &Batch) -> Var {
        self.rows(batch.rows, batch.width, &batch.features)
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

    /// [`Self::record`] of an operation whose forward pass needs memory beside its output: `length`
    /// values with unspecified contents.
    pub fn record_with_scratch(
        &mut self,
        shape: Shape,
        inputs: &[Var],
        length: usize,
        forward: impl FnOnce(&Values<'_, F>, &mut [F], &mut [F]),
        pull_back: impl Fn(&Upstream<'_, F>, &mut Gradients<'_, F>) + Send + 'static,
    ) -> Var {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(length.max(scratch.len()), F::ZERO);
        let forward =
            |values: &Values<'_, F>, out: &mut [F]| forward(values, out, &mut scratch[..length]);
        let var = self.record(shape, inputs, forward, pull_back);
        self.scratch = scratch;
        var
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
        self.backward_from(loss, &[F::ONE], gradient);
    }

    /// Writes what a gradient `upstream` of `output` makes of every parameter, in layout order: the
    /// product of `upstream` with the Jacobian. Zero for parameters that `output` does not use.
    ///
    /// # Panics
    /// If `upstream` is not as long as `output`, or `gradient` not as long as the weights.
    pub fn backward_from(&mut self, output: Var, upstream: &[F], gradient: &mut [F]) {
        assert_eq!(
            upstream.len(),
            self.shape(output).len(),
            "a gradient value per value of the output"
        );
        assert_eq!(
            gradient.len(),
            self.weights.len(),
            "a gradient value per weight"
        );
        // Taken out of the tape for the pass, so that values can be read beside them.
        let mut own = std::mem::take(&mut self.gradients);
        let mut touched = std::mem::take(&mut self.touched);
        let mut scratch = std::mem::take(&mut self.scratch);
        own.resize_with(self.nodes.len().max(own.len()), Vec::new);
        touched.clear();
        touched.resize(self.nodes.len(), false);
        let mut gradients = Gradients {
            nodes: &self.nodes,
            own: &mut own,
            flat: gradient,
            touched: &mut touched,
            scratch: &mut scratch,
        };
        if !self.is_constant(output) {
            gradients.add(output, |i| upstream[i]);
        }
        for index in (0..=output.0).rev() {
            let node = &self.nodes[index];
            match &node.source {
                Source::Operation(pull_back) if gradients.touched[index] => {
                    let own = std::mem::take(&mut gradients.own[index]);
                    let upstream = Upstream {
                        values: self.read(),
                        output: Var(index),
                        gradient: &own,
                    };
                    pull_back(&upstream, &mut gradients);
                    gradients.own[index] = own;
                }
                Source::Operation(_) | Source::Parameter(_) | Source::Constant => {}
            }
        }
        gradients.finish(&self.parameters);
        self.gradients = own;
        self.touched = touched;
        self.scratch = scratch;
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
