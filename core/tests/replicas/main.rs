//! Three slices, each a primary and a backup, under loss, repetition, delay, kills and promotions:
//! every version on every replica has the bits of a serial run, and the run ends.

mod arithmetic;
mod coordinator;
mod network;
mod plant;
mod replica;
mod worker;
mod world;

use std::ops::Range;

use coordinator::Counts;
use plant::Plant;
use resilin_core::RunId;
use resilin_core::job::{Bits, NonFinite};
use resilin_core::layout::SliceMap;
use resilin_core::machine::Rules;
use resilin_core::sampling::{Sampling, Shuffle};
use resilin_core::time::Span;
use resilin_core::tree::Tree;
use resilin_core::vote::VoteRules;
use world::World;

const SEEDS: Range<u64> = 0..300;

/// When faults end, in microseconds; then the run has as long again many times over.
const QUIET: u64 = 400_000;

fn rules() -> Rules {
    Rules {
        run: RunId(1),
        sampling: Sampling::new(40, 4, 2, Shuffle::Global, 1),
        tree: Tree::new(4),
        slices: SliceMap::new(3, arithmetic::SLICES),
        bits: Bits::On,
        votes: VoteRules {
            clip_norm: Some(1_000.0),
            non_finite: NonFinite::Skip,
            total_steps: 24,
            cut_every: Some(7),
        },
        evaluate_every: Some(5),
        evaluation_tasks: 1,
        lease: Span::from_millis(60),
        audit: resilin_core::machine::audit::AuditRules::OFF,
        grace: Span::from_millis(60),
        cut_interval: None,
    }
}

fn run(seed: u64, plant: Plant, bits: Bits) -> Result<Counts, String> {
    let rules = Rules { bits, ..rules() };
    let mut world = World::new(rules, seed, plant);
    world.traced = from_environment("TRACE").is_some();
    world.start()?;
    while !world.coordinator.is_complete(&world.rules) {
        world.faults = world.now < QUIET;
        if world.now > 20 * QUIET {
            return Err(format!("no end after {} us", world.now));
        }
        world.next().expect("workers tick for ever")?;
    }
    Ok(world.coordinator.counts)
}

/// A panic of a machine counts as what was wrong.
fn outcome(seed: u64, plant: Plant, bits: Bits) -> Result<Counts, String> {
    let caught = std::panic::catch_unwind(|| run(seed, plant, bits));
    caught.unwrap_or_else(|_| Err("a machine panicked".into()))
}

/// For whoever replays a seed.
#[expect(clippy::disallowed_methods, reason = "a test takes no arguments")]
fn from_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[test]
fn every_version_of_every_replica_has_the_bits_of_a_serial_run() {
    all_keep(Bits::On, "every_version");
}

#[test]
fn what_a_slice_applies_is_what_it_voted_for_where_evaluations_differ() {
    all_keep(Bits::Off, "what_a_slice");
}

fn all_keep(bits: Bits, test: &str) {
    let only = from_environment("SEED").map(|seed| seed.parse().expect("SEED is a number"));
    let seeds = only.map_or(SEEDS, |seed: u64| seed..seed + 1);
    let mut all = Counts::default();
    for seed in seeds {
        match outcome(seed, Plant::None, bits) {
            Ok(counts) => {
                all.promoted += counts.promoted;
                all.synced += counts.synced;
                all.taken_back += counts.taken_back;
                all.cuts += counts.cuts;
                all.skipped += counts.skipped;
            }
            Err(error) => panic!(
                "seed {seed}: {error}\nreplay: SEED={seed} TRACE=1 cargo test -p resilin-core \
                 --test replicas {test} -- --nocapture"
            ),
        }
    }
    println!("{all:?}");
    if only.is_none() {
        let seen = [
            all.promoted,
            all.synced,
            all.taken_back,
            all.cuts,
            all.skipped,
        ];
        assert!(
            seen.iter().all(|count| *count > 100),
            "too little happened: {all:?}"
        );
    }
}

fn caught(plant: Plant, bits: Bits) {
    let found = SEEDS
        .into_iter()
        .find_map(|seed| Some((seed, outcome(seed, plant, bits).err()?)));
    let (seed, error) = found.unwrap_or_else(|| panic!("{plant:?} is not noticed in {SEEDS:?}"));
    println!("{plant:?}: seed {seed}: {error}");
}

#[test]
fn a_version_published_before_the_backup_has_it_is_noticed() {
    caught(Plant::PublishEarly, Bits::On);
}

#[test]
fn a_vote_that_the_backup_does_not_stand_by_is_noticed() {
    caught(Plant::VoteUnpledged, Bits::On);
}

#[test]
fn promoting_a_backup_that_is_not_in_sync_is_noticed() {
    caught(Plant::PromoteUnsynced, Bits::On);
}

#[test]
fn a_vote_whose_root_the_backup_lacks_is_noticed_where_evaluations_differ() {
    caught(Plant::PledgeWithoutRoot, Bits::Off);
}
