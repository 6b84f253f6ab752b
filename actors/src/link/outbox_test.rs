use std::sync::Arc;

use resilin_core::frame::{Encoding, Kind};
use resilin_core::{Incarnation, MapNumber, RunId, Step, Timeline, View};

use super::*;

const MIB: usize = 1 << 20;

/// A tensor of `mib` pieces, or of one value for 0.
fn tensor(step: u64, mib: usize) -> OutTensor {
    let values = (mib * PIECE_VALUES).max(1);
    OutTensor {
        header: DataHeader {
            run: RunId(1),
            kind: Kind::Weights,
            timeline: Timeline::default(),
            map: MapNumber(1),
            view: View::default(),
            incarnation: Incarnation::default(),
            sequence: 0,
            step: Step(step),
            based_on: None,
            node: None,
            blocks: 0..1,
            offset: 0,
            total: 0,
            encoding: Encoding::F32,
            samples: 0,
            weight: 0.0,
            loss_sum: 0.0,
        },
        values: SharedValues::new(Arc::new(vec![0.0; values])).into(),
        before: None,
    }
}

fn outbox(in_flight_mib: usize, credit_mib: u32) -> Outbox {
    Outbox::new(in_flight_mib * MIB, credit_mib << 20, 4 << 20, 8 << 20)
}

/// What is written now: `control`, `credit bytes`, or `step@first value`.
fn drain(outbox: &mut Outbox) -> Vec<String> {
    std::iter::from_fn(|| outbox.next())
        .map(|work| match work {
            Work::Control(frame) => format!("control {}", frame.len()),
            Work::Credit(Credit { bytes, lane: 0 }) => format!("credit {bytes}"),
            Work::Credit(Credit { bytes, lane }) => format!("credit {bytes}, lane {lane}"),
            Work::Piece(piece) => {
                let Piece { header, values, .. } = *piece;
                format!("{}@{}+{}", header.step, header.offset, values.len())
            }
        })
        .collect()
}

#[test]
fn control_and_credit_go_before_tensors() {
    let mut outbox = outbox(8, 8);
    outbox.push_tensor(&tensor(1, 0)).expect("room");
    assert!(!outbox.owe(1000), "too little to tell");
    assert!(outbox.owe(1 << 20));
    outbox.push_control(vec![0; 30]).expect("room");
    assert_eq!(
        drain(&mut outbox),
        ["control 30", "credit 1049576", "1@0+1"]
    );
    assert!(outbox.is_empty());
}

#[test]
fn what_is_read_of_a_lane_is_told_by_halves() {
    let mut outbox = outbox(8, 8);
    assert!(!outbox.lane_read(3 << 20));
    assert!(drain(&mut outbox).is_empty());
    assert!(outbox.lane_read(4 << 20), "half of 8 MiB");
    outbox.owe(10);
    assert_eq!(drain(&mut outbox), ["credit 10, lane 4194304"]);
    assert!(!outbox.lane_read(7 << 20), "4 MiB of it are known");
    assert!(drain(&mut outbox).is_empty());
}

#[test]
fn what_is_read_of_a_short_lane_is_told_with_the_next_word() {
    let mut outbox = Outbox::new(MIB, 1 << 20, 4 << 20, 2 << 20);
    assert!(!outbox.lane_read(1 << 20), "half of 2 MiB wakes nobody");
    outbox.push_control(vec![0; 30]).expect("room");
    assert_eq!(drain(&mut outbox), ["control 30", "credit 0, lane 1048576"]);
    assert!(outbox.lane_read(3 << 20), "2 MiB are not known");
    assert_eq!(drain(&mut outbox), ["credit 0, lane 3145728"]);
}

