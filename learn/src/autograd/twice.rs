//! Second order: gradients that are values on a tape, and so have gradients themselves.
//!
//! The tape's own way back makes numbers. The primitives here have a second one, written in
//! operations of the tape; [`Twice::gradient`] puts the gradient of what was applied onto the tape
//! by them. For Hessian-vector products, penalties on gradients, and checks; a model that needs none
//! of that pays for none of it.

use std::collections::BTreeMap;

use super::{Parameters, Tape, Tensor, Var, check, check_gradient, ops};
use crate::math::Float;
use crate::model::ModelError;

/// An operation whose gradient is written in operations. Pairs have equal shapes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Primitive {
    /// x + y.
    Add,
    /// x - y.
    Sub,
    /// x * y value by value.
    Mul,
    /// x / y value by value.
    Div,
    /// x times a number.
    Scale(f64),
    /// -x.
    Neg,
    /// e^x.
    Exp,
    /// Natural logarithm.
    Ln,
    /// Square root.
    Sqrt,
    /// x * x.
    Square,
    /// 1 / x.
    Reciprocal,
    /// Hyperbolic tangent.
    Tanh,
    /// 1 / (1 + e^-x).
    Sigmoid,
    /// ln(1 + e^x).
    Softplus,
    /// max(x, 0); its slope has the gradient 0.
    Relu,
    /// Sum of all values.
    Sum,
    /// Rows and columns of a matrix changed over.
    Transpose,
    /// Product of two matrices.
    Matmul,
}

impl Primitive {
    /// Every primitive that can be differentiated twice.
    pub const ALL: [Self; 18] = [
        Self::Add,
        Self::Sub,
        Self::Mul,
        Self::Div,
        Self::Scale(-1.5),
        Self::Neg,
        Self::Exp,
        Self::Ln,
        Self::Sqrt,
        Self::Square,
        Self::Reciprocal,
        Self::Tanh,
        Self::Sigmoid,
        Self::Softplus,
        Self::Relu,
        Self::Sum,
        Self::Transpose,
        Self::Matmul,
    ];

