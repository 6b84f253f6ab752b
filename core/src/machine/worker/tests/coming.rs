//! Sums that are sent while their values still come.

use super::*;

fn coming(bench: &mut Bench, step: u64, computed: Computed) -> Vec<Effect> {
    let (timeline, step) = (timeline(), Step(step));
    bench.event(Event::Coming {
        timeline,
        step,
        computed,
    })
}

fn holder() -> Bench {
    let mut bench = Bench::new(&[lease(0, 0, None), lease(1, 0, None)]);
    bench.weights(0, 0);
    assert!(bench.weights(1, 0).contains(&compute(0, &[(1, 0)])));
    bench
}

#[test]
fn a_sum_whose_values_come_is_pushed_once() {
    let mut bench = holder();
    let sum = computed(1, 0, 7);
    let pushes = SLICES.map(|slice| push(slice, 0, sum.clone())).to_vec();
    assert_eq!(coming(&mut bench, 0, sum.clone()), pushes);
    assert_eq!(bench.computed(0, sum, true), vec![]);
}

#[test]
fn a_slice_whose_link_broke_meanwhile_is_sent_the_whole() {
    let mut bench = holder();
    let sum = computed(1, 0, 7);
    coming(&mut bench, 0, sum.clone());
    bench.event(Event::SliceDown(SLICES[1]));
    bench.event(Event::SliceUp(SLICES[1]));
    let again = vec![push(SLICES[1], 0, sum.clone())];
    assert_eq!(bench.computed(0, sum.clone(), true), again);
    let covered = PartitionSet::default();
    let coverage = ShardSays::Coverage {
        timeline: timeline(),
        step: Step(0),
        covered,
    };
    assert_eq!(bench.heard(1, coverage), vec![push(SLICES[1], 0, sum)]);
}

#[test]
fn values_that_come_count_for_nothing_until_all_are_there() {
    let mut bench = holder();
    coming(&mut bench, 0, computed(1, 0, 7));
    let coverage = ShardSays::Coverage {
        timeline: timeline(),
        step: Step(0),
        covered: PartitionSet::default(),
    };
    assert_eq!(bench.heard(1, coverage), vec![]);
    let late = Event::Tick { samples_per_s: 0.0 };
    let said = bench.at(5_000, late);
    let pushed = |effect: &Effect| matches!(effect, Effect::Push { .. });
    assert!(!said.iter().any(pushed), "{said:?}");
}

#[test]
fn leaves_that_are_not_finite_are_reported_though_values_were_sent() {
    let mut bench = holder();
    coming(&mut bench, 0, computed(1, 0, 7));
    let mut broken = computed(1, 0, 7);
    broken.non_finite = vec![(PartitionId(1), [3; 32])];
    let effects = bench.computed(0, broken, true);
    assert!(effects.contains(&Effect::Free(Tensor(7))));
    let report = |effect: &Effect| matches!(effect, Effect::Say(WorkerSays::NonFinite { .. }));
    assert!(effects.iter().any(report), "{effects:?}");
    // The other leaf is evaluated apart.
    assert!(effects.contains(&compute(0, &[(0, 0)])), "{effects:?}");
}

#[test]
fn values_that_come_too_late_are_freed() {
    let mut bench = holder();
    coming(&mut bench, 0, computed(1, 0, 7));
    bench.weights(0, 1);
    bench.weights(1, 1);
    assert_eq!(coming(&mut bench, 0, computed(0, 0, 8)), vec![]);
    let freed = Effect::Free(Tensor(7));
    assert_eq!(bench.computed(0, computed(1, 0, 7), true)[0], freed);
}
