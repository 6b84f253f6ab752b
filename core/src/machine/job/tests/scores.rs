//! Evaluations: shared out, added up in task order, and late, or of a version that is gone.

use super::hosts::Hosted;
use super::*;
use crate::message::PARTS;

fn tasks(number: u32, effects: &[Effect]) -> Vec<u32> {
    let asked = effects.iter().filter_map(|effect| match effect {
        Effect::Say(to, CoordinatorSays::Evaluate { tasks, .. }) if *to == worker(number) => {
            Some(tasks.clone())
        }
        _ => None,
    });
    asked.flatten().collect()
}

impl Bench {
    /// Both slices keep version 2, and worker 1 was asked for tasks 0 and 2, worker 2 for 1.
    fn scoring() -> Self {
        let mut bench = Self::with_workers(2);
        bench.advance(2);
        (0..2).for_each(|slice| drop(bench.shard(slice, 2, &[], Some(2), false)));
        bench
    }

    fn score(&mut self, number: u32, task: u32) -> Vec<Effect> {
        self.scored_by(number, 2, task, TaskScore::default())
    }

    /// Time passes in which no message is lost.
    fn patiently(&mut self, millis: u64) -> Vec<Effect> {
        let ticks = (0..millis).step_by(500);
        ticks.flat_map(|_| self.after(500)).collect()
    }
}

#[test]
fn what_a_stuck_worker_does_not_score_is_asked_of_one_that_has_scored() {
    let mut bench = Bench::scoring();
    let busy = bench.patiently(2000);
    assert_eq!(tasks(2, &busy), [1, 1, 1, 1], "it has its own: asked again");
    bench.score(2, 1);
    assert_eq!(tasks(2, &bench.after(500)), [0, 2]);
    assert_eq!(tasks(1, &bench.after(500)), [], "its tasks are another's");
    let first = bench.score(1, 0);
    assert!(!first.iter().any(|e| matches!(e, Effect::Append(_))));
    let last = bench.score(2, 2);
    let over = Effect::Order(ShardOrder::Evaluated { version: Step(2) });
    assert!(last.contains(&over), "either's score counts: {last:?}");
}

#[test]
fn a_version_that_a_new_primary_does_not_have_is_given_up_once_it_is_late() {
    let mut bench = Bench::scoring();
    (0..2).for_each(|slice| drop(bench.shard(slice, 3, &[], Some(2), false)));
    let told = Effect::Tell(Fact::NotEvaluated { version: Step(2) });
    let lost = bench.shard(1, 3, &[0], None, false);
    assert!(!lost.contains(&told), "workers may have it: {lost:?}");
    assert!(!bench.after(500).contains(&told));
    let late = bench.after(500);
    let over = Effect::Order(ShardOrder::Evaluated { version: Step(2) });
    assert!(late.contains(&told) && late.contains(&over), "{late:?}");
    assert!(bench.job.evaluation.is_none());
}

#[test]
fn the_next_version_waits_for_whoever_scores_by_name() {
    let mut bench = Bench::scoring();
    bench.score(2, 1);
    bench.advance(4);
    let all: Vec<u32> = (0..PARTITIONS).collect();
    (0..2).for_each(|slice| drop(bench.shard(slice, 4, &all, Some(2), false)));
    let waits = |bench: &mut Bench| {
        bench.now = bench.now + Span::from_millis(400);
        bench.job.status(bench.now).waiting
    };
    let scorer = "worker #1 (w1) to score version 2; then version 4 is scored and step 4 goes on";
    assert_eq!(waits(&mut bench), Some(scorer.into()));
    (0..2).for_each(|slice| drop(bench.shard(slice, 3, &all, Some(2), false)));
    bench.score(1, 0);
    bench.score(1, 2);
    (0..2).for_each(|slice| drop(bench.shard(slice, 4, &all, Some(4), false)));
    assert_eq!(
        waits(&mut bench),
        None,
        "the next evaluation holds nothing up"
    );
}

/// A slice whose reports are late makes its step low, and what it has of it unknown: nobody is blamed
/// for a step that the others are past.
#[test]
fn a_slice_that_is_heard_late_blames_nobody_for_a_step_that_is_decided() {
    let mut bench = Bench::scoring();
    bench.score(2, 1);
    let all: Vec<u32> = (0..PARTITIONS).collect();
    bench.shard(1, 4, &all, Some(2), false);
    assert_eq!(bench.job.low(), Step(3));
    let waits = |bench: &mut Bench| {
        bench.now = bench.now + Span::from_millis(400);
        bench.job.status(bench.now).waiting
    };
    let scorer = "worker #1 (w1) to score version 2; then version 4 is scored and step 4 goes on";
    assert_eq!(waits(&mut bench), Some(scorer.into()));
}

/// What others' reports prove of a slice is not what it reported.
#[test]
fn a_slice_is_shown_at_the_step_that_it_reported() {
    let mut run = Hosted::in_sync();
    run.bench.shard(1, 4, &[], None, false);
    assert_eq!(run.bench.job.low(), Step(3));
    let shown = run.bench.job.status(run.bench.now).slices;
    let steps: Vec<Step> = shown.iter().map(|slice| slice.step).collect();
    assert_eq!(steps, [Step(0), Step(4)]);
}

