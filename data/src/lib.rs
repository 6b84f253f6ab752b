//! Where rows come from: readers that give exact values, or a refusal that names the place.
//!
//! Every source ends in dense tables with a manifest; nothing is guessed twice. What a reader
//! cannot read exactly it refuses before the first step, naming file, line or row, column and
//! value: a worker must never train on numbers that another worker does not see.

pub mod csv;
pub mod digits;
pub mod idx;
mod input;
mod keys;
mod labels;
pub mod libsvm;
mod memory;
mod number;
pub mod numbers;
mod rows;
pub mod sources;
pub mod split;
pub mod synthetic;
pub mod table;
pub mod text;

use resilin_learn::registry::Registry;

pub use labels::{ClassRule, Target};
pub use rows::Rows;
pub use split::Holdout;
pub use table::{Origin, Subset, Table};

/// Adds the sources of this crate to a registry: `digits`, `csv`, `idx`, `libsvm`, `numbers`,
/// `synthetic` and `text`.
#[must_use]
pub fn sources(registry: Registry) -> Registry {
    registry
        .data("digits", sources::digits)
        .data("csv", sources::csv)
        .data("idx", sources::idx)
        .data("libsvm", sources::libsvm)
        .data("numbers", sources::numbers)
        .data("synthetic", sources::synthetic)
        .data("text", sources::text)
}
