//! Random schedules with every kind of fault. `RESILIN_SEEDS=N` runs N seeds instead.

use resilin_chaos::replay::{Seeds, replay};
use resilin_core::machine::job::Outcome;

/// A run that was stopped once more than it was resumed.
fn stopped(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Stopped(_))
}

#[test]
fn random_schedules_keep_every_invariant() {
    let count = std::env::var("RESILIN_SEEDS").map_or(500, |n| n.parse().expect("a number"));
    let mut seeds = Seeds::default();
    let (mut finished, mut kills, mut crashes, mut lost) = (0, 0, 0, 0);
    for seed in 0..count {
        let ended = match seeds.run(seed) {
            Ok(ended) => ended,
            Err(violation) => panic!("{violation}\n{}", replay(seed)),
        };
        let last = ended.outcome == Outcome::Finished;
        assert!(last || stopped(&ended.outcome), "{}", replay(seed));
        finished += u64::from(last);
        kills += ended.stats.kills;
        crashes += ended.stats.crashes;
        lost += ended.stats.lost;
    }
    assert!(finished > count * 9 / 10, "{finished} of {count} finished");
    assert!(
        kills > count && crashes > count / 4 && lost > count,
        "too little went wrong: {kills} kills, {crashes} crashes, {lost} messages lost"
    );
}