#[test]
fn test_rows_are_shared_out_counted_once_and_added_in_task_order() {
    let mut bench = Bench::with_workers(2);
    bench.advance(2);
    bench.shard(0, 2, &[], Some(2), false);
    let effects = bench.shard(1, 2, &[], Some(2), false);
    let tasks = |number: u32, effects: &[Effect]| -> Vec<u32> {
        effects
            .iter()
            .filter_map(|effect| match effect {
                Effect::Say(to, CoordinatorSays::Evaluate { tasks, .. })
                    if *to == worker(number) =>
                {
                    Some(tasks.clone())
                }
                _ => None,
            })
            .flatten()
            .collect()
    };
    assert_eq!(
        (tasks(1, &effects), tasks(2, &effects)),
        (vec![0, 2], vec![1])
    );
    assert_eq!(
        tasks(1, &bench.down(2)),
        vec![1],
        "a lost worker's task moves"
    );
    let mut last = Vec::new();
    for task in [2, 0, 0, 1] {
        let score = TaskScore {
            rows: 10,
            correct: Some(u64::from(task)),
            loss_sum: 0.1,
            parts: [0.0, f64::from(task), 0.1, 0.0],
        };
        last = bench.scored_by(1, 2, task, score);
    }
    let metrics = Metrics {
        version: Step(2),
        epoch: 1,
        rows: 30,
        correct: Some(3),
        loss_sum: 0.1 + 0.1 + 0.1,
        parts: [0.0, 3.0, 0.1 + 0.1 + 0.1, 0.0],
    };
    assert!(
        last.contains(&Effect::Tell(Fact::Evaluated(metrics))),
        "{last:?}"
    );
    assert!(last.contains(&Effect::Order(ShardOrder::Evaluated { version: Step(2) })));
}

#[test]
fn a_version_that_one_slice_could_not_keep_is_let_go_by_the_others() {
    let mut bench = Bench::with_workers(1);
    bench.advance(4);
    let let_go = Effect::Order(ShardOrder::Evaluated { version: Step(4) });
    assert!(!bench.shard(0, 4, &[], Some(4), false).contains(&let_go));
    // The other still kept an earlier version as it went through 4.
    bench.committed(0, 4);
    bench.committed(1, 4);
    let missed = Effect::Tell(Fact::NotEvaluated { version: Step(4) });
    let effects = bench.shard(1, 5, &[], None, false);
    assert!(effects.contains(&let_go), "{effects:?}");
    assert!(effects.contains(&missed), "{effects:?}");
    let again = bench.shard(1, 5, &[0], None, false);
    assert!(!again.contains(&missed), "it is said once");
    // Reports from before they let go of it come late: it is let go again, and not scored.
    bench.shard(0, 5, &[], Some(4), false);
    let late = bench.shard(1, 5, &[0, 1], Some(4), false);
    assert!(late.contains(&let_go), "{late:?}");
    let begun =
        |effect: &Effect| matches!(effect, Effect::Say(_, CoordinatorSays::Evaluate { .. }));
    assert!(!late.iter().any(begun), "{late:?}");
}

#[test]
fn a_version_that_no_slice_kept_is_told() {
    let mut bench = Bench::with_workers(1);
    bench.shard(0, 3, &[], None, false);
    let effects = bench.shard(1, 3, &[], None, false);
    assert!(effects.contains(&Effect::Tell(Fact::NotEvaluated { version: Step(2) })));
}

#[test]
fn an_impossible_score_is_not_counted() {
    let mut bench = Bench::with_workers(1);
    bench.at_last();
    for score in [
        TaskScore {
            rows: u64::MAX,
            ..TaskScore::default()
        },
        TaskScore {
            rows: 1,
            correct: Some(2),
            ..TaskScore::default()
        },
    ] {
        for task in 0..3 {
            assert_eq!(bench.scored(task, score), vec![]);
        }
    }
    assert_eq!(bench.scored(u32::MAX, TaskScore::default()), vec![]);
    bench.scored(0, TaskScore::default());
    bench.scored(1, TaskScore::default());
    let last = bench.scored(2, TaskScore::default());
    assert!(matches!(last[0], Effect::Append(_)), "{last:?}");
}

#[test]
fn a_start_says_which_versions_before_its_base_were_never_scored() {
    let metrics = Metrics {
        version: Step(2),
        epoch: 1,
        rows: 1,
        correct: None,
        loss_sum: 1.0,
        parts: [0.0; PARTS],
    };
    let base = Step(7);
    let mut bench = Bench::new(Settings {
        branch: Branch { base, ..branch() },
        recorded: base,
        metrics: [(Step(2), metrics)].into(),
        ..settings()
    });
    let mut told = bench.shard(0, 7, &[], None, false);
    told.extend(bench.shard(1, 7, &[], None, false));
    let told: Vec<Step> = told
        .iter()
        .filter_map(|effect| match effect {
            Effect::Tell(Fact::NotEvaluated { version }) => Some(*version),
            _ => None,
        })
        .collect();
    assert_eq!(told, [Step(4), Step(6)]);
}
