//! The arithmetic that decides bits: every function here gives the same bits on every processor.
//!
//! Only additions, multiplications, divisions and comparisons in a written order, and the matrix
//! product of `matrixmultiply`. Deliberately absent: fused multiply-add, the platform's own
//! exponential, and any sum whose order a compiler or a thread could choose.

mod activation;
mod exponential;
mod float;
mod loss;
mod product;
mod sum;

pub use activation::{Activation, dropout_mask};
pub use exponential::{exp, exp_each, sigmoid, sigmoid_each, tanh, tanh_each};
pub use float::Float;
pub use loss::{
    binary_cross_entropy, cross_entropy, huber, largest, log_softmax, softmax, softplus,
    squared_error, weighted_cross_entropy,
};
pub use product::{INNER, Write, multiply, multiply_rows, multiply_rows_along, view};
pub use sum::{add_bias, add_sum_of_rows, continue_sum_of_rows, sum, sum_of, sum_rows};
