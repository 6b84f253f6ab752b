//! What slices report: steps, their records, and what people are told of them.

use super::*;

#[test]
fn a_ledger_line_is_written_once_both_slices_have_the_step() {
    let mut bench = Bench::with_workers(1);
    let before = |step| Effect::Order(ShardOrder::Recorded { before: Step(step) });
    assert_eq!(bench.committed(1, 0), vec![]);
    let effects = bench.committed(0, 0);
    let recorded = Effect::Saver(saver::Event::Recorded(Step(1)));
    assert!(effects.contains(&recorded), "{effects:?}");
    let Effect::Append(Record::Step(record)) = &effects[0] else {
        panic!("{effects:?}")
    };
    let mut chain = blake3::Hasher::new();
    for digest in [[0; 32], [0; 32], [0; 32], [1; 32]] {
        chain.update(&digest);
    }
    assert_eq!(record.chain, *chain.finalize().as_bytes());
    assert_eq!((record.samples, record.discarded), (20, 1));
    assert_eq!(effects.last(), Some(&before(1)));
    assert_eq!(
        bench.committed(0, 0),
        vec![before(1)],
        "a repeated record is not written twice"
    );
}

#[test]
fn a_replay_that_differs_halts_the_run() {
    let mut bench = Bench::new(Settings {
        superseded: SortedMap::from([(Step(1), [9; 32])]),
        ..settings()
    });
    bench.join(1);
    bench.committed(0, 0);
    let effects = bench.committed(1, 0);
    let halted = |e: &Effect| {
        matches!(e, Effect::Close(Outcome::Halted { step: Step(0), cause })
            if cause.contains("replaying step 0"))
    };
    assert!(effects.iter().any(halted), "{effects:?}");
    let saved: Vec<&Effect> = effects
        .iter()
        .filter(|effect| matches!(effect, Effect::Saver(_)))
        .collect();
    assert_eq!(
        saved,
        [&Effect::Saver(saver::Event::Over)],
        "what differs never becomes durable"
    );
}

#[test]
fn a_replay_that_differs_is_noted_where_bits_are_not_promised() {
    let mut bench = Bench::new(Settings {
        superseded: SortedMap::from([(Step(1), [9; 32])]),
        ..settings()
    });
    bench.job.rules.bits = Bits::Off;
    bench.committed(0, 0);
    let effects = bench.committed(1, 0);
    assert!(effects.contains(&Effect::Tell(Fact::ReplayDiffers { step: Step(0) })));
    assert!(bench.job.ending.is_none());
}

#[test]
fn one_slice_may_be_heard_of_later_than_the_others() {
    let mut bench = Bench::with_workers(2);
    bench.shard(0, 3, &[], None, false);
    assert_eq!(bench.job.low(), Step(2), "slice 1 has at least version 2");
    bench.shard(1, 1, &[0], None, false);
    assert_eq!(bench.job.low(), Step(2), "a late report");
    bench.shard(1, 3, &[], None, false);
    assert_eq!(bench.job.low(), Step(3));
}

#[test]
fn a_slice_of_no_map_is_not_heard() {
    let mut bench = Bench::with_workers(1);
    assert_eq!(bench.shard(9, 3, &[], None, false), vec![]);
    assert_eq!(bench.committed(9, 0), vec![]);
    let halted = ShardReport::Halted {
        slice: SliceId(9),
        timeline: timeline(),
        step: Step(0),
        blocks: vec![],
    };
    assert_eq!(bench.event(Event::Shard(halted)), vec![]);
}

#[test]
fn who_came_and_went_is_counted_over_every_life_of_the_coordinator() {
    let members = Members {
        joined: 4,
        lost: 2,
        drained: 1,
        reassigned: 9,
    };
    let mut bench = Bench::new(Settings {
        members,
        ..settings()
    });
    let effects = bench.join(1);
    let joined = Members {
        joined: 5,
        ..members
    };
    let written = Effect::Append(Record::Members(joined));
    assert!(effects.contains(&written), "{effects:?}");
    assert!(
        !bench
            .after(500)
            .iter()
            .any(|e| matches!(e, Effect::Append(_)))
    );
    let status = bench.job.status(bench.now);
    assert_eq!((status.joined, status.lost), (5, 2));
}

#[test]
fn commits_are_told_once_a_second_and_always_after_a_loss() {
    let mut bench = Bench::with_workers(2);
    let told = |effects: &[Effect]| -> Vec<Step> {
        let told = effects.iter().filter_map(|effect| match effect {
            Effect::Tell(Fact::Committed { version, .. }) => Some(*version),
            _ => None,
        });
        told.collect()
    };
    let commit = |bench: &mut Bench, step| {
        let effects = [bench.committed(0, step), bench.committed(1, step)].concat();
        (0..2).for_each(|slice| drop(bench.progress(slice, step + 1, &[])));
        effects
    };
    assert_eq!(told(&commit(&mut bench, 0)), [Step(1)]);
    assert_eq!(told(&commit(&mut bench, 1)), []);
    bench.down(2);
    assert_eq!(told(&commit(&mut bench, 2)), [Step(3)]);
    bench.after(1000);
    assert_eq!(told(&commit(&mut bench, 3)), [Step(4)]);
    assert_eq!(told(&commit(&mut bench, 4)), []);
    assert_eq!(
        told(&commit(&mut bench, 5)),
        [Step(6)],
        "the last one is told"
    );
}
