//! Bugs of replicas, each the opposite of a rule, found by random schedules with shard processes.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use resilin_chaos::replay::{Home, Seeds};
use resilin_chaos::sim::Plant;

/// What the first of the seeds that finds the bug breaks; a machine that finds its own state
/// impossible says so by a panic. Without the bug the seed keeps every invariant.
fn caught(plant: Plant, among: Range<u64>) -> &'static str {
    let mut seeds = Seeds::of(Home::Hosts);
    for seed in among.clone() {
        let run = || seeds.planted(seed, plant).map_err(|violation| violation.id);
        let ended = catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err("machine"));
        let Err(id) = ended else {
            continue;
        };
        println!("{plant:?} by seed {seed}: {id}");
        if let Err(violation) = seeds.run(seed) {
            let again = Home::Hosts.replay(seed);
            panic!("{violation} without {plant:?}; {again}");
        }
        return id;
    }
    panic!("{plant:?} was not caught by seeds {among:?}")
}

#[test]
fn primaries_that_go_on_alone_under_a_view_with_a_backup() {
    assert_eq!(caught(Plant::AloneInSync, 100..150), "V1");
}

#[test]
fn versions_published_before_the_backup_has_them() {
    assert_eq!(caught(Plant::PublishedEarly, 0..60), "V1");
}

#[test]
fn backups_that_are_in_sync_before_they_are_copied() {
    assert_eq!(caught(Plant::InSyncEarly, 400..460), "V1");
}
