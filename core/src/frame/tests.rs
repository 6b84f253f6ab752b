use super::*;
use crate::id::{Incarnation, MapNumber, RunId, Step, Timeline, View};
use crate::tree::Node;

fn header() -> DataHeader {
    DataHeader {
        run: RunId(0x0123_4567_89ab_cdef),
        kind: Kind::Gradient,
        timeline: Timeline {
            reign: 3,
            number: 2,
        },
        map: MapNumber(1),
        view: View {
            reign: 3,
            number: 1,
        },
        incarnation: Incarnation {
            reign: 3,
            number: 9,
        },
        sequence: 5,
        step: Step(41),
        based_on: None,
        node: Some(Node { level: 1, index: 2 }),
        blocks: 3..5,
        offset: 2,
        total: 6,
        encoding: Encoding::F32,
        samples: 8,
        weight: 8.0,
        loss_sum: 2.5,
    }
}

/// Payload NaNs with a message, -0 and a subnormal.
const VALUES: [u32; 4] = [0x7fc0_1234, 0xff80_0001, 0x8000_0000, 0x0000_0001];

fn payload() -> Vec<u8> {
    VALUES.iter().flat_map(|bits| bits.to_le_bytes()).collect()
}

fn data_frame(checksum: Checksum) -> Vec<u8> {
    let (payload, mut frame) = (payload(), Vec::new());
    data_head(&header(), &payload, checksum, &mut frame).expect("within the limits");
    frame.extend(payload);
    frame
}

fn credit(bytes: u64) -> Credit {
    Credit { bytes, lane: 0 }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_data_frame_comes_back_whole() {
    for checksum in [Checksum::On, Checksum::Off] {
        let mut bytes = data_frame(checksum);
        bytes.extend(b"next");
        let (frame, rest) = Frame::decode(&bytes).expect("a frame");
        assert_eq!(frame, Frame::Data(header(), &payload()));
        assert_eq!(rest, b"next");
    }
}

#[test]
fn golden_bytes() {
    let frame = data_frame(Checksum::On);
    assert_eq!(
        hex(&frame[..PRELUDE_BYTES]),
        "52534c4e01000201f6000000100000009f438d475fb6f938"
    );
    assert_eq!(
        blake3::hash(&frame).to_hex().as_str(),
        "fc7ea8f3a0ceaace7bd55a12287e2c595a50d14d4f46324391083ab43e90b6eb"
    );
    assert_eq!(
        hex(&credit_frame(credit(1000))),
        "52534c4e010003010a00000000000000000000009f882fa481a56279746573cd03e8"
    );
    assert_eq!(
        hex(&credit_frame(Credit {
            lane: 5,
            ..credit(7)
        })),
        "52534c4e010003010e0000000000000000000000af62323f82a5627974657307a46c616e6505"
    );
    assert_eq!(
        hex(&control_frame(&credit(7)).expect("small")),
        "52534c4e0100010100000000080000009d0be96e0443f20c81a5627974657307"
    );
}

#[test]
fn every_flip_and_every_cut_is_an_error() {
    let control = control_frame(&(1_u64, "drain")).expect("small");
    for frame in [data_frame(Checksum::On), control, credit_frame(credit(9))] {
        for bit in 0..frame.len() * 8 {
            let mut bytes = frame.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Frame::decode(&bytes).is_err(), "bit {bit} flipped unseen");
        }
        for length in 0..frame.len() {
            assert!(
                Frame::decode(&frame[..length]).is_err(),
                "cut to {length} unseen"
            );
        }
    }
}

#[test]
fn garbage_never_panics() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut draw = || {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 56) as u8
    };
    for round in 0..20_000 {
        let mut bytes: Vec<u8> = (0..round % 200).map(|_| draw()).collect();
        assert!(
            Frame::decode(&bytes).is_err(),
            "round {round}: {}",
            hex(&bytes)
        );
        // Behind an honest prelude the message decoder itself meets the garbage.
        if bytes.len() >= PRELUDE_BYTES {
            let _ = DataHeader::decode(&bytes);
            let kind = [FrameKind::Data, FrameKind::Credit][round % 2];
            let head = bytes.split_off(PRELUDE_BYTES);
            let prelude =
                sealed((kind, Checksum::On, Route::Socket), &head, 0, || crc(&[])).expect("short");
            bytes.copy_from_slice(&prelude);
            bytes.extend(head);
            assert!(
                Frame::decode(&bytes).is_err(),
                "round {round}: {}",
                hex(&bytes)
            );
        }
    }
}