    /// Its name among [`ops`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Add => "add",
            Self::Sub => "sub",
            Self::Mul => "mul",
            Self::Div => "div",
            Self::Scale(_) => "scale",
            Self::Neg => "neg",
            Self::Exp => "exp",
            Self::Ln => "ln",
            Self::Sqrt => "sqrt",
            Self::Square => "square",
            Self::Reciprocal => "reciprocal",
            Self::Tanh => "tanh",
            Self::Sigmoid => "sigmoid",
            Self::Softplus => "softplus",
            Self::Relu => "relu",
            Self::Sum => "sum",
            Self::Transpose => "transpose",
            Self::Matmul => "matmul",
        }
    }

    /// Inputs that it takes.
    #[must_use]
    pub fn inputs(self) -> usize {
        match self {
            Self::Add | Self::Sub | Self::Mul | Self::Div | Self::Matmul => 2,
            Self::Scale(_)
            | Self::Neg
            | Self::Exp
            | Self::Ln
            | Self::Sqrt
            | Self::Square
            | Self::Reciprocal
            | Self::Tanh
            | Self::Sigmoid
            | Self::Softplus
            | Self::Relu
            | Self::Sum
            | Self::Transpose => 1,
        }
    }

    fn value<F: Float>(self, tape: &mut Tape<F>, x: Var, y: Var) -> Var {
        match self {
            Self::Add => ops::add(tape, x, y),
            Self::Sub => ops::sub(tape, x, y),
            Self::Mul => ops::mul(tape, x, y),
            Self::Div => ops::div(tape, x, y),
            Self::Scale(factor) => ops::scale(tape, x, F::from_f64(factor)),
            Self::Neg => ops::neg(tape, x),
            Self::Exp => ops::exp(tape, x),
            Self::Ln => ops::ln(tape, x),
            Self::Sqrt => ops::sqrt(tape, x),
            Self::Square => ops::square(tape, x),
            Self::Reciprocal => ops::reciprocal(tape, x),
            Self::Tanh => ops::tanh(tape, x),
            Self::Sigmoid => ops::sigmoid(tape, x),
            Self::Softplus => ops::softplus(tape, x),
            Self::Relu => ops::relu(tape, x),
            Self::Sum => ops::sum(tape, x),
            Self::Transpose => ops::transpose(tape, x, &[1, 0]),
            Self::Matmul => ops::matmul(tape, x, y),
        }
    }

    /// The gradients of the inputs, in their order, from that of the output.
    fn pull<F: Float>(self, tape: &mut Tape<F>, [x, y, out, up]: [Var; 4]) -> Vec<Var> {
        match self {
            Self::Add => vec![up, up],
            Self::Sub => vec![up, ops::neg(tape, up)],
            Self::Mul => vec![ops::mul(tape, up, y), ops::mul(tape, up, x)],
            Self::Div => {
                let left = ops::div(tape, up, y);
                let share = ops::mul(tape, left, out);
                vec![left, ops::neg(tape, share)]
            }
            Self::Scale(factor) => vec![ops::scale(tape, up, F::from_f64(factor))],
            Self::Neg => vec![ops::neg(tape, up)],
            Self::Exp => vec![ops::mul(tape, up, out)],
            Self::Ln => vec![ops::div(tape, up, x)],
            Self::Sqrt => {
                let half = ops::scale(tape, up, F::HALF);
                vec![ops::div(tape, half, out)]
            }
            Self::Square => {
                let twice = ops::scale(tape, x, F::TWO);
                vec![ops::mul(tape, up, twice)]
            }
            Self::Reciprocal => {
                let square = ops::square(tape, out);
                let fall = ops::mul(tape, up, square);
                vec![ops::neg(tape, fall)]
            }
            Self::Tanh => vec![less_share(tape, up, up, out)],
            Self::Sigmoid => {
                let first = ops::mul(tape, up, out);
                vec![less_share(tape, first, up, out)]
            }
            Self::Softplus => {
                let slope = ops::sigmoid(tape, x);
                vec![ops::mul(tape, up, slope)]
            }
            Self::Relu => vec![where_positive(tape, x, up)],
            Self::Sum => {
                let shape = tape.shape(x);
                let ones = vec![F::ONE; shape.len()];
                let ones = tape.constant(shape.dimensions(), &ones);
                vec![ops::mul(tape, ones, up)]
            }
            Self::Transpose => vec![ops::transpose(tape, up, &[1, 0])],
            Self::Matmul => {
                let (right, left) = (
                    ops::transpose(tape, y, &[1, 0]),
                    ops::transpose(tape, x, &[1, 0]),
                );
                vec![ops::matmul(tape, up, right), ops::matmul(tape, left, up)]
            }
        }
    }
}

/// first - up * out^2.
fn less_share<F: Float>(tape: &mut Tape<F>, first: Var, up: Var, out: Var) -> Var {
    let square = ops::square(tape, out);
    let share = ops::mul(tape, up, square);
    ops::sub(tape, first, share)
}

/// `up` where `x` is above 0, else 0.
fn where_positive<F: Float>(tape: &mut Tape<F>, x: Var, up: Var) -> Var {
    let mask = tape.computed(tape.shape(x), |values, out| {
        for (out, x) in out.iter_mut().zip(values.slice(x)) {
            *out = if *x > F::ZERO { F::ONE } else { F::ZERO };
        }
    });
    ops::mul(tape, up, mask)
}

/// A primitive at the place where it was applied.
#[derive(Clone, Copy)]
struct Applied {
    primitive: Primitive,
    inputs: [Var; 2],
    output: Var,
}

/// Applies primitives on a tape and knows the way back through them.
pub struct Twice<'t, F> {
    /// The tape. Operations put on it otherwise are constants to [`Self::gradient`].
    pub tape: &'t mut Tape<F>,
    applied: Vec<Applied>,
}

impl<'t, F: Float> Twice<'t, F> {
    /// Nothing applied yet.
    #[must_use]
    pub fn on(tape: &'t mut Tape<F>) -> Self {
        Self {
            tape,
            applied: Vec::new(),
        }
    }

