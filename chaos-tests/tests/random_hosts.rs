//! Random schedules with slices in shard processes. `RESILIN_SEEDS=N` runs N seeds instead.

use resilin_chaos::replay::{Home, Seeds};
use resilin_core::machine::job::Outcome;

#[test]
fn random_schedules_with_shard_processes_keep_every_invariant() {
    let count = std::env::var("RESILIN_SEEDS").map_or(150, |n| n.parse().expect("a number"));
    let mut seeds = Seeds::of(Home::Hosts);
    let (mut finished, mut kills, mut views, mut rollbacks, mut reshards) = (0, 0, 0, 0, 0);
    for seed in 0..count {
        let again = Home::Hosts.replay(seed);
        let ended = match seeds.run(seed) {
            Ok(ended) => ended,
            Err(violation) => panic!("{violation}\n{again}"),
        };
        let last = ended.outcome == Outcome::Finished;
        assert!(
            last || matches!(ended.outcome, Outcome::Stopped(_)),
            "{again}"
        );
        finished += u64::from(last);
        kills += ended.stats.shards_killed;
        views += ended.stats.views;
        rollbacks += ended.stats.rollbacks;
        reshards += ended.stats.reshards;
    }
    assert!(finished > count * 9 / 10, "{finished} of {count} finished");
    assert!(
        kills > count && views > count && rollbacks > count / 8 && reshards > count / 8,
        "too little went wrong: {kills} kills, {views} views, {rollbacks} rollbacks, {reshards} \
         changes of the layout"
    );
}
