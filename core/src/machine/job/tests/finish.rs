//! How a run ends, stops or halts, and what it waits for before it does.

use super::*;

#[test]
fn the_run_is_over_when_its_last_version_is_durable_and_scored() {
    let mut bench = Bench::with_workers(1);
    bench.advance(6);
    let durable = bench.event(Event::Durable(Step(6)));
    assert!(
        !durable.iter().any(|e| matches!(e, Effect::Close(_))),
        "not scored yet"
    );
    bench.shard(0, 6, &[], Some(6), true);
    bench.shard(1, 6, &[], Some(6), true);
    let mut last = Vec::new();
    for task in 0..3 {
        last = bench.scored(task, TaskScore::default());
    }
    assert_eq!(last.last(), Some(&Effect::Close(Outcome::Finished)));
    assert_eq!(
        bench.event(Event::Closed),
        vec![
            Effect::Say(worker(1), CoordinatorSays::Finished),
            Effect::Over(Outcome::Finished)
        ]
    );
    let (incarnation, name) = (worker(2), "late".into());
    let late = bench.event(Event::Member(Member::Up { incarnation, name }));
    assert_eq!(
        late,
        vec![Effect::Say(worker(2), CoordinatorSays::Finished)]
    );
}

#[test]
fn a_stop_ends_at_a_durable_version_and_seals_when_no_step_comes() {
    let mut bench = Bench::with_workers(1);
    bench.advance(1);
    let stop = bench.event(Event::Command(Command::Stop));
    assert!(stop.contains(&Effect::Order(ShardOrder::RequestStop)));
    bench.down(1);
    assert!(bench.after(2000).contains(&Effect::Order(ShardOrder::Seal)));
    bench.shard(0, 1, &[], None, true);
    bench.shard(1, 1, &[], None, true);
    assert!(
        bench
            .after(500)
            .contains(&Effect::Order(ShardOrder::CutHere { step: Step(1) }))
    );
    let effects = bench.event(Event::Durable(Step(1)));
    assert_eq!(
        effects.last(),
        Some(&Effect::Close(Outcome::Stopped(Step(1))))
    );
}

#[test]
fn a_last_version_that_cannot_be_saved_is_retried_for_the_grace() {
    let mut bench = Bench::with_workers(1);
    bench.advance(6);
    bench.event(Event::Degraded("disk full".into()));
    let again = bench.after(500);
    assert!(
        again.contains(&Effect::Order(ShardOrder::CutHere { step: Step(6) })),
        "{again:?}"
    );
    let given_up = bench.after(2000);
    let (durable, reason) = (None, "disk full".into());
    assert!(given_up.contains(&Effect::Close(Outcome::SaveFailed { durable, reason })));
}

#[test]
fn a_stop_or_a_last_save_is_not_given_up_for_lack_of_workers() {
    for (steps, stop) in [(3, true), (6, false)] {
        let mut bench = Bench::new(Settings {
            wait_below_min: Some(Span::from_millis(500)),
            ..settings()
        });
        bench.join(1);
        bench.advance(steps);
        if stop {
            bench.event(Event::Command(Command::Stop));
        }
        bench.down(1);
        let effects = bench.after(600);
        let gave_up = Effect::Close(Outcome::WaitedTooLong);
        assert!(!effects.contains(&gave_up), "at {steps}: {effects:?}");
    }
}

#[test]
fn a_stop_at_the_last_version_without_workers_leaves_the_scoring_to_the_next_start() {
    let mut bench = Bench::with_workers(1);
    bench.at_last();
    bench.event(Event::Command(Command::Leave));
    bench.down(1);
    let grace = bench.after(2000);
    assert_eq!(
        grace[grace.len() - 3..],
        [
            Effect::Tell(Fact::NotEvaluated { version: Step(6) }),
            Effect::Tell(Fact::Over {
                outcome: "stopped".into(),
                cause: None
            }),
            Effect::Close(Outcome::Stopped(Step(6)))
        ]
    );
}

#[test]
fn a_stop_waits_for_an_evaluation_until_the_seal() {
    let mut bench = Bench::with_workers(1);
    bench.advance(2);
    (0..2).for_each(|slice| drop(bench.shard(slice, 2, &[], Some(2), true)));
    bench.event(Event::Command(Command::Stop));
    let durable = bench.event(Event::Durable(Step(2)));
    let close = Effect::Close(Outcome::Stopped(Step(2)));
    assert!(!durable.contains(&close), "{durable:?}");
    let sealed = bench.after(2000);
    assert!(sealed.contains(&close), "{sealed:?}");
}

#[test]
fn a_failure_of_an_earlier_save_does_not_give_up_the_last_one() {
    let mut bench = Bench::with_workers(1);
    bench.event(Event::Degraded("old".into()));
    bench.advance(6);
    bench.after(500);
    let late = bench.after(2000);
    let given_up = |e: &Effect| matches!(e, Effect::Close(Outcome::SaveFailed { .. }));
    assert!(!late.iter().any(given_up), "{late:?}");
    let (durable, reason) = (None, "new".to_owned());
    let failed = bench.event(Event::Degraded(reason.clone()));
    assert!(failed.contains(&Effect::Close(Outcome::SaveFailed { durable, reason })));
}

#[test]
fn a_halt_says_what_is_left() {
    let rate = ": lower learning_rate, set clip_norm, or";
    let lost = format!("there is no checkpoint, all weights are lost{rate}");
    let kept = format!("checkpoint is of step 3, weights made after it are lost{rate}");
    let first = "is not finite; the model gives it with its first weights: look for";
    for (durable, step, left) in [
        (None, Step(4), lost.as_str()),
        (Some(Step(3)), Step(4), &kept),
        (None, Step(0), first),
        (Some(Step(0)), Step(0), first),
    ] {
        let mut bench = Bench::new(Settings {
            durable,
            ..settings()
        });
        let effects = bench.event(Event::Shard(ShardReport::Halted {
            slice: SliceId(0),
            timeline: timeline(),
            step,
            blocks: vec![2],
        }));
        let told = |e: &Effect| {
            matches!(e, Effect::Close(Outcome::Halted { cause, .. })
                if cause.contains(left) && cause.contains("block 2"))
        };
        assert!(effects.iter().any(told), "{effects:?}");
    }
}

#[test]
fn what_a_slice_cuts_is_told_to_the_saver() {
    let mut bench = Bench::with_workers(1);
    let cutting = |slice| {
        Event::Shard(ShardReport::Progress {
            slice: SliceId(slice),
            timeline: timeline(),
            step: Step(1),
            covered: PartitionSet::default(),
            pinned: None,
            cutting: Some(Step(1)),
            resting: false,
            voted: false,
            behind: None,
            kept: Step(0),
        })
    };
    let told = Effect::Saver(saver::Event::Cutting(SliceId(1), Step(1)));
    assert_eq!(bench.event(cutting(1)), vec![told]);
    assert_eq!(bench.event(cutting(9)), vec![], "a slice of no map");
}

#[test]
fn the_last_cut_follows_at_once_when_an_earlier_one_is_over() {
    let mut bench = Bench::with_workers(1);
    bench.advance(6);
    let effects = bench.event(Event::Durable(Step(4)));
    let cut = Effect::Order(ShardOrder::CutHere { step: Step(6) });
    assert!(effects.contains(&cut), "{effects:?}");
    let effects = bench.event(Event::Durable(Step(6)));
    assert!(!effects.contains(&cut), "{effects:?}");
}
