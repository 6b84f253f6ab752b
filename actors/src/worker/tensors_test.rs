use resilin_core::frame::{Encoding, Kind};
use resilin_core::{Incarnation, RunId, View};

use super::*;
use crate::link::Part;

const SLICES: [SliceId; 2] = [SliceId(0), SliceId(1)];

fn header(timeline: u32, step: u64, based_on: Option<u64>) -> DataHeader {
    DataHeader {
        run: RunId(1),
        kind: Kind::Weights,
        timeline: Timeline::first(timeline.into()),
        map: MapNumber(1),
        view: View::default(),
        incarnation: Incarnation::default(),
        sequence: 0,
        step: Step(step),
        based_on: based_on.map(Step),
        node: None,
        blocks: 0..1,
        offset: 0,
        total: 2,
        encoding: Encoding::F32,
        samples: 0,
        weight: 0.0,
        loss_sum: 0.0,
    }
}

/// Two slices of two values, and both parts of step 1 of timeline 1.
fn arrivals() -> Arrivals {
    let arrivals = Arrivals::new(4, BufferPool::new(0));
    for (slice, values) in SLICES.into_iter().zip([0..2, 2..4]) {
        arrivals.ask(slice, Step(1), Use::Train);
        let header = header(1, 1, None);
        let Wanted::Place(part, None) = arrivals.place(slice, &values, &header) else {
            panic!("the first link that brings it");
        };
        part.write(0..2, |place| place.fill(f32::from(slice.0)));
        let version = (header.timeline, header.map, header.step);
        assert_eq!(arrivals.arrived(slice, &values, version, &[]), [Use::Train]);
        arrivals.ask(slice, Step(2), Use::Train);
    }
    arrivals
}

fn values_of(part: &Part) -> [f32; 2] {
    let mut values = [f32::NAN; 2];
    part.copy_to(0..2, &mut values);
    values
}

#[test]
fn changes_are_taken_while_the_version_that_they_are_based_on_is_here() {
    let arrivals = arrivals();
    let changes = header(1, 2, Some(1));
    let placed = arrivals.place(SLICES[1], &(2..4), &changes);
    let Wanted::Place(_, Some(before)) = placed else {
        panic!("{placed:?}");
    };
    assert_eq!(values_of(&before), [1.0, 1.0], "this slice's part");
    let again = arrivals.place(SLICES[1], &(2..4), &changes);
    assert!(
        matches!(again, Wanted::Take(Some(_))),
        "another link: {again:?}"
    );
    let whole = arrivals.place(SLICES[0], &(0..2), &header(1, 2, None));
    assert!(matches!(whole, Wanted::Place(_, None)), "{whole:?}");
}

#[test]
fn changes_to_what_is_gone_or_of_another_branch_are_forgotten() {
    let arrivals = arrivals();
    let refused = |arrivals: &Arrivals, header| {
        let placed = arrivals.place(SLICES[0], &(0..2), &header);
        matches!(placed, Wanted::Discard)
    };
    assert!(refused(&arrivals, header(2, 2, Some(1))), "timeline 2");
    assert!(refused(&arrivals, header(1, 2, Some(0))), "never here");
    assert!(!refused(&arrivals, header(1, 2, Some(1))));
    arrivals.forget(Use::Train, Step(2));
    assert!(refused(&arrivals, header(1, 2, Some(1))), "forgotten");
}
