use super::*;

fn at(millis: u64) -> Time {
    Time(0) + Span::from_millis(millis)
}

fn saver() -> Saver {
    Saver::new(
        2,
        (None, Step(0)),
        Some(Span::from_millis(100)),
        Span::from_millis(1000),
    )
}

fn run(saver: &mut Saver, millis: u64, event: Event) -> Vec<Effect> {
    let mut effects = Vec::new();
    saver.step(at(millis), event, &mut effects);
    effects
}

#[test]
fn durable_is_said_only_after_the_commit() {
    let mut saver = saver();
    let step = Step(7);
    assert_eq!(run(&mut saver, 0, Event::Tick), vec![]);
    assert_eq!(run(&mut saver, 100, Event::Tick), vec![Effect::RequestCut]);
    assert_eq!(run(&mut saver, 101, Event::Tick), vec![]);
    assert_eq!(run(&mut saver, 102, Event::Begun(SliceId(0), step)), vec![]);
    assert_eq!(
        run(&mut saver, 103, Event::Written(SliceId(0), step)),
        vec![]
    );
    assert_eq!(run(&mut saver, 104, Event::Begun(SliceId(1), step)), vec![]);
    assert_eq!(
        run(&mut saver, 104, Event::Written(SliceId(0), step)),
        vec![]
    );
    assert_eq!(
        run(&mut saver, 105, Event::Written(SliceId(1), step)),
        vec![],
        "the ledger is not there yet"
    );
    let all = run(&mut saver, 106, Event::Recorded(step));
    assert_eq!((all, saver.durable()), (vec![Effect::Commit(step)], None));
    assert_eq!(
        run(&mut saver, 110, Event::Committed(step)),
        vec![Effect::CutOver(step), Effect::Durable(step)]
    );
    assert_eq!((saver.durable(), saver.saved()), (Some(step), 1));
    assert_eq!(saver.deadline(), Some(at(210)));
}

/// Both parts of a step are on their way, and the ledger is as far.
fn begun(millis: u64, step: Step) -> Saver {
    let mut saver = saver();
    run(&mut saver, millis, Event::Recorded(step));
    for slice in [SliceId(0), SliceId(1)] {
        assert_eq!(run(&mut saver, millis, Event::Begun(slice, step)), vec![]);
    }
    saver
}

fn failed(slice: Option<u16>, step: u64) -> Event {
    Event::Failed(slice.map(SliceId), Step(step), "disk full".into())
}

fn given_up(step: u64, reason: &str) -> Vec<Effect> {
    let step = Step(step);
    let degraded = Effect::Degraded(reason.into());
    vec![Effect::CutOver(step), Effect::Abandon(step), degraded]
}

#[test]
fn a_failed_cut_is_given_up_once_all_parts_have_ended_and_tried_again_later() {
    let mut saver = begun(0, Step(4));
    assert_eq!(run(&mut saver, 50, failed(Some(0), 4)), vec![]);
    let all = run(&mut saver, 60, Event::Written(SliceId(1), Step(4)));
    assert_eq!(all, given_up(4, "disk full"));
    assert_eq!(run(&mut saver, 160, Event::Tick), vec![Effect::RequestCut]);
}

#[test]
fn a_part_of_a_failed_try_does_not_count_for_the_next_one() {
    let mut saver = begun(0, Step(4));
    run(&mut saver, 1, Event::Written(SliceId(1), Step(4)));
    assert_eq!(
        run(&mut saver, 2, failed(Some(0), 4)),
        given_up(4, "disk full")
    );
    run(&mut saver, 3, Event::Begun(SliceId(0), Step(4)));
    assert_eq!(
        run(&mut saver, 4, Event::Written(SliceId(0), Step(4))),
        vec![],
        "the other slice's part is of the first try"
    );
    run(&mut saver, 5, Event::Begun(SliceId(1), Step(4)));
    let all = run(&mut saver, 6, Event::Written(SliceId(1), Step(4)));
    assert_eq!(all, vec![Effect::Commit(Step(4))]);
    let mut outcome = given_up(4, "disk full");
    outcome.push(Effect::NotCommitted(Step(4)));
    assert_eq!(run(&mut saver, 7, failed(None, 4)), outcome);
}

#[test]
fn a_hanging_part_is_given_up_but_a_hanging_commit_may_be_durable() {
    let reason = "the checkpoint of step 4 took longer than 1.000 s";
    let mut saver = begun(0, Step(4));
    assert_eq!(run(&mut saver, 1000, Event::Tick), given_up(4, reason));
    let mut saver = begun(0, Step(4));
    for slice in [SliceId(0), SliceId(1)] {
        run(&mut saver, 1, Event::Written(slice, Step(4)));
    }
    assert_eq!(
        run(&mut saver, 1000, Event::Tick),
        vec![Effect::Degraded(reason.into())]
    );
    assert_eq!(run(&mut saver, 3000, Event::Tick), vec![], "said once");
    assert_eq!(
        run(&mut saver, 3001, Event::Committed(Step(4))),
        vec![Effect::CutOver(Step(4)), Effect::Durable(Step(4))]
    );
}

