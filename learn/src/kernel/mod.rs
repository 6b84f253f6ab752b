//! The arithmetic that decides the bits: sums over the tree, the update of a slice, digests, and
//! the evaluation of a worker's nodes.
//!
//! State machines hold tensors as handles only; the shells and the simulator run these kernels for
//! them. Nothing here knows of links, leases or time.

mod digest;
mod pinned;
mod plan;
mod score;
mod slice;
mod stack;
mod sum;
#[cfg(test)]
mod sum_test;
mod versions;
mod worker;

pub use digest::{BlockHasher, Digest, chain_line, hex, same, weights_sha256};
pub use pinned::PinnedSlice;
pub use plan::{SCHEDULE, SlicePlan, WEIGHTS, extent};
pub use score::{SCORE_ROWS, Which, combine_scores, score_range, score_tasks};
pub use slice::{AppliedStep, BlockStats, SliceKernel};
pub use stack::Early;
pub use sum::{TreeSum, merges_after, tree_sum_f64};
pub use worker::{EvaluateError, Evaluator, NodeResult};
