//! Iterators over a map: those of a slice of pairs, as pairs of references.

use std::{slice, vec};

/// The entries of a [`SortedMap`](super::SortedMap) in order.
#[derive(Debug)]
pub struct Iter<'a, K, V>(pub(super) slice::Iter<'a, (K, V)>);

/// The keys of a [`SortedMap`](super::SortedMap) in order.
#[derive(Debug)]
pub struct Keys<'a, K, V>(pub(super) slice::Iter<'a, (K, V)>);

/// The values of a [`SortedMap`](super::SortedMap) in order of their keys.
#[derive(Debug)]
pub struct Values<'a, K, V>(pub(super) slice::Iter<'a, (K, V)>);

/// The entries of a [`SortedMap`](super::SortedMap) in order, the values to be changed.
#[derive(Debug)]
pub struct IterMut<'a, K, V>(pub(super) slice::IterMut<'a, (K, V)>);

/// The entries of a [`SortedMap`](super::SortedMap) that is no more.
#[derive(Debug)]
pub struct IntoIter<K, V>(pub(super) vec::IntoIter<(K, V)>);

macro_rules! copies {
    ($name:ident) => {
        impl<K, V> Clone for $name<'_, K, V> {
            fn clone(&self) -> Self {
                Self(self.0.clone())
            }
        }
    };
}

copies!(Iter);
copies!(Keys);
copies!(Values);

macro_rules! iterates {
    ($name:ty, $item:ty, $entry:pat => $pair:expr, $($lifetime:lifetime)?) => {
        impl<$($lifetime,)? K, V> Iterator for $name {
            type Item = $item;

            fn next(&mut self) -> Option<Self::Item> {
                self.0.next().map(|$entry| $pair)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }

        impl<$($lifetime,)? K, V> DoubleEndedIterator for $name {
            fn next_back(&mut self) -> Option<Self::Item> {
                self.0.next_back().map(|$entry| $pair)
            }
        }

        impl<$($lifetime,)? K, V> ExactSizeIterator for $name {}
    };
}

iterates!(Iter<'a, K, V>, (&'a K, &'a V), (key, value) => (key, value), 'a);
iterates!(Keys<'a, K, V>, &'a K, (key, _) => key, 'a);
iterates!(Values<'a, K, V>, &'a V, (_, value) => value, 'a);
iterates!(IterMut<'a, K, V>, (&'a K, &'a mut V), (key, value) => (&*key, value), 'a);
iterates!(IntoIter<K, V>, (K, V), entry => entry,);
