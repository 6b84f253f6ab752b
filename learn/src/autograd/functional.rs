//! Gradients of functions of tensors, as in HIPS/autograd: `grad`, `value_and_grad`, `make_vjp`.
//!
//! A function is any closure that calls operations on a tape and its arguments. These are for
//! experiments and checks; a model keeps its tape from step to step.

use resilin_core::layout::{Entry, Role};

use super::{Parameters, Shape, Tape, Tensor, Var};
use crate::math::Float;

/// The gradient of a function with one value, with respect to each of its arguments.
///
/// ```
/// use resilin_learn::autograd::{Tensor, grad, ops};
///
/// let slope = grad(|tape, x| ops::tanh(tape, x[0]));
/// let found = slope(&[Tensor::scalar(0.5f64)])[0].values()[0];
/// assert!((found - 0.7864477329659274).abs() < 1e-15);
/// ```
pub fn grad<F: Float>(
    function: impl Fn(&mut Tape<F>, &[Var]) -> Var,
) -> impl Fn(&[Tensor<F>]) -> Vec<Tensor<F>> {
    let both = value_and_grad(function);
    move |arguments| both(arguments).1
}

/// The value of a function with one value, and its gradient with respect to each argument. The
/// function that it gives panics if the value is more than one.
pub fn value_and_grad<F: Float>(
    function: impl Fn(&mut Tape<F>, &[Var]) -> Var,
) -> impl Fn(&[Tensor<F>]) -> (F, Vec<Tensor<F>>) {
    move |arguments| {
        let mut vjp = make_vjp(&function, arguments);
        let value = vjp.tape.scalar(vjp.output);
        (value, vjp.pull(&[F::ONE]))
    }
}

/// Evaluates a function and keeps the way back from its value.
pub fn make_vjp<F: Float>(
    function: impl Fn(&mut Tape<F>, &[Var]) -> Var,
    arguments: &[Tensor<F>],
) -> Vjp<F> {
    let parameters = Parameters::new(entries(arguments)).expect("numbers differ");
    let mut tape = Tape::new(parameters);
    let weights: Vec<F> = arguments.iter().flat_map(Tensor::values).copied().collect();
    tape.load(&weights);
    let vars: Vec<Var> = (0..arguments.len())
        .map(|number| tape.parameter(&number.to_string()))
        .collect();
    let output = function(&mut tape, &vars);
    Vjp {
        tape,
        output,
        shapes: arguments.iter().map(|tensor| tensor.shape()).collect(),
    }
}

/// A function's value at some arguments, and the way back: vector-Jacobian products.
pub struct Vjp<F> {
    tape: Tape<F>,
    output: Var,
    shapes: Vec<Shape>,
}

impl<F: Float> Vjp<F> {
    /// The function's value.
    #[must_use]
    pub fn value(&self) -> Tensor<F> {
        let shape = self.tape.shape(self.output);
        Tensor::new(shape.dimensions(), self.tape.value(self.output).to_vec())
    }

    /// What a gradient of the value makes of each argument. May be called again.
    ///
    /// # Panics
    /// If `upstream` has not one value for each of the function's.
    pub fn pull(&mut self, upstream: &[F]) -> Vec<Tensor<F>> {
        let count = self.shapes.iter().map(Shape::len).sum();
        let mut flat = vec![F::ZERO; count];
        self.tape.backward_from(self.output, upstream, &mut flat);
        let mut rest = flat.as_slice();
        let parts = self.shapes.iter().map(|shape| {
            let (part, after) = rest.split_at(shape.len());
            rest = after;
            Tensor::new(shape.dimensions(), part.to_vec())
        });
        parts.collect()
    }
}

/// The arguments as parameters named by their numbers.
fn entries<F: Float>(arguments: &[Tensor<F>]) -> Vec<Entry> {
    let entry = |(number, tensor): (usize, &Tensor<F>)| Entry {
        name: number.to_string(),
        shape: tensor.shape().dimensions().to_vec(),
        role: Role::Trained,
    };
    arguments.iter().enumerate().map(entry).collect()
}
