//! Which host serves which slice: a pure function that moves as little as it can.
//!
//! Primaries are dealt evenly; a backup is never at its primary's host, at another machine where
//! there are several (PROTOCOL 3), and else where there is least.

use crate::id::{Incarnation, SliceId};
use crate::sorted::SortedMap;

/// Hosts that may be given slices, each with the machine it is on.
pub(super) type Candidates = SortedMap<Incarnation, String>;

/// Who serves a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) primary: Incarnation,
    pub(super) backup: Option<Incarnation>,
}

/// Copies of a slice beside its primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copies {
    None,
    One,
}

/// Places `slices` slices on at least one candidate; whoever has a slice already keeps it as far as
/// it has no more than its share.
pub(super) fn place(
    slices: u16,
    copies: Copies,
    candidates: &Candidates,
    current: &SortedMap<SliceId, Placed>,
) -> SortedMap<SliceId, Placed> {
    let mut placed: SortedMap<SliceId, Placed> = primaries(slices, candidates, current)
        .into_iter()
        .map(|(slice, primary)| {
            let backup = None;
            (slice, Placed { primary, backup })
        })
        .collect();
    for slice in (0..slices).map(SliceId).filter(|_| copies == Copies::One) {
        let before = current.get(&slice).and_then(|known| known.backup);
        let backup = backup_for(slice, before, candidates, &placed);
        placed
            .entry(slice)
            .and_modify(|known| known.backup = backup);
    }
    placed
}

/// The host that a backup of the slice is best begun at, if there is any beside its primary's;
/// `before` wins among equals.
pub(super) fn backup_for(
    slice: SliceId,
    before: Option<Incarnation>,
    candidates: &Candidates,
    placed: &SortedMap<SliceId, Placed>,
) -> Option<Incarnation> {
    let primary = placed.get(&slice)?.primary;
    let machine = candidates.get(&primary);
    let load = |host: Incarnation| {
        let has = |known: &Placed| {
            usize::from(known.primary == host) + usize::from(known.backup == Some(host))
        };
        placed.values().map(has).sum::<usize>()
    };
    let others = candidates.iter().filter(|(host, _)| **host != primary);
    others
        .min_by_key(|(host, at)| {
            let together = machine == Some(*at);
            (together, load(**host), Some(**host) != before, **host)
        })
        .map(|(host, _)| *host)
}

