use resilin_core::frame::{Encoding, Kind};
use resilin_core::{Incarnation, MapNumber, RunId, Step, Timeline, View};

use super::*;
use crate::link::JointBuffer;

const WINDOW: u32 = 80;

fn header(sequence: u64, offset: u64, total: u64) -> DataHeader {
    DataHeader {
        run: RunId(1),
        kind: Kind::Gradient,
        timeline: Timeline::default(),
        map: MapNumber(1),
        view: View::default(),
        incarnation: Incarnation::default(),
        sequence,
        step: Step(4),
        based_on: None,
        node: None,
        blocks: 0..1,
        offset,
        total,
        encoding: Encoding::F32,
        samples: 1,
        weight: 1.0,
        loss_sum: 0.0,
    }
}

fn assembly(pool: &BufferPool) -> Assembly {
    let want = |header: &DataHeader| {
        if header.sequence == 13 {
            Wanted::Discard
        } else {
            Wanted::Take(None)
        }
    };
    Assembly::new(pool.clone(), Box::new(want), 1000, WINDOW)
}

#[test]
fn pieces_fill_one_buffer_and_half_the_window_is_held() {
    let pool = BufferPool::new(1 << 20);
    let mut assembly = assembly(&pool);
    let mut released = Vec::new();
    for offset in [0, 8, 16] {
        assert_eq!(assembly.begin(header(1, offset, 20), 8), Ok(0));
        let values = if offset == 16 { 4 } else { 8 };
        let filled = assembly.fill(values, |piece| piece.fill(offset as f32));
        filled.expect("wanted");
        let (credit, complete) = assembly.end(values);
        released.push(credit);
        if let Some(complete) = complete {
            let expected: Vec<f32> = [[0.0; 8].as_slice(), &[8.0; 8], &[16.0; 4]].concat();
            assert_eq!(*complete.values, *expected);
            assert_eq!((complete.header.offset, complete.held), (0, 40));
        } else {
            assert_ne!(offset, 16, "the last piece completes the tensor");
        }
    }
    assert_eq!(released, [0, 24, 16], "all but half the window");
    assert_eq!(pool.idle_bytes(), 80);
}

#[test]
fn another_tensor_supersedes_the_one_under_way() {
    let pool = BufferPool::new(1 << 20);
    let mut assembly = assembly(&pool);
    assert_eq!(assembly.begin(header(1, 0, 20), 5), Ok(0));
    assert_eq!(assembly.end(5).0, 0);
    assert_eq!(
        assembly.begin(header(2, 0, 20), 20),
        Ok(20),
        "its credit comes back"
    );
    assert_eq!(pool.idle_bytes(), 0, "its buffer is the new one's");
    assembly.fill(20, |piece| piece.fill(1.0)).expect("wanted");
    assert!(assembly.end(20).1.is_some());
}

#[test]
fn what_is_not_wanted_has_no_buffer_and_returns_all_credit() {
    let pool = BufferPool::new(1 << 20);
    let mut assembly = assembly(&pool);
    assert_eq!(assembly.begin(header(13, 0, 20), 12), Ok(0));
    assert_eq!(assembly.fill(12, |piece| piece.len()), None);
    assert!(matches!(assembly.end(12), (48, None)));
    assert_eq!(assembly.begin(header(13, 12, 20), 8), Ok(0));
    assert!(matches!(assembly.end(8), (32, None)));
    assert_eq!(assembly.begin(header(14, 0, 1), 1), Ok(0));
    assert_eq!(assembly.fill(1, |piece| piece.len()), Some(1));
}

#[test]
fn a_tensor_goes_to_its_place_in_a_whole() {
    let pool = BufferPool::new(1 << 20);
    let whole = JointBuffer::new(pool.take(6));
    let part = whole.part(2..6);
    let want = move |_: &DataHeader| Wanted::Place(part.clone(), None);
    let mut assembly = Assembly::new(pool.clone(), Box::new(want), 1000, WINDOW);
    assert_eq!(assembly.begin(header(1, 0, 4), 1), Ok(0));
    assembly.fill(1, |piece| piece.fill(7.0)).expect("wanted");
    assert!(assembly.end(1).1.is_none());
    assert_eq!(assembly.begin(header(1, 1, 4), 3), Ok(0));
    assembly.fill(3, |piece| piece.fill(8.0)).expect("wanted");
    let complete = assembly.end(3).1.expect("all are here");
    assert_eq!((complete.values.len(), complete.held), (0, 16));
    assert_eq!(whole.read()[2..], [7.0, 8.0, 8.0, 8.0]);
    let longer = assembly.begin(header(2, 0, 5), 5);
    assert!(matches!(longer, Err(FrameError::Data(_))), "another length");
}

#[test]
fn gaps_repeats_and_giants_are_faults() {
    let pool = BufferPool::new(1 << 20);
    let mut assembly = assembly(&pool);
    let fault = |result| matches!(result, Err(FrameError::Data(_)));
    assert!(fault(assembly.begin(header(1, 4, 20), 4)), "no first piece");
    assert_eq!(
        assembly.begin(header(1, 0, 1001), 4),
        Err(FrameError::TooLong {
            part: "tensor",
            length: 4004,
            limit: 4000
        })
    );
    assert_eq!(assembly.begin(header(1, 0, 20), 4), Ok(0));
    assembly.end(4);
    assert!(
        fault(assembly.begin(header(1, 0, 20), 4)),
        "the same piece again"
    );
    assert!(
        fault(assembly.begin(header(1, 8, 20), 4)),
        "a piece is missing"
    );
    assert_eq!(
        assembly.begin(header(1, 4, 20), 4),
        Ok(0),
        "a fault changes nothing"
    );
}
