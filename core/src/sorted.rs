//! Maps and sets that keep their entries sorted in one vector.
//!
//! They stand for `BTreeMap` and `BTreeSet` wherever a collection is small, or grows at its end, as
//! all of the machines do: members, slices, partitions, steps. A B-tree of each pair of types is
//! thousands of lines of code to compile, most of the crate; a vector is a few hundred, and faster
//! up to some thousands of entries. An insertion or removal in the middle moves what is behind it.
//! Crates of the kind do not serve: `litemap` has no ranges and no sets, `sorted_vector_map` no serde.

mod iterate;
mod map;
mod set;

#[cfg(test)]
mod tests;

pub use iterate::{IntoIter, Iter, IterMut, Keys, Values};
pub use map::{Entry, SortedMap};
pub use set::SortedSet;

use std::ops::{Bound, Range, RangeBounds};

/// The places, among `len` sorted entries, that lie within `bounds`; `below` and `through` count the
/// entries below a key, without and with the key itself.
fn places<Q: ?Sized>(
    len: usize,
    bounds: &impl RangeBounds<Q>,
    below: impl Fn(&Q) -> usize,
    through: impl Fn(&Q) -> usize,
) -> Range<usize> {
    let start = match bounds.start_bound() {
        Bound::Included(key) => below(key),
        Bound::Excluded(key) => through(key),
        Bound::Unbounded => 0,
    };
    let end = match bounds.end_bound() {
        Bound::Included(key) => through(key),
        Bound::Excluded(key) => below(key),
        Bound::Unbounded => len,
    };
    start..end.max(start)
}
