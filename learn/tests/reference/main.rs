//! The serial oracle, and that nothing about who computes what shows in its bits: number of slices,
//! nodes that arrive, restores at any step.

mod bits;
mod elastic;
mod looks;
mod networks;
mod non_finite;
mod pairs;
mod rehearsal;
mod support;
mod task;
