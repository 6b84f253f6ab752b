//! The invariants find bugs: each planted one is caught within a number of random seeds, and the
//! same schedule without it keeps every invariant. Both are deterministic, so this cannot fail by
//! chance.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use resilin_chaos::replay::{Seeds, replay};
use resilin_chaos::sim::Plant;

/// Runs random seeds until one breaks an invariant, and says which; a machine that finds its own
/// state impossible says so by a panic.
fn caught(plant: Plant, most: u64) -> &'static str {
    caught_from(plant, 0..most)
}

fn caught_from(plant: Plant, range: Range<u64>) -> &'static str {
    let mut seeds = Seeds::default();
    for seed in range.clone() {
        let run = || seeds.planted(seed, plant).map_err(|violation| violation.id);
        let ended = catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err("machine"));
        let Err(id) = ended else {
            continue;
        };
        println!("{plant:?} after {} seeds: {id}", seed + 1);
        if let Err(violation) = seeds.run(seed) {
            panic!("{violation} without {plant:?}; {}", replay(seed));
        }
        return id;
    }
    panic!("{plant:?} was not caught by seeds {range:?}")
}

#[test]
fn a_reign_used_again() {
    assert_eq!(caught(Plant::ReignReused, 20), "M2");
}

#[test]
fn a_timeline_used_again() {
    assert_eq!(caught(Plant::TimelineReused, 20), "M2");
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
fn parents_added_to_their_children() {
    assert_eq!(caught(Plant::ParentBeside, 100), "R3");
}

#[test]
fn sums_in_arrival_order() {
    assert_eq!(caught(Plant::ArrivalOrder, 20), "R3");
}

#[test]
fn rows_that_depend_on_the_worker() {
    assert_eq!(caught(Plant::RowsByWorker, 20), "R3");
}

#[test]
fn decisions_without_votes() {
    assert_eq!(caught(Plant::VotesIgnored, 20), "R3");
}

#[test]
fn votes_not_kept() {
    assert_eq!(caught(Plant::VotesForgotten, 100), "L1");
}

#[test]
fn pulls_answered_too_early() {
    assert_eq!(caught(Plant::PullNotHeld, 20), "R3");
}

#[test]
fn losses_that_the_job_is_not_told_of() {
    assert_eq!(caught(Plant::LossNotTold, 20), "L1");
}

#[test]
fn coverage_that_is_not_there() {
    assert_eq!(caught(Plant::CoverageClaimed, 20), "L1");
}

#[test]
fn one_evaluation_of_a_leaf_that_is_not_finite() {
    assert_eq!(caught_from(Plant::NonFiniteBelieved, 39..60), "R3");
}

#[test]
fn skipped_steps_that_move_weights() {
    assert_eq!(caught(Plant::SkipMoves, 20), "R3");
}

#[test]
fn cuts_of_two_versions() {
    assert_eq!(caught(Plant::CutMixed, 20), "C1");
}

#[test]
fn versions_announced_early() {
    assert_eq!(caught(Plant::AnnouncedEarly, 20), "C1");
}

#[test]
fn lines_of_the_ledger_lost() {
    assert_eq!(caught(Plant::LedgerLost, 20), "C3");
}

#[test]
fn checkpoints_ignored_at_a_start() {
    assert_eq!(caught(Plant::CheckpointIgnored, 20), "C2");
}

#[test]
fn moments_lost_at_a_restore() {
    assert_eq!(caught(Plant::MomentsLost, 20), "R3");
}

#[test]
fn scores_without_a_row() {
    assert_eq!(caught(Plant::RowMissed, 20), "E1");
}
