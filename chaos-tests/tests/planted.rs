//! The invariants find bugs: each planted one is caught within a number of random seeds. Both are
//! deterministic, so this cannot fail by chance.

use resilin_chaos::replay::Seeds;
use resilin_chaos::sim::Plant;

/// Runs random seeds until one breaks an invariant, and says which.
fn caught(plant: Plant, most: u64) -> &'static str {
    let mut seeds = Seeds::default();
    for seed in 0..most {
        if let Err(violation) = seeds.planted(seed, plant) {
            println!("{plant:?} after {} seeds: {violation:.120}", seed + 1);
            return violation.id;
        }
    }
    panic!("{plant:?} was not caught in {most} seeds")
}

#[test]
fn sums_in_arrival_order() {
    assert_eq!(caught(Plant::ArrivalOrder, 20), "R3");
}

#[test]
fn decisions_without_votes() {
    assert_eq!(caught(Plant::VotesIgnored, 20), "R3");
}

#[test]
fn contributions_to_closed_steps() {
    assert_eq!(caught(Plant::StaleAccepted, 100), "R3");
}

#[test]
fn second_copies_added() {
    assert_eq!(caught(Plant::DuplicateTwice, 20), "R3");
}

#[test]
fn votes_not_kept() {
    assert_eq!(caught(Plant::VotesForgotten, 100), "L1");
}

#[test]
fn versions_announced_early() {
    assert_eq!(caught(Plant::AnnouncedEarly, 20), "C1");
}

#[test]
fn moments_lost_at_a_restore() {
    assert_eq!(caught(Plant::MomentsLost, 20), "R3");
}
