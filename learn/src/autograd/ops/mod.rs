//! Operations on a tape: each one function, its gradient beside its value.

mod dense;
mod elementwise;
mod losses;

pub use dense::dense;
pub use elementwise::{activate, add, dropout, mul, relu, scale, sigmoid, square_sum, sum, tanh};
pub use losses::{
    cross_entropy_mean, cross_entropy_sum, log_softmax, squared_error_mean, squared_error_sum,
};
