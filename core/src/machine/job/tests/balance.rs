//! Primaries move to hosts that join later.

use super::hosts::{Hosted, Short, hosted};
use super::*;

impl Hosted {
    /// All backups that are not are in sync now, as their primaries say.
    fn sync_all(&mut self) {
        for slice in 0..2 {
            if !self.views()[usize::from(slice)].3 {
                self.synced(slice);
            }
        }
    }

    /// Host 1 serves both slices, as host 2 was lost.
    fn lopsided() -> Self {
        let mut run = Self::in_sync();
        run.expired(2);
        let alone: Vec<Short> = run.views();
        let primaries: Vec<u32> = alone.iter().map(|view| view.1).collect();
        assert_eq!(primaries, [1, 1], "{alone:?}");
        run
    }

    fn placed(&self) -> Vec<(u32, Option<u32>, bool)> {
        let views = self.views().into_iter();
        views
            .map(|(_, primary, backup, in_sync)| (primary, backup, in_sync))
            .collect()
    }
}

#[test]
fn a_backup_that_joined_later_is_handed_a_slice_once_all_are_in_sync() {
    let mut run = Hosted::lopsided();
    run.ready(3);
    assert_eq!(run.placed(), [(1, Some(3), false), (1, Some(3), false)]);
    run.synced(1);
    assert_eq!(run.placed(), [(1, Some(3), false), (1, Some(3), true)]);
    run.synced(0);
    assert_eq!(run.placed(), [(3, Some(1), false), (1, Some(3), true)]);
    assert_eq!(run.bench.job.branch, branch(), "nothing is rolled back");
    run.sync_all();
    let even = [(3, Some(1), true), (1, Some(3), true)];
    assert_eq!(run.placed(), even);
    run.tick(500);
    assert_eq!(run.placed(), even, "and stays");
}

#[test]
fn a_host_that_has_nothing_is_made_a_backup_first() {
    let mut run = Hosted::lopsided();
    run.ready(3);
    run.synced(1);
    // It comes while nothing is even yet, and nothing lacks a backup.
    run.ready(4);
    run.synced(0);
    run.sync_all();
    run.sync_all();
    assert_eq!(
        run.placed().iter().map(|view| view.0).collect::<Vec<_>>(),
        [3, 1]
    );
    run.ready(5);
    let even = run.placed();
    assert_eq!(run.bench.job.branch, branch());
    run.tick(500);
    assert_eq!(run.placed(), even, "one primary each: nothing to even out");
}

#[test]
fn a_run_that_stops_or_has_no_replicas_moves_nothing() {
    let mut run = Hosted::lopsided();
    run.event(Event::Command(Command::Stop));
    run.ready(3);
    run.sync_all();
    assert_eq!(run.placed(), [(1, Some(3), true), (1, Some(3), true)]);

    let mut bare = Hosted::new(hosted(1, 0));
    bare.bench.join(1);
    bare.ready(1);
    let before = bare.placed();
    bare.ready(2);
    assert_eq!(bare.placed(), before);
}