fn primaries(
    slices: u16,
    candidates: &Candidates,
    current: &SortedMap<SliceId, Placed>,
) -> SortedMap<SliceId, Incarnation> {
    let (count, hosts) = (usize::from(slices), candidates.len());
    assert!(hosts > 0, "slices are placed on somebody");
    let (share, longer) = (count / hosts, count % hosts);
    let mut held: SortedMap<Incarnation, Vec<SliceId>> =
        candidates.keys().map(|host| (*host, Vec::new())).collect();
    for (slice, known) in current.range(..SliceId(slices)) {
        if let Some(mine) = held.get_mut(&known.primary) {
            mine.push(*slice);
        }
    }
    // One more than the share is for those who have most already.
    let mut by_load: Vec<Incarnation> = held.keys().copied().collect();
    by_load.sort_by_key(|host| (usize::MAX - held[host].len(), *host));
    let mut placed = SortedMap::new();
    let mut room = SortedMap::new();
    for (rank, host) in by_load.into_iter().enumerate() {
        let most = share + usize::from(rank < longer);
        let kept = held[&host].len().min(most);
        placed.extend(held[&host][..kept].iter().map(|slice| (*slice, host)));
        room.insert(host, most - kept);
    }
    let mut free = room
        .into_iter()
        .flat_map(|(host, room)| std::iter::repeat_n(host, room));
    for slice in (0..slices).map(SliceId) {
        let next = || free.next().expect("shares add up to all slices");
        placed.entry(slice).or_insert_with(next);
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(number: u32) -> Incarnation {
        Incarnation { reign: 7, number }
    }

    fn on(machines: &[&str]) -> Candidates {
        let hosts = (1..).map(host);
        hosts
            .zip(machines.iter().map(ToString::to_string))
            .collect()
    }

    fn plan(placed: &SortedMap<SliceId, Placed>) -> Vec<(u32, Option<u32>)> {
        let numbers = |p: &Placed| (p.primary.number, p.backup.map(|b| b.number));
        placed.values().map(numbers).collect()
    }

    fn current(plan: &[(u32, Option<u32>)]) -> SortedMap<SliceId, Placed> {
        let placed = |(primary, backup): &(u32, Option<u32>)| Placed {
            primary: host(*primary),
            backup: backup.map(host),
        };
        (0..).map(SliceId).zip(plan.iter().map(placed)).collect()
    }

    #[test]
    fn slices_are_dealt_evenly_with_backups_elsewhere() {
        let one = on(&["a"; 1]);
        let placed = place(3, Copies::One, &one, &SortedMap::new());
        assert_eq!(plan(&placed), [(1, None), (1, None), (1, None)]);
        let three = on(&["a"; 3]);
        let placed = place(3, Copies::One, &three, &SortedMap::new());
        assert_eq!(plan(&placed), [(1, Some(2)), (2, Some(1)), (3, Some(1))]);
        let placed = place(5, Copies::None, &three, &SortedMap::new());
        assert_eq!(
            plan(&placed),
            [(1, None), (1, None), (2, None), (2, None), (3, None)]
        );
    }

    #[test]
    fn whoever_has_a_slice_keeps_it() {
        let before = current(&[(3, Some(1)), (1, Some(2)), (2, Some(3))]);
        let placed = place(3, Copies::One, &on(&["a"; 3]), &before);
        assert_eq!(plan(&placed), plan(&before));
        // Host 2 is gone: only what it had moves.
        let mut left = on(&["a"; 3]);
        left.remove(&host(2));
        let placed = place(3, Copies::One, &left, &before);
        assert_eq!(plan(&placed), [(3, Some(1)), (1, Some(3)), (1, Some(3))]);
        // A fourth host takes no more than its share.
        let before = current(&[
            (1, None),
            (1, None),
            (2, None),
            (2, None),
            (3, None),
            (3, None),
        ]);
        let placed = place(6, Copies::None, &on(&["a"; 4]), &before);
        assert_eq!(
            plan(&placed),
            [
                (1, None),
                (1, None),
                (2, None),
                (2, None),
                (3, None),
                (4, None)
            ]
        );
    }

    #[test]
    fn backups_are_on_other_machines_where_there_are_several() {
        let placed = place(
            4,
            Copies::One,
            &on(&["a", "a", "b", "b"]),
            &SortedMap::new(),
        );
        assert_eq!(
            plan(&placed),
            [(1, Some(3)), (2, Some(4)), (3, Some(1)), (4, Some(2))]
        );
    }

    #[test]
    fn all_plans_are_balanced_and_keep_replicas_apart() {
        for hosts in 1..=6_usize {
            for slices in 1..=9 {
                let candidates = on(&["a", "b", "a", "c", "a", "b"][..hosts]);
                let placed = place(slices, Copies::One, &candidates, &SortedMap::new());
                let loads = candidates.keys().map(|host| {
                    let mine = placed.values().filter(|known| known.primary == *host);
                    mine.count()
                });
                let (least, most) = (loads.clone().min(), loads.max());
                assert!(most <= least.map(|load| load + 1), "{slices} on {hosts}");
                for known in placed.values() {
                    assert_ne!(Some(known.primary), known.backup, "{slices} on {hosts}");
                    assert_eq!(known.backup.is_some(), hosts > 1);
                }
                let again = place(slices, Copies::One, &candidates, &placed);
                let primaries = |plan: &SortedMap<SliceId, Placed>| {
                    plan.values().map(|known| known.primary).collect::<Vec<_>>()
                };
                assert_eq!(primaries(&again), primaries(&placed), "nothing moves");
            }
        }
    }
}
