//! The mathematics of Resilin: models, gradients, optimizers and the arithmetic of shards.
//!
//! Every result is a pure function of its arguments, to the bit: no clock, file, socket or thread,
//! no reduction whose order could change.

pub mod dataset;
pub mod math;
pub mod model;
pub mod models;
