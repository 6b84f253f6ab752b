//! Modules of [Burn](https://burn.dev) as models: the feature `burn`.
//!
//! A [`BurnModel`] is a module, and what it makes of rows. Everything else (optimizer, batches,
//! checkpoints, workers) stays Resilin's: weights go into the module, gradients come out, and the
//! bits are the same for any number of workers.
//!
//! Arithmetic is that of `burn-flex` on one thread. It gives the same bits again on the same kind of
//! processor and not on every other; processes whose results differ are refused when they join.

mod arithmetic;
mod model;
mod samples;
mod tree;

pub use model::BurnModel;
pub use samples::Samples;