#[test]
fn a_part_that_comes_after_its_cut_was_given_up_does_not_hold_the_next_one() {
    let mut saver = begun(0, Step(4));
    run(&mut saver, 1000, Event::Tick);
    let late = Event::Begun(SliceId(1), Step(4));
    assert_eq!(run(&mut saver, 1001, late), vec![]);
    let next = run(&mut saver, 1002, Event::Begun(SliceId(0), Step(9)));
    assert_eq!(next, given_up(4, "the checkpoint of step 4 lacks a slice"));
    assert_eq!(
        run(&mut saver, 1003, Event::Written(SliceId(1), Step(4))),
        vec![Effect::CutOver(Step(4))],
        "older than the cut under way"
    );
    run(&mut saver, 1004, Event::Recorded(Step(9)));
    run(&mut saver, 1004, Event::Written(SliceId(0), Step(9)));
    let all = run(&mut saver, 1005, Event::Written(SliceId(1), Step(9)));
    assert_eq!(all, vec![Effect::Commit(Step(9))]);
}

#[test]
fn a_halt_leaves_nothing_to_be_committed() {
    let mut saver = begun(0, Step(4));
    run(&mut saver, 1, Event::Written(SliceId(0), Step(4)));
    assert_eq!(
        run(&mut saver, 2, Event::Over),
        vec![Effect::Abandon(Step(4))]
    );
    let step = Step(9);
    run(&mut saver, 3, Event::Recorded(step));
    for event in [Event::Begun, Event::Written] {
        for slice in [SliceId(0), SliceId(1)] {
            let effects = run(&mut saver, 4, event(slice, step));
            assert_eq!(effects, vec![Effect::CutOver(step)]);
        }
    }
    assert_eq!(run(&mut saver, 500, Event::Tick), vec![]);
}

#[test]
fn what_may_be_lost_is_said_again() {
    let mut saver = saver();
    run(&mut saver, 0, Event::Tick);
    for millis in [100, 200] {
        let asked = run(&mut saver, millis, Event::Tick);
        assert_eq!(asked, vec![Effect::RequestCut], "{millis} ms");
    }
    run(&mut saver, 250, Event::Recorded(Step(4)));
    run(&mut saver, 250, Event::Begun(SliceId(0), Step(4)));
    assert_eq!(
        run(&mut saver, 251, Event::Cutting(SliceId(1), Step(4))),
        vec![]
    );
    for slice in [SliceId(0), SliceId(1)] {
        run(&mut saver, 252, Event::Written(slice, Step(4)));
    }
    run(&mut saver, 253, Event::Committed(Step(4)));
    assert_eq!(
        run(&mut saver, 260, Event::Cutting(SliceId(1), Step(4))),
        vec![Effect::CutOverAt(SliceId(1), Step(4))]
    );
    let step = Step(9);
    let early = run(&mut saver, 270, Event::Cutting(SliceId(1), step));
    assert_eq!(early, vec![], "its part may be on its way to the store");
    let late = run(&mut saver, 1270, Event::Cutting(SliceId(1), step));
    assert!(
        late.contains(&Effect::CutOverAt(SliceId(1), step)),
        "{late:?}"
    );
}

#[test]
fn a_promotion_aborts_the_cut_that_went_with_the_old_primary() {
    let (step, reason) = (Step(7), "the process that cut slice 1 at step 7 was lost");
    let given_up = vec![
        Effect::CutOver(step),
        Effect::Abandon(step),
        Effect::Degraded(reason.into()),
    ];
    let mut saver = begun(0, step);
    let promoted = Event::Promoted(SliceId(1), step);
    assert_eq!(run(&mut saver, 1, promoted.clone()), vec![]);
    let ended = run(&mut saver, 2, Event::Written(SliceId(0), step));
    assert_eq!(ended, given_up, "once the other slice's part is there");
    // The cut is heard of only after the promotion.
    run(&mut saver, 3, promoted);
    run(&mut saver, 4, Event::Begun(SliceId(0), step));
    assert_eq!(
        run(&mut saver, 5, Event::Written(SliceId(0), step)),
        given_up
    );
    // The new primary cuts the version itself.
    for slice in [SliceId(0), SliceId(1)] {
        run(&mut saver, 6, Event::Begun(slice, step));
    }
    run(&mut saver, 7, Event::Written(SliceId(0), step));
    let all = run(&mut saver, 7, Event::Written(SliceId(1), step));
    assert_eq!(all, vec![Effect::Commit(step)]);
}

#[test]
fn a_new_branch_drops_what_is_written_and_counts_its_own_slices() {
    let mut saver = begun(0, Step(7));
    assert_eq!(
        run(&mut saver, 1, Event::Branch(3, Step(4))),
        vec![Effect::Abandon(Step(7))]
    );
    for slice in (0..3).map(SliceId) {
        assert_eq!(run(&mut saver, 2, Event::Begun(slice, Step(6))), vec![]);
        assert_eq!(run(&mut saver, 2, Event::Written(slice, Step(6))), vec![]);
    }
    let all = run(&mut saver, 3, Event::Recorded(Step(6)));
    assert_eq!(all, vec![Effect::Commit(Step(6))]);
    // A commit under way is real on any branch.
    assert_eq!(run(&mut saver, 4, Event::Branch(1, Step(4))), vec![]);
    assert_eq!(
        run(&mut saver, 5, Event::Committed(Step(6))),
        vec![Effect::CutOver(Step(6)), Effect::Durable(Step(6))]
    );
}

#[test]
fn what_the_ledger_had_before_a_restart_needs_no_line_more() {
    let times = (Span::from_millis(100), Span::from_millis(1000));
    let mut saver = Saver::new(2, (Some(Step(4)), Step(7)), Some(times.0), times.1);
    for slice in 0..2 {
        run(&mut saver, 1, Event::Begun(SliceId(slice), Step(7)));
    }
    run(&mut saver, 2, Event::Written(SliceId(0), Step(7)));
    let all = run(&mut saver, 3, Event::Written(SliceId(1), Step(7)));
    assert_eq!(all, vec![Effect::Commit(Step(7))]);
}
