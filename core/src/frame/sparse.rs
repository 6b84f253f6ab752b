//! A piece of which few values matter, in fewer bytes: the gradient of a table of which a step touches
//! a few rows, and the table itself, of which the step changes those rows.
//!
//! The payload is a sequence of runs: first value u32 | length u32 | values, little-endian. What lies
//! between is +0.0 in a sparse piece, and as it was before in a piece of changes. So the values that
//! come out are those that went in, bit for bit; -0.0 is a value like any other. Sums and models are
//! made of what came out and know nothing of it.

use std::ops::Range;

use super::{FrameError, MAX_PIECE_BYTES};

/// Most values of a piece.
pub const PIECE_VALUES: usize = MAX_PIECE_BYTES as usize / VALUE;

const VALUE: usize = size_of::<f32>();

/// Bytes before the values of a run.
const RUN: usize = 8;

/// Values left out that end a run: fewer cost no more inside of it.
const GAP: usize = RUN / VALUE;

/// Values that are looked at before all are. Each is a miss of the cache: another thread made them.
const SAMPLES: usize = 32;

/// By how much more each of them lies further than the one before: prime, so that it has no common
/// factor with the width of a layer.
const SPREAD: usize = 8191;

/// Writes the runs of `values` that are not zero to `out` (cleared first), if they take at most half
/// the bytes; else the contents of `out` are unspecified.
#[must_use]
pub fn encode_sparse(values: &[f32], out: &mut Vec<u8>) -> bool {
    encode(values, |value| values[value].to_bits() == 0, out)
}

/// The same of the `values` that are not those of `before`, which is as long.
#[must_use]
pub fn encode_changed(values: &[f32], before: &[f32], out: &mut Vec<u8>) -> bool {
    assert_eq!(values.len(), before.len(), "two versions of a piece");
    let same = |value: usize| values[value].to_bits() == before[value].to_bits();
    encode(values, same, out)
}

fn encode(values: &[f32], left_out: impl Fn(usize) -> bool, out: &mut Vec<u8>) -> bool {
    out.clear();
    if looks_dense(values.len(), &left_out) {
        return false;
    }
    let most = size_of_val(values) / 2;
    let mut rest = 0;
    while let Some(start) = (rest..values.len()).find(|value| !left_out(*value)) {
        let end = end_of_run(start..values.len(), &left_out);
        if out.len() + RUN + (end - start) * VALUE > most {
            return false;
        }
        for number in [start, end - start] {
            let number = u32::try_from(number).expect("a piece is shorter");
            out.extend_from_slice(&number.to_le_bytes());
        }
        let bytes = values[start..end].iter().flat_map(|v| v.to_le_bytes());
        out.extend(bytes);
        rest = end;
    }
    true
}

/// Whether a few values say that looking at all of them is not worth it. A dense layer behind units and
/// pixels that are off has every other zero as well, and none to spare.
fn looks_dense(values: usize, left_out: impl Fn(usize) -> bool) -> bool {
    let step = values / SAMPLES;
    if step == 0 {
        return values == 0;
    }
    // Values at even distances are of one unit, if a layer has a power of two of them.
    let sample = (0..SAMPLES).map(|number| number * step + (number * SPREAD) % step);
    let mut kept = sample.filter(|value| !left_out(*value));
    kept.nth(SAMPLES / 4).is_some()
}

/// The end of the run that begins with `values`: behind its last value that is not followed by as
/// many left out as end it.
fn end_of_run(values: Range<usize>, left_out: impl Fn(usize) -> bool) -> usize {
    let mut end = values.start;
    for value in values {
        if !left_out(value) {
            end = value + 1;
        } else if value + 1 - end >= GAP {
            break;
        }
    }
    end
}

/// Writes all values of a sparse piece from its runs.
///
/// # Errors
/// Runs that are cut off, overlap, come in another order or end beyond the piece.
pub fn decode_sparse(payload: &[u8], values: &mut [f32]) -> Result<(), FrameError> {
    values.fill(0.0);
    decode_changed(payload, values)
}

