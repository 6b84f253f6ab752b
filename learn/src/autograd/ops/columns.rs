//! What the windows of a convolution cover, written out as a matrix and added back.
//!
//! A row of the matrix is a position, a column a place of the window and a channel: the pixels under
//! the window, row-major, and zeros where it lies on the border.
//!
//! Rows are some values long and there are many, so that what a copy costs beside the values
//! decides: short runs are copied in a fixed length, with some values behind them that the next run
//! overwrites.

use std::ops::Range;

use super::window::{Position, Sweep};
use crate::math::Float;

/// The longest run that is copied in a fixed length, and the values behind a matrix that are
/// overwritten with it.
pub(super) const SLACK: usize = 32;

/// The matrix of a convolution.
#[derive(Clone, Copy)]
pub(super) struct Columns {
    pub(super) sweep: Sweep,
}

impl Columns {
    /// Values that the window covers at a position.
    pub(super) fn covered(&self) -> usize {
        self.sweep.places() * self.sweep.channels
    }

    /// Values that the rows of so many positions take.
    pub(super) fn room(&self, positions: usize) -> usize {
        positions * self.covered() + SLACK
    }

    /// Writes the rows of some positions to `to`, which has [`Self::room`] for them.
    pub(super) fn unfold<F: Float>(&self, part: Range<usize>, x: &[F], to: &mut [F]) {
        let (first, covered) = (part.start, self.covered());
        let [run, line] = self.sweep.row_lengths();
        self.sweep.among(part, |number, at| {
            let row = &mut to[(number - first) * covered..];
            let Some(corner) = self.sweep.inside(at) else {
                self.unfold_on_border(at, x, &mut row[..covered]);
                return;
            };
            let mut from = corner;
            for start in (0..covered).step_by(run) {
                copy(&mut row[start..], &x[from..], run);
                from += line;
            }
        });
    }

    fn unfold_on_border<F: Float>(&self, at: Position, x: &[F], row: &mut [F]) {
        let channels = self.sweep.channels;
        self.sweep.runs(at, |run| {
            let (start, length) = (run.place * channels, run.length * channels);
            let to = &mut row[start..start + length];
            match run.pixel {
                Some(from) => to.copy_from_slice(&x[from..from + length]),
                None => to.fill(F::ZERO),
            }
        });
    }

    /// Adds the rows of some positions to the pixels that they are of.
    pub(super) fn fold<F: Float>(&self, part: Range<usize>, columns: &[F], to: &mut [F]) {
        let (first, channels, covered) = (part.start, self.sweep.channels, self.covered());
        self.sweep.among(part, |number, at| {
            let row = &columns[(number - first) * covered..][..covered];
            self.sweep.runs(at, |run| {
                let Some(pixel) = run.pixel else { return };
                let (start, length) = (run.place * channels, run.length * channels);
                let from = &row[start..start + length];
                for (to, from) in to[pixel..pixel + length].iter_mut().zip(from) {
                    *to += *from;
                }
            });
        });
    }
}

/// Copies the first `length` values, and perhaps some more: fewer than [`SLACK`], and none beyond
/// the ends of the slices.
#[inline]
fn copy<F: Copy>(to: &mut [F], from: &[F], length: usize) {
    match length {
        0..=8 => copy_whole::<F, 8>(to, from, length),
        9..=16 => copy_whole::<F, 16>(to, from, length),
        17..=SLACK => copy_whole::<F, SLACK>(to, from, length),
        _ => to[..length].copy_from_slice(&from[..length]),
    }
}

#[inline]
fn copy_whole<F: Copy, const N: usize>(to: &mut [F], from: &[F], length: usize) {
    match (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
        (Some(to), Some(from)) => *to = *from,
        _ => to[..length].copy_from_slice(&from[..length]),
    }
}
