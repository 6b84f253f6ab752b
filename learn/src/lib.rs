//! The mathematics of Resilin: models, gradients, optimizers and the arithmetic of shards.
//!
//! Every result is a pure function of its arguments, to the bit: no clock, file, socket or thread,
//! no reduction whose order could change.

pub mod autograd;
mod builtin;
pub mod dataset;
pub mod kernel;
pub mod look;
pub mod math;
pub mod model;
pub mod models;
pub mod numerics;
pub mod optimizer;
pub mod plateau;
pub mod reference;
pub mod registry;
pub mod rehearsal;
pub mod rules;
pub mod schedule;
pub mod task;