#[test]
fn pieces_stop_where_the_credit_does() {
    let mut outbox = outbox(8, 2);
    outbox.push_tensor(&tensor(1, 3)).expect("room");
    outbox.push_tensor(&tensor(2, 0)).expect("room");
    assert_eq!(drain(&mut outbox), ["1@0+262144", "1@262144+262144"]);
    outbox.grant(MIB as u64 - 1);
    assert_eq!(
        drain(&mut outbox),
        [""; 0],
        "a piece is not cut to fit the credit"
    );
    outbox.push_control(vec![0; 30]).expect("room");
    assert_eq!(
        drain(&mut outbox),
        ["control 30"],
        "control needs no credit"
    );
    outbox.grant(5);
    assert_eq!(drain(&mut outbox), ["1@524288+262144", "2@0+1"]);
}

#[test]
fn the_queue_is_bounded_and_counts_tensors_until_they_are_written() {
    let mut outbox = outbox(4, 1);
    outbox
        .push_tensor(&tensor(1, 6))
        .expect("a large one has room in an empty queue");
    assert!(outbox.push_tensor(&tensor(2, 0)).is_err());
    assert_eq!(drain(&mut outbox), ["1@0+262144"]);
    assert_eq!(outbox.queued_bytes(), 6 * MIB, "alive while a piece is");
    outbox.grant(5 << 20);
    for _ in 0..5 {
        assert!(outbox.next().is_some());
        assert_eq!(
            outbox.queued_bytes(),
            6 * MIB,
            "its last piece may be under way"
        );
    }
    assert!(outbox.next().is_none());
    assert_eq!(outbox.queued_bytes(), 0);
    outbox.push_tensor(&tensor(2, 3)).expect("room");
    outbox
        .push_tensor(&tensor(3, 1))
        .expect("3 + 1 MiB fit the limit of 4");
    assert!(outbox.push_tensor(&tensor(4, 1)).is_err());
    outbox.clear();
    assert_eq!((outbox.queued_bytes(), outbox.is_empty()), (0, true));
}

#[test]
fn control_is_bounded_too() {
    let mut outbox = outbox(4, 4);
    outbox
        .push_control(vec![0; MAX_URGENT_BYTES])
        .expect("room");
    assert_eq!(outbox.push_control(vec![0]), Err(Full));
    drain(&mut outbox);
    assert_eq!(outbox.push_control(vec![0]), Ok(()));
}

#[test]
fn a_newer_version_replaces_what_is_not_sent() {
    let mut outbox = outbox(4, 1);
    outbox.set_newest(Stream(0), tensor(1, 3));
    assert_eq!(drain(&mut outbox), ["1@0+262144"]);
    outbox.set_newest(Stream(0), tensor(2, 3));
    outbox.set_newest(Stream(0), tensor(3, 2));
    outbox.set_newest(Stream(1), tensor(9, 0));
    outbox.grant(8 << 20);
    assert_eq!(
        drain(&mut outbox),
        ["3@0+262144", "3@262144+262144", "9@0+1"]
    );
    assert_eq!(outbox.superseded(), 2);
}

#[test]
fn streams_and_queue_take_turns_by_the_tensor() {
    let mut outbox = outbox(40, 40);
    for step in 1..=3 {
        outbox.push_tensor(&tensor(step, 0)).expect("room");
    }
    outbox.set_newest(Stream(0), tensor(10, 2));
    outbox.set_newest(Stream(1), tensor(11, 0));
    let order = [
        "10@0+262144",
        "10@262144+262144",
        "1@0+1",
        "11@0+1",
        "2@0+1",
        "3@0+1",
    ];
    assert_eq!(drain(&mut outbox), order);
}

#[test]
fn every_tensor_has_its_own_number() {
    let mut outbox = outbox(40, 40);
    outbox.push_tensor(&tensor(7, 2)).expect("room");
    outbox.push_tensor(&tensor(7, 0)).expect("room");
    let numbers: Vec<_> = std::iter::from_fn(|| outbox.next())
        .filter_map(|work| match work {
            Work::Piece(piece) => Some((piece.header.sequence, piece.header.total)),
            Work::Control(_) | Work::Credit(_) => None,
        })
        .collect();
    let long = 2 * PIECE_VALUES as u64;
    assert_eq!(numbers, [(0, long), (0, long), (1, 1)]);
}