    /// Applies a primitive to one or two values.
    ///
    /// # Panics
    /// If it takes another number of inputs, or pairs differ in shape.
    pub fn apply(&mut self, primitive: Primitive, inputs: &[Var]) -> Var {
        let name = primitive.name();
        assert_eq!(inputs.len(), primitive.inputs(), "the inputs of {name}");
        let inputs = [inputs[0], inputs[inputs.len() - 1]];
        let [x, y] = inputs.map(|var| self.tape.shape(var));
        assert!(
            primitive == Primitive::Matmul || x == y,
            "{name} of equal shapes"
        );
        let output = primitive.value(self.tape, inputs[0], inputs[1]);
        self.applied.push(Applied {
            primitive,
            inputs,
            output,
        });
        output
    }

    /// The gradient of the sum of `of`'s values with respect to each of `variables`, as values on the
    /// tape that can be differentiated again.
    pub fn gradient(&mut self, of: Var, variables: &[Var]) -> Vec<Var> {
        let ones = |tape: &mut Tape<F>, var: Var, value: F| {
            let shape = tape.shape(var);
            tape.constant(shape.dimensions(), &vec![value; shape.len()])
        };
        let first = ones(self.tape, of, F::ONE);
        let mut above = BTreeMap::from([(of.0, first)]);
        for number in (0..self.applied.len()).rev() {
            let Applied {
                primitive,
                inputs: [x, y],
                output,
            } = self.applied[number];
            let Some(up) = above.get(&output.0).copied() else {
                continue;
            };
            let pulled = primitive.pull(self.tape, [x, y, output, up]);
            for (input, gradient) in [x, y].into_iter().zip(pulled) {
                let sum = match above.get(&input.0) {
                    Some(before) => ops::add(self.tape, *before, gradient),
                    None => gradient,
                };
                above.insert(input.0, sum);
            }
        }
        let each = variables.iter().map(|variable| {
            let found = above.get(&variable.0).copied();
            found.unwrap_or_else(|| ones(self.tape, *variable, F::ZERO))
        });
        each.collect()
    }
}

/// Checks both derivatives of `function`, made of primitives, at `arguments`: the gradient on the
/// tape against the tape's own, and its gradient against central differences.
///
/// # Errors
/// The first value that differs, by the argument's number and the value's index.
pub fn check_second_order(
    arguments: &[Tensor<f64>],
    tolerance: f64,
    function: impl Fn(&mut Twice<'_, f64>, &[Var]) -> Var,
) -> Result<(), ModelError> {
    let parameters = Parameters::new(check::numbered(arguments))?;
    let weights: Vec<f64> = arguments.iter().flat_map(Tensor::values).copied().collect();
    let vars = |tape: &mut Tape<f64>| -> Vec<Var> {
        let numbers = 0..arguments.len();
        numbers.map(|i| tape.parameter(&i.to_string())).collect()
    };
    let mut tape = Tape::new(parameters.clone());
    tape.load(&weights);
    let arguments = vars(&mut tape);
    let mut twice = Twice::on(&mut tape);
    let value = function(&mut twice, &arguments);
    let first = twice.gradient(value, &arguments);
    let sum = ops::sum(&mut tape, value);
    let mut expected = vec![0.0; weights.len()];
    tape.backward(sum, &mut expected);
    let found = first.iter().flat_map(|var| tape.value(*var));
    for (place, (found, expected)) in found.zip(&expected).enumerate() {
        if (found - expected).abs() > tolerance * expected.abs().max(1.0) {
            return Err(ModelError(format!(
                "gradient number {place} is {found} in primitives and {expected} on the tape"
            )));
        }
    }
    check_gradient(&parameters, &weights, tolerance, |tape| {
        let arguments = vars(tape);
        let mut twice = Twice::on(tape);
        let value = function(&mut twice, &arguments);
        let first = twice.gradient(value, &arguments);
        let parts = first.into_iter().map(|var| check::unevenly(tape, var));
        let parts: Vec<Var> = parts.collect();
        let sum = parts
            .into_iter()
            .reduce(|sum, part| ops::add(tape, sum, part));
        sum.expect("a function has an argument")
    })
}
