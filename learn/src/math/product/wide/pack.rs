//! Copies of blocks of operands without gaps: of the right one the columns of a tile, row by row; of
//! the left one the rows of tiles, column by column.

use std::arch::x86_64::{
    __m512, _mm512_castpd_ps, _mm512_castps_pd, _mm512_setzero_ps, _mm512_shuffle_f32x4,
    _mm512_unpackhi_pd, _mm512_unpackhi_ps, _mm512_unpacklo_pd, _mm512_unpacklo_ps,
};

use bytemuck::must_cast;

use super::{HEIGHT, LANES, Lanes};

/// Copies as many rows as `panel` has, from `values` on; what lies beyond `columns` is of no use.
/// `steps` lead from a row to the next, and from a column to the next.
#[target_feature(enable = "avx512f")]
pub(super) fn pack<const V: usize>(
    values: &[f32],
    steps: (usize, usize),
    columns: usize,
    panel: &mut [[Lanes; V]],
) {
    for (v, column) in (0..columns).step_by(LANES).enumerate() {
        let columns = LANES.min(columns - column);
        let values = &values[column * steps.1..];
        match steps {
            (step, 1) => by_row(values, step, columns, v, panel),
            (_, step) => by_column(values, step, columns, v, panel),
        }
    }
}

/// Copies `rows x inner` values of columns that are `step` apart: tile after tile, each of `inner`
/// columns. What lies beyond the last row is of no use.
pub(super) fn pack_left(
    values: &[f32],
    step: usize,
    rows: usize,
    inner: usize,
    tiles: &mut [[f32; HEIGHT]],
) {
    for (tile, row) in tiles.chunks_exact_mut(inner).zip((0..rows).step_by(HEIGHT)) {
        for (column, at) in tile.iter_mut().zip((row..).step_by(step)) {
            match values[at..].first_chunk() {
                Some(whole) => *column = *whole,
                None => {
                    let rest = &values[at..];
                    column[..rest.len()].copy_from_slice(rest);
                }
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn by_row<const V: usize>(
    values: &[f32],
    step: usize,
    columns: usize,
    v: usize,
    panel: &mut [[Lanes; V]],
) {
    let rows = panel.iter_mut().zip((0..).step_by(step));
    if columns == LANES {
        // Apart from the other loop, so that each copy is one register.
        for (row, at) in rows {
            row[v] = *values[at..].first_chunk().expect("a register");
        }
        return;
    }
    for (row, at) in rows {
        row[v][..columns].copy_from_slice(&values[at..at + columns]);
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn by_column<const V: usize>(
    values: &[f32],
    step: usize,
    columns: usize,
    v: usize,
    panel: &mut [[Lanes; V]],
) {
    let (squares, rest) = panel.as_chunks_mut::<LANES>();
    let whole = squares.len() * LANES;
    for (square, first) in squares.iter_mut().zip((0..).step_by(LANES)) {
        let mut lines = [_mm512_setzero_ps(); LANES];
        for (line, at) in lines[..columns].iter_mut().zip((first..).step_by(step)) {
            let lanes: &Lanes = values[at..].first_chunk().expect("a whole square");
            *line = must_cast(*lanes);
        }
        for (row, line) in square.iter_mut().zip(transposed(lines)) {
            row[v] = must_cast(line);
        }
    }
    for (row, k) in rest.iter_mut().zip(whole..) {
        for (place, at) in row[v][..columns].iter_mut().zip((k..).step_by(step)) {
            *place = values[at];
        }
    }
}

/// A square of 16 x 16 values, transposed: pairs, quadruples, and blocks of four and eight change
/// places.
#[inline]
#[target_feature(enable = "avx512f")]
fn transposed(lines: [__m512; LANES]) -> [__m512; LANES] {
    let mut pairs = lines;
    for i in (0..LANES).step_by(2) {
        pairs[i] = _mm512_unpacklo_ps(lines[i], lines[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_ps(lines[i], lines[i + 1]);
    }
    let mut fours = pairs;
    for i in (0..LANES).step_by(4) {
        (fours[i], fours[i + 1]) = interleaved(pairs[i], pairs[i + 2]);
        (fours[i + 2], fours[i + 3]) = interleaved(pairs[i + 1], pairs[i + 3]);
    }
    let mut whole = fours;
    for i in 0..4 {
        let [a, b, c, d] = [fours[i], fours[4 + i], fours[8 + i], fours[12 + i]];
        let (even, odd) = (parted(a, b), parted(c, d));
        (whole[i], whole[8 + i]) = parted(even.0, odd.0);
        (whole[4 + i], whole[12 + i]) = parted(even.1, odd.1);
    }
    whole
}

/// Pairs of two lines in turn: the lower ones of each four, and the upper ones.
#[inline]
#[target_feature(enable = "avx512f")]
fn interleaved(a: __m512, b: __m512) -> (__m512, __m512) {
    let (a, b) = (_mm512_castps_pd(a), _mm512_castps_pd(b));
    let (low, high) = (_mm512_unpacklo_pd(a, b), _mm512_unpackhi_pd(a, b));
    (_mm512_castpd_ps(low), _mm512_castpd_ps(high))
}

/// Fours of two lines: the first and third of each, and the second and fourth.
#[inline]
#[target_feature(enable = "avx512f")]
fn parted(a: __m512, b: __m512) -> (__m512, __m512) {
    let even = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
    let odd = _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b);
    (even, odd)
}