#[test]
fn limits_are_checked_on_the_prelude_alone() {
    let prelude = |kind: FrameKind, header: u32, payload: u32| {
        let mut bytes = [0; PRELUDE_BYTES];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&FORMAT.to_le_bytes());
        bytes[6] = kind as u8;
        bytes[7] = 1;
        bytes[8..12].copy_from_slice(&header.to_le_bytes());
        bytes[12..16].copy_from_slice(&payload.to_le_bytes());
        Prelude::parse(&bytes).map(|_| ())
    };
    let over = |part, length: u32, limit: u32| {
        Err(FrameError::TooLong {
            part,
            length: length.into(),
            limit: limit.into(),
        })
    };
    assert_eq!(
        prelude(FrameKind::Data, MAX_HEADER_BYTES, MAX_PIECE_BYTES),
        Ok(())
    );
    assert_eq!(
        prelude(FrameKind::Data, MAX_HEADER_BYTES + 1, 0),
        over("header", MAX_HEADER_BYTES + 1, MAX_HEADER_BYTES)
    );
    assert_eq!(
        prelude(FrameKind::Data, 0, u32::MAX),
        over("payload", u32::MAX, MAX_PIECE_BYTES)
    );
    assert_eq!(prelude(FrameKind::Control, 0, MAX_CONTROL_BYTES), Ok(()));
    assert_eq!(
        prelude(FrameKind::Control, 0, MAX_CONTROL_BYTES + 1),
        over("payload", MAX_CONTROL_BYTES + 1, MAX_CONTROL_BYTES)
    );
    assert_eq!(prelude(FrameKind::Control, 1, 0), over("header", 1, 0));
    assert_eq!(prelude(FrameKind::Credit, 0, 1), over("payload", 1, 0));
}

#[test]
fn only_data_has_a_lane() {
    let prelude = |kind: FrameKind, flags: u8| {
        let mut bytes = sealed((kind, Checksum::On, Route::Socket), &[], 0, || 0).expect("short");
        bytes[7] = flags;
        Prelude::parse(&bytes).map(|prelude| (prelude.checksum, prelude.route))
    };
    let data = FrameKind::Data;
    assert_eq!(prelude(data, 0), Ok((Checksum::Off, Route::Socket)));
    assert_eq!(prelude(data, 1), Ok((Checksum::On, Route::Socket)));
    assert_eq!(prelude(data, 2), Ok((Checksum::Off, Route::Lane)));
    assert_eq!(prelude(data, 3), Ok((Checksum::On, Route::Lane)));
    for (kind, flags) in [
        (data, 4),
        (data, 128),
        (FrameKind::Control, 3),
        (FrameKind::Credit, 2),
    ] {
        assert_eq!(prelude(kind, flags), Err(FrameError::Flags(flags)));
    }
}

#[test]
fn a_frame_alone_has_no_lane() {
    let mut head = Vec::new();
    let kind = (FrameKind::Data, Checksum::On, Route::Lane);
    write_head(kind, &header(), 16, || crc(&payload()), &mut head).expect("short");
    head.extend(payload());
    assert_eq!(Frame::decode(&head), Err(FrameError::Flags(3)));
}

#[test]
fn an_outgoing_message_over_the_limit_is_refused() {
    let huge = "x".repeat(MAX_CONTROL_BYTES as usize);
    let error = control_frame(&huge).expect_err("over the limit");
    assert_eq!(
        error.to_string(),
        "payload of 4194309 bytes is over the limit of 4194304 bytes"
    );
}

#[test]
fn trailing_bytes_and_unknown_fields_are_rejected() {
    let mut message = rmp_serde::to_vec_named(&header()).expect("encodes");
    assert_eq!(DataHeader::decode(&message), Ok(header()));
    message.push(0xc0);
    assert_eq!(DataHeader::decode(&message), Err(FrameError::Trailing(1)));
    let other = rmp_serde::to_vec_named(&header().blocks).expect("encodes");
    assert!(matches!(
        Credit::decode(&other),
        Err(FrameError::Message(_))
    ));
}

#[test]
fn a_header_must_agree_with_its_payload() {
    assert_eq!(header().check(16), Ok(4));
    assert_eq!(
        DataHeader {
            offset: 0,
            total: 0,
            ..header()
        }
        .check(0),
        Ok(0)
    );
    for (changed, payload) in [
        (header(), 20),
        (header(), 15),
        (header(), 0),
        (
            DataHeader {
                offset: u64::MAX,
                ..header()
            },
            16,
        ),
        (
            DataHeader {
                encoding: Encoding::Int8,
                ..header()
            },
            16,
        ),
    ] {
        let result = changed.check(payload);
        assert!(
            matches!(result, Err(FrameError::Data(_))),
            "{changed:?}: {result:?}"
        );
    }
}
