//! Reverse-mode differentiation over named parameters, generic over f32 (training) and f64
//! (checking).
//!
//! A loss is a function that calls the operations of [`ops`] on a [`Tape`]; each operation writes
//! down how gradients go back through it, beside how values go forward. To add an operation, write
//! another such function with [`Tape::record`] ([`ops::map`] where it works value by value), and
//! check it with [`check_function`]. [`grad`], [`value_and_grad`] and [`make_vjp`] take any such
//! function of tensors; [`recompute`] trades time for memory.
//!
//! ```
//! use resilin_learn::autograd::{Parameters, Tape, Var, check_gradient, ops};
//! use resilin_learn::math::Float;
//!
//! /// Squared error of a line through two points.
//! fn loss<F: Float>(tape: &mut Tape<F>) -> Var {
//!     let x = tape.constant(&[2, 1], &[F::ONE, F::TWO]);
//!     let y = tape.constant(&[2, 1], &[F::ONE, F::ONE]);
//!     let (w, b) = (tape.parameter("w"), tape.parameter("b"));
//!     let prediction = ops::dense(tape, x, w, Some(b));
//!     ops::squared_error_sum(tape, prediction, y)
//! }
//!
//! let parameters = Parameters::trained(&[("w", &[1, 1]), ("b", &[1])]).unwrap();
//! let mut tape = Tape::new(parameters.clone());
//! tape.load(&[0.5, 0.0]);
//! let sum = loss(&mut tape);
//! let mut gradient = [0.0f32; 2];
//! tape.backward(sum, &mut gradient);
//! assert_eq!((tape.scalar(sum), gradient), (0.25, [-1.0, -1.0]));
//! check_gradient(&parameters, &[0.3, -0.2], 1e-6, loss).unwrap();
//! ```

mod check;
mod functional;
pub mod ops;
mod parameters;
mod pass;
mod recompute;
mod shape;
mod tape;
mod tensor;
mod twice;
mod view;

pub use check::{check_function, check_gradient};
pub use functional::{Vjp, grad, make_vjp, value_and_grad};
pub use parameters::Parameters;
pub use pass::{Gradients, Upstream, Values};
pub use recompute::recompute;
pub use shape::Shape;
pub use tape::{Tape, Var};
pub use tensor::Tensor;
pub use twice::{Primitive, Twice, check_second_order};
