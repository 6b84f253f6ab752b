//! Maps and sets against those of the standard library, in random sequences of calls.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included, Unbounded};

use super::{SortedMap, SortedSet};
use crate::random::{Key, Purpose, Stream};

fn chance(seed: u64) -> Stream {
    Key::new(seed, Purpose::Order).stream()
}

#[test]
fn a_map_does_what_a_b_tree_does() {
    for seed in 0..50 {
        let mut chance = chance(seed);
        let (mut map, mut tree) = (SortedMap::new(), BTreeMap::new());
        for value in 0..200 {
            let key = chance.below(40);
            match chance.below(8) {
                0 => assert_eq!(map.remove(&key), tree.remove(&key)),
                1 => assert_eq!(map.pop_first(), tree.pop_first()),
                2 => *map.entry(key).or_default() = *tree.entry(key).or_insert(0),
                3 => {
                    map.entry(key).and_modify(|old| *old += 1).or_insert(value);
                    tree.entry(key).and_modify(|old| *old += 1).or_insert(value);
                }
                _ => assert_eq!(map.insert(key, value), tree.insert(key, value)),
            }
            assert!(map.iter().eq(tree.iter()));
            assert!(map.range(..key).rev().eq(tree.range(..key).rev()));
            assert!(map.range(key..).eq(tree.range(key..)));
            assert!(map.range(key..=key + 5).eq(tree.range(key..=key + 5)));
            let open = (Excluded(key), Unbounded);
            assert!(map.range(open).eq(tree.range(open)));
            let closed = (Unbounded, Included(key));
            assert!(map.range_mut(closed).eq(tree.range_mut(closed)));
            assert_eq!(map.get(&key), tree.get(&key));
            assert_eq!(map.last_key_value(), tree.last_key_value());
        }
        let (mut above, mut beyond) = (map.split_off(&20), tree.split_off(&20));
        assert!(map.iter().eq(tree.iter()) && above.iter().eq(beyond.iter()));
        above.insert(3, 7);
        beyond.insert(3, 7);
        map.append(&mut above);
        tree.append(&mut beyond);
        map.retain(|key, _| key % 3 != 0);
        tree.retain(|key, _| key % 3 != 0);
        assert_eq!(format!("{map:?}"), format!("{tree:?}"));
        assert!(map.into_iter().eq(tree));
    }
}

#[test]
fn a_set_does_what_a_b_tree_does() {
    for seed in 0..50 {
        let mut chance = chance(seed);
        let (mut set, mut tree) = (SortedSet::new(), BTreeSet::new());
        for _ in 0..200 {
            let value = chance.below(40);
            match chance.below(4) {
                0 => assert_eq!(set.remove(&value), tree.remove(&value)),
                1 => assert_eq!(set.pop_first(), tree.pop_first()),
                _ => assert_eq!(set.insert(value), tree.insert(value)),
            }
            assert!(set.range(value..).eq(tree.range(value..)));
            assert!(set.iter().eq(tree.iter()));
        }
        let (some, few) = (SortedSet::from([3, 9, 20]), BTreeSet::from([3, 9, 20]));
        assert!(set.difference(&some).eq(tree.difference(&few)));
        assert_eq!(some.is_subset(&set), few.is_subset(&tree));
        assert_eq!(format!("{set:?}"), format!("{tree:?}"));
    }
}

#[test]
fn an_empty_range_of_crossed_bounds_has_no_entries() {
    let map = SortedMap::from([(1, 'a'), (5, 'b'), (9, 'c')]);
    let crossed = (Included(9), Excluded(1));
    assert_eq!(map.range(crossed).count(), 0);
}

#[test]
fn they_are_written_and_read_as_b_trees_are() {
    let (map, tree) = (
        SortedMap::from([(2_u32, "b".to_owned()), (1, "a".to_owned())]),
        BTreeMap::from([(1_u32, "a".to_owned()), (2, "b".to_owned())]),
    );
    let packed = rmp_serde::to_vec_named(&map).unwrap();
    assert_eq!(packed, rmp_serde::to_vec_named(&tree).unwrap());
    let read: SortedMap<u32, String> = rmp_serde::from_slice(&packed).unwrap();
    assert_eq!(read, map);
    let packed = rmp_serde::to_vec_named(&[3_u8, 1, 2, 1]).unwrap();
    let read: SortedSet<u8> = rmp_serde::from_slice(&packed).unwrap();
    assert!(read.iter().eq(&[1, 2, 3]));
}
