//! `text`: runs of bytes with the byte that follows, cut at fixed places.

mod common;

use common::{all, fixture};
use resilin_data::text::{Config, load};
use resilin_learn::dataset::{Batch, TargetKind, Targets};

/// 775 bytes.
const SONNET: &[u8] = include_bytes!("data/text/sonnet.txt");

fn config(context: usize, stride: usize, test_fraction: f64) -> Config {
    Config {
        path: fixture("text/sonnet.txt"),
        test_path: None,
        context,
        stride,
        test_fraction,
    }
}

/// The rows of some bytes, written the long way.
fn rows(bytes: &[u8], context: usize, stride: usize) -> Batch {
    let starts = (0..bytes.len()).step_by(stride);
    let starts: Vec<usize> = starts.filter(|s| s + context < bytes.len()).collect();
    let run = |start: &usize| bytes[*start..start + context].iter().map(|b| f32::from(*b));
    Batch {
        rows: starts.len(),
        width: context,
        features: starts.iter().flat_map(run).collect(),
        targets: Targets::Classes(starts.iter().map(|s| bytes[s + context].into()).collect()),
    }
}

#[test]
fn rows_lie_a_stride_apart_and_test_rows_at_the_end() {
    for (context, stride, fraction) in [(8, 8, 0.25), (16, 3, 0.2), (5, 40, 0.0)] {
        let split = load(&config(context, stride, fraction)).expect("a text");
        let cut = SONNET.len() - (SONNET.len() as f64 * fraction) as usize;
        let (train, test) = SONNET.split_at(cut);
        assert_eq!(all(split.train.as_ref()), rows(train, context, stride));
        let manifest = split.train.manifest();
        assert_eq!(manifest.targets, TargetKind::Classes(256));
        assert_eq!(manifest.files[0].bytes, SONNET.len() as u64);
        let found = split.test.as_ref().map(|test| all(test.as_ref()));
        let expected = (fraction > 0.0).then(|| rows(test, context, stride));
        assert_eq!(found, expected);
        assert!(found.is_none_or(|test| test.rows > 0));
    }
}

#[test]
fn the_digest_tells_bytes_context_and_stride_apart() {
    let digest = |config: &Config| {
        load(config)
            .expect("a text")
            .train
            .manifest()
            .digest
            .clone()
    };
    let digests = [
        config(8, 8, 0.0),
        config(8, 7, 0.0),
        config(7, 8, 0.0),
        config(8, 8, 0.1),
    ]
    .map(|config| digest(&config));
    for (number, one) in digests.iter().enumerate() {
        assert!(!digests[number + 1..].contains(one), "{number}");
    }
    assert_eq!(digest(&config(8, 8, 0.0)), digests[0]);
}

#[test]
fn a_text_that_is_too_short_is_refused_with_both_lengths() {
    let refused = load(&config(100, 64, 0.1))
        .err()
        .expect("refused")
        .to_string();
    assert!(
        refused.contains("has 77 bytes to make rows from"),
        "{refused}"
    );
    assert!(refused.ends_with("the byte behind it 101: choose a smaller context or test_fraction"));
}

#[test]
fn a_row_that_is_not_there_is_refused() {
    let split = load(&config(8, 8, 0.0)).expect("a text");
    let count = split.train.manifest().rows as u32;
    let refused = split.train.read(&[0, count], &mut Batch::default());
    let expected = format!("row {count} was asked for, but there are {count} rows");
    assert_eq!(refused.expect_err("refused").to_string(), expected);
}
