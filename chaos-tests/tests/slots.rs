//! Fencing and exactly-once in asynchronous jobs: `clock == next[slot]` applies every sample once
//! whoever pushes it, and each way to get the rule wrong is caught.

use resilin_chaos::slots::{Applied, Broken, run};

const SEEDS: u64 = 200;

#[test]
fn every_clock_is_applied_once_by_every_slice() {
    let every: Applied = (0..3)
        .flat_map(|slice| {
            (0..4).flat_map(move |slot| (0..12).map(move |clock| (slice, slot, clock)))
        })
        .map(|key| (key, 1))
        .collect();
    for seed in 0..SEEDS {
        assert_eq!(run(seed, None), Ok(every.clone()), "seed {seed}");
    }
}

/// How the first seed that shows a bug does so.
fn caught(broken: Broken, most: u64) -> String {
    let first = (0..most).find_map(|seed| Some((seed, run(seed, Some(broken)).err()?)));
    let (seed, what) = first.unwrap_or_else(|| panic!("{broken:?} not caught in {most} seeds"));
    println!("{broken:?} after {} seeds: {what}", seed + 1);
    what
}

#[test]
fn an_incarnation_in_the_key_applies_samples_twice() {
    assert!(caught(Broken::IncarnationInKey, 5).ends_with("twice"));
}

#[test]
fn clocks_that_a_replica_lacks_apply_samples_twice() {
    assert!(caught(Broken::NextNotKept, 5).ends_with("twice"));
}

#[test]
fn a_holder_that_starts_at_the_highest_clock_hangs_the_others() {
    assert!(caught(Broken::StartsAtMax, 50).starts_with("no end"));
}

#[test]
fn a_zombie_that_is_believed_applies_samples_twice() {
    assert!(caught(Broken::ZombieBelieved, 5).ends_with("twice"));
}
