//! The set.

use std::borrow::Borrow;
use std::fmt;
use std::ops::RangeBounds;
use std::{slice, vec};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::places;

/// A set in order, see [`sorted`](super).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SortedSet<T>(Vec<T>);

impl<T> SortedSet<T> {
    /// An empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// How many values there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The values in order.
    pub fn iter(&self) -> slice::Iter<'_, T> {
        self.0.iter()
    }

    /// The lowest value.
    #[must_use]
    pub fn first(&self) -> Option<&T> {
        self.0.first()
    }

    /// The highest value.
    #[must_use]
    pub fn last(&self) -> Option<&T> {
        self.0.last()
    }

    /// Removes the lowest value.
    pub fn pop_first(&mut self) -> Option<T> {
        (!self.0.is_empty()).then(|| self.0.remove(0))
    }

    /// Removes the highest value.
    pub fn pop_last(&mut self) -> Option<T> {
        self.0.pop()
    }

    /// Keeps the values of which `keep` is true.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        self.0.retain(keep);
    }
}

impl<T: Ord> SortedSet<T> {
    /// Where the value is, or belongs. New values are mostly the highest.
    fn place<Q: Ord + ?Sized>(&self, value: &Q) -> Result<usize, usize>
    where
        T: Borrow<Q>,
    {
        match self.0.last() {
            Some(last) if last.borrow() >= value => {
                self.0.binary_search_by(|other| other.borrow().cmp(value))
            }
            _ => Err(self.0.len()),
        }
    }

    /// Whether the value is in the set.
    #[must_use]
    pub fn contains<Q: Ord + ?Sized>(&self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        self.place(value).is_ok()
    }

    /// Adds a value; whether it is new.
    pub fn insert(&mut self, value: T) -> bool {
        let Err(at) = self.place(&value) else {
            return false;
        };
        self.0.insert(at, value);
        true
    }

    /// Removes a value; whether it was there.
    pub fn remove<Q: Ord + ?Sized>(&mut self, value: &Q) -> bool
    where
        T: Borrow<Q>,
    {
        let Ok(at) = self.place(value) else {
            return false;
        };
        self.0.remove(at);
        true
    }

    /// The values within the bounds.
    pub fn range<Q: Ord + ?Sized>(&self, bounds: impl RangeBounds<Q>) -> slice::Iter<'_, T>
    where
        T: Borrow<Q>,
    {
        let places = places(
            self.0.len(),
            &bounds,
            |bound| self.0.partition_point(|value| value.borrow() < bound),
            |bound| self.0.partition_point(|value| value.borrow() <= bound),
        );
        self.0[places].iter()
    }

    /// Takes away the values from this one on.
    pub fn split_off<Q: Ord + ?Sized>(&mut self, value: &Q) -> Self
    where
        T: Borrow<Q>,
    {
        let (Ok(at) | Err(at)) = self.place(value);
        Self(self.0.split_off(at))
    }

    /// Takes over all values of the other set.
    pub fn append(&mut self, other: &mut Self) {
        self.extend(std::mem::take(other));
    }

    /// The values that the other set lacks.
    pub fn difference<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a T> + Clone {
        self.iter().filter(|value| !other.contains(*value))
    }

    /// Whether the other set has all values of this one.
    #[must_use]
    pub fn is_subset(&self, other: &Self) -> bool {
        self.iter().all(|value| other.contains(value))
    }
}

impl<T> Default for SortedSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for SortedSet<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<T: Ord> Extend<T> for SortedSet<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        for value in values {
            self.insert(value);
        }
    }
}

impl<'a, T: Ord + Copy> Extend<&'a T> for SortedSet<T> {
    fn extend<I: IntoIterator<Item = &'a T>>(&mut self, values: I) {
        self.extend(values.into_iter().copied());
    }
}

impl<T: Ord> FromIterator<T> for SortedSet<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut set = Self::new();
        set.extend(values);
        set
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for SortedSet<T> {
    fn from(values: [T; N]) -> Self {
        values.into_iter().collect()
    }
}

impl<T> IntoIterator for SortedSet<T> {
    type Item = T;
    type IntoIter = vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, T> IntoIterator for &'a SortedSet<T> {
    type Item = &'a T;
    type IntoIter = slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: Serialize> Serialize for SortedSet<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de> + Ord> Deserialize<'de> for SortedSet<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from_iter)
    }
}