/// Writes the runs over `values`, which are those that the changes were made to.
///
/// # Errors
/// As [`decode_sparse`]; the values before the fault are written then.
pub fn decode_changed(payload: &[u8], values: &mut [f32]) -> Result<(), FrameError> {
    let fault = |text: &str| FrameError::Data(format!("a run of a piece {text}"));
    let (mut rest, mut free) = (payload, 0);
    while !rest.is_empty() {
        let (head, after) = rest
            .split_first_chunk::<RUN>()
            .ok_or_else(|| fault("is cut off"))?;
        let [a, b, c, d, e, f, g, h] = *head;
        let start = u32::from_le_bytes([a, b, c, d]) as usize;
        let length = u32::from_le_bytes([e, f, g, h]) as usize;
        if start < free || length == 0 {
            return Err(fault("is empty or lies before the one before it"));
        }
        let run = start
            .checked_add(length)
            .and_then(|end| values.get_mut(start..end))
            .ok_or_else(|| fault("ends beyond the piece"))?;
        let bytes = after
            .get(..length * VALUE)
            .ok_or_else(|| fault("is cut off"))?;
        for (value, bytes) in run.iter_mut().zip(bytes.as_chunks::<VALUE>().0) {
            *value = f32::from_le_bytes(*bytes);
        }
        (rest, free) = (&after[length * VALUE..], start + length);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }

    fn there_and_back(values: &[f32]) -> Option<usize> {
        let mut bytes = vec![7];
        if !encode_sparse(values, &mut bytes) {
            return None;
        }
        let mut back = vec![f32::NAN; values.len()];
        decode_sparse(&bytes, &mut back).expect("its own runs");
        assert_eq!(bits(&back), bits(values));
        Some(bytes.len())
    }

    #[test]
    fn what_comes_out_is_what_went_in_to_the_bit() {
        let mut values = vec![0.0_f32; 300];
        assert_eq!(there_and_back(&values), Some(0));
        values[0] = -0.0;
        values[100..108].copy_from_slice(&[1.5, 0.0, f32::NAN, -2.0, 0.0, 0.0, 3.0, f32::MIN]);
        values[299] = f32::INFINITY;
        // Two zeros end a run, one does not: 0, 100..104, 106..108, 299.
        assert_eq!(there_and_back(&values), Some(4 * RUN + 8 * VALUE));
        assert_eq!(there_and_back(&[]), None);
        let dense: Vec<f32> = (1..300).map(|n| n as f32).collect();
        assert_eq!(there_and_back(&dense), None);
        let scattered: Vec<f32> = (0..300)
            .map(|n| if n % 3 == 0 { 1.0 } else { 0.0 })
            .collect();
        assert_eq!(there_and_back(&scattered), None, "runs of one are no gain");
    }

    #[test]
    fn changes_make_one_version_of_the_other_to_the_bit() {
        let before: Vec<f32> = (0..300).map(|n| 1.0 / n as f32).collect();
        let mut after = before.clone();
        for (place, value) in [(0, 0.0), (41, f32::NAN), (43, -0.0), (299, 7.0)] {
            after[place] = value;
        }
        let mut bytes = vec![7];
        assert!(encode_changed(&after, &before, &mut bytes));
        assert_eq!(bytes.len(), 3 * RUN + 5 * VALUE, "41..44 is one run");
        let mut made = before.clone();
        decode_changed(&bytes, &mut made).expect("its own runs");
        assert_eq!(bits(&made), bits(&after));
        assert!(encode_changed(&after, &after, &mut bytes));
        assert!(bytes.is_empty(), "nothing changed, NaN included");
        let other: Vec<f32> = before.iter().map(|value| value + 1.0).collect();
        assert!(!encode_changed(&other, &before, &mut bytes), "all changed");
    }

    #[test]
    fn a_unit_that_is_off_does_not_pass_for_all() {
        for width in [2, 100, 128, 512, 1000] {
            let off = |value: usize| value.is_multiple_of(width);
            assert!(looks_dense(PIECE_VALUES, off), "{width} units");
        }
        let rows = |value: usize| !(value / 64).is_multiple_of(9);
        assert!(!looks_dense(PIECE_VALUES, rows), "one row of nine");
    }

    #[test]
    fn runs_that_do_not_fit_are_refused() {
        let run = |start: u32, length: u32, values: usize| {
            let mut bytes = start.to_le_bytes().to_vec();
            bytes.extend(length.to_le_bytes());
            bytes.extend(std::iter::repeat_n(0x40, values * VALUE));
            bytes
        };
        let refused = |bytes: &[u8]| decode_sparse(bytes, &mut [0.0; 10]).is_err();
        assert!(!refused(&[run(2, 3, 3), run(5, 5, 5)].concat()));
        for wrong in [
            run(0, 0, 0),
            run(8, 3, 3),
            run(u32::MAX, u32::MAX, 1),
            run(0, 4, 3),
            vec![0; 7],
            [run(2, 3, 3), run(4, 1, 1)].concat(),
        ] {
            assert!(refused(&wrong), "{wrong:?}");
        }
    }
}
