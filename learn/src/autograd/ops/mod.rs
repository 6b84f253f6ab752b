//! Operations on a tape: each one function, its gradient beside its value.
//!
//! Images are [count, height, width, channels]. Every sum over values is one of
//! [`crate::math`], or goes through the output in order: the bits are the same everywhere.

mod activations;
mod arithmetic;
mod arrange;
mod attention;
mod batch_norm;
mod buffer;
mod columns;
mod conv2d;
mod dense;
mod dropout;
mod elementary;
mod gather;
mod layer_norm;
mod losses;
mod map;
mod matmul;
mod pool;
mod reduce;
mod softmax;
mod window;

pub use activations::{activate, elu, gelu, gelu_tanh, leaky_relu, relu, sigmoid, softplus, tanh};
pub use arithmetic::{add, div, maximum, minimum, mul, scale, sub};
pub use arrange::{concat, reshape, slice, transpose};
pub use attention::{Mask, attention};
pub use batch_norm::{Moments, batch_norm, normalized};
pub use buffer::buffer;
pub use conv2d::{conv2d, conv2d_activated};
pub use dense::{dense, layer};
pub use dropout::dropout;
pub use elementary::{abs, clamp, erf, exp, ln, neg, reciprocal, sqrt, square};
pub use gather::{embedding, gather};
pub use layer_norm::layer_norm;
pub use losses::{
    binary_cross_entropy_sum, cross_entropy_mean, cross_entropy_sum, huber_sum, loss_with_slopes,
    squared_error_mean, squared_error_sum, weighted_cross_entropy_sum,
};
pub use map::map;
pub use matmul::matmul;
pub use pool::{average_pool2d, max_pool2d};
pub use reduce::{Reduced, max_axes, mean_axes, square_sum, sum, sum_axes};
pub use softmax::{log_softmax, softmax};
pub use window::Window;
