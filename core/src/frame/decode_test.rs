use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::{FrameError, MAX_DEPTH, decode_message};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Shape {
    Unit,
    Newtype(Number),
    Tuple(u8, i64),
    Struct { a: Option<u32>, b: () },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Number(u64);

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Nothing;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Message {
    flag: bool,
    small: i8,
    large: u64,
    floats: [f64; 2],
    single: f32,
    name: String,
    none: Option<String>,
    shapes: Vec<Shape>,
    pairs: BTreeMap<u32, String>,
    nothing: Nothing,
    #[serde(default)]
    left_out: u16,
}

fn message() -> Message {
    Message {
        flag: true,
        small: -100,
        large: u64::MAX,
        floats: [0.1, f64::NEG_INFINITY],
        single: 1.5,
        name: "näme".into(),
        none: None,
        shapes: vec![
            Shape::Unit,
            Shape::Newtype(Number(70_000)),
            Shape::Tuple(200, -70_000),
            Shape::Struct { a: Some(3), b: () },
        ],
        pairs: (0..20).map(|key| (key * 1000, key.to_string())).collect(),
        nothing: Nothing,
        left_out: 9,
    }
}

#[test]
fn what_is_written_is_read() {
    let bytes = rmp_serde::to_vec_named(&message()).unwrap();
    assert_eq!(decode_message::<Message>(&bytes), Ok(message()));
}

#[test]
fn bytes_that_are_changed_or_cut_are_refused_or_read_as_rmp_serde_reads_them() {
    let bytes = rmp_serde::to_vec_named(&message()).unwrap();
    for end in 0..bytes.len() {
        assert!(
            decode_message::<Message>(&bytes[..end]).is_err(),
            "{end} bytes"
        );
    }
    let mut read = 0;
    for at in 0..bytes.len() {
        for value in 0..=255 {
            let mut changed = bytes.clone();
            changed[at] = value;
            if let Ok(message) = decode_message::<Message>(&changed) {
                read += 1;
                let other: Message = rmp_serde::from_slice(&changed)
                    .unwrap_or_else(|error| panic!("byte {at} as {value}: {error}"));
                // A changed float may be no number.
                assert_eq!(
                    format!("{message:?}"),
                    format!("{other:?}"),
                    "byte {at} as {value}"
                );
            }
        }
    }
    assert!(
        read > bytes.len(),
        "{read} of the changed messages could be read"
    );
}

#[test]
fn unknown_fields_are_passed_over_whatever_they_are() {
    #[derive(Serialize)]
    struct Newer {
        before: Vec<Option<Shape>>,
        known: u8,
        after: (f32, f64, i64, u64, bool, String, BTreeMap<String, Vec<u8>>),
    }
    #[derive(Debug, PartialEq, Deserialize)]
    struct Older {
        known: u8,
    }
    let newer = Newer {
        before: message()
            .shapes
            .into_iter()
            .map(Some)
            .chain([None])
            .collect(),
        known: 7,
        after: (
            0.5,
            0.1,
            -1,
            u64::MAX,
            false,
            "x".repeat(300),
            [("k".into(), vec![1; 20])].into(),
        ),
    };
    let bytes = rmp_serde::to_vec_named(&newer).unwrap();
    assert_eq!(decode_message(&bytes), Ok(Older { known: 7 }));
}

#[test]
fn nesting_and_claimed_lengths_are_bounded() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Nested(Vec<Self>);
    let nested = |depth: usize| [vec![0x91; depth - 1], vec![0x90]].concat();
    assert!(decode_message::<Nested>(&nested(MAX_DEPTH)).is_ok());
    let deep = decode_message::<Nested>(&nested(MAX_DEPTH + 1));
    assert_eq!(
        deep,
        Err(FrameError::Message("it is nested too deeply".into()))
    );
    // An array of four thousand million values.
    assert!(decode_message::<Vec<u64>>(&[0xdd, 0xff, 0xff, 0xff, 0xff, 1]).is_err());
    let more = decode_message::<(u8, u8)>(&[0x93, 1, 2, 3]);
    assert_eq!(more, Err(FrameError::Message("1 values too many".into())));
}
