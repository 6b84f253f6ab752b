use super::tests::{Bench, LINK, answer, contribution, rules};
use super::*;
use crate::job::Bits;
use crate::message::{ShardReport, Verdict};

const FIRST: Incarnation = of(1);
const SECOND: Incarnation = of(2);
const LEFT: Node = Node { level: 1, index: 0 };

const fn of(number: u32) -> Incarnation {
    Incarnation { reign: 1, number }
}

/// Partitions 0 and 1 of step 0, by a member.
fn left(incarnation: Incarnation, tensor: u64) -> Push {
    Push {
        incarnation,
        ..contribution(0, LEFT.level, LEFT.index, tensor)
    }
}

fn push(bench: &mut Bench, push: Push) -> Vec<Effect> {
    bench.event(Event::Pushed(LINK, push))
}

fn dropped(tensor: u64) -> Vec<Effect> {
    let covered = answer(0, LEFT.level, LEFT.index, Verdict::Covered);
    vec![Effect::Free(Tensor(tensor)), covered]
}

fn compared(tensor: u64) -> Vec<Effect> {
    let compare = Effect::Compare([Tensor(1), Tensor(tensor)]);
    [vec![compare], dropped(tensor)].concat()
}

fn differs(members: [Incarnation; 2]) -> Vec<Effect> {
    vec![Effect::Report(ShardReport::Differs {
        slice: SliceId(0),
        timeline: Timeline::first(1),
        step: Step(0),
        node: LEFT,
        members,
    })]
}

fn answered(bench: &mut Bench, same: bool) -> Vec<Effect> {
    bench.event(Event::Compared { same })
}

#[test]
fn a_copy_of_another_member_is_compared_with_the_first_one_at_a_time() {
    let mut bench = Bench::with(rules(1));
    push(&mut bench, left(FIRST, 1));
    assert_eq!(push(&mut bench, left(FIRST, 2)), dropped(2), "its own");
    assert_eq!(push(&mut bench, left(SECOND, 3)), compared(3));
    assert_eq!(
        push(&mut bench, left(SECOND, 4)),
        dropped(4),
        "one is enough"
    );
    assert_eq!(answered(&mut bench, true), []);
    assert_eq!(push(&mut bench, left(of(3), 5)), compared(5));
    assert_eq!(answered(&mut bench, false), differs([FIRST, of(3)]));
}

#[test]
fn a_copy_is_compared_until_the_step_is_over() {
    let mut bench = Bench::with(rules(2));
    push(&mut bench, left(FIRST, 1));
    bench.push(0, 1, 1, 2);
    bench.combined();
    assert_eq!(push(&mut bench, left(SECOND, 3)), compared(3), "it voted");
    let mut bench = Bench::with(rules(1));
    push(&mut bench, left(FIRST, 1));
    bench.push(0, 1, 1, 2);
    bench.combined();
    push(&mut bench, left(SECOND, 3));
    let applied = Event::Applied {
        step: Step(0),
        digests: vec![[7; 32]],
        finite: true,
    };
    bench.event(applied);
    assert_eq!(bench.shard.version(), Step(1));
    let late = differs([FIRST, SECOND]);
    assert_eq!(
        answered(&mut bench, false),
        late,
        "of the step that is over"
    );
    let stale = answer(0, LEFT.level, LEFT.index, Verdict::StaleStep);
    let gone = vec![Effect::Free(Tensor(4)), stale];
    assert_eq!(push(&mut bench, left(SECOND, 4)), gone);
}

#[test]
fn the_loss_and_the_weight_count_as_well() {
    for change in [
        |push: &mut Push| push.loss_sum += 1.0,
        |push: &mut Push| push.weight += 1.0,
    ] {
        let mut bench = Bench::with(rules(1));
        push(&mut bench, left(FIRST, 1));
        let mut other = left(SECOND, 2);
        change(&mut other);
        assert_eq!(push(&mut bench, other), compared(2));
        assert_eq!(answered(&mut bench, true), differs([FIRST, SECOND]));
    }
}

#[test]
fn nothing_is_compared_with_a_part_of_it_or_where_bits_are_not_promised() {
    let mut bench = Bench::with(rules(1));
    push(&mut bench, left(FIRST, 1));
    let leaf = Push {
        incarnation: SECOND,
        ..contribution(0, 0, 1, 2)
    };
    let covered = answer(0, 0, 1, Verdict::Covered);
    let gone = vec![Effect::Free(Tensor(2)), covered];
    assert_eq!(push(&mut bench, leaf), gone);
    let mut bench = Bench::with(Rules {
        bits: Bits::Off,
        ..rules(1)
    });
    push(&mut bench, left(FIRST, 1));
    assert_eq!(push(&mut bench, left(SECOND, 2)), dropped(2));
}
