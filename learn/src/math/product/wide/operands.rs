//! Where the operands of a product lie, and how a tile reads them.

use ndarray::ArrayView2;

use super::{HEIGHT, Lanes};

/// A matrix whose values lie close together, row by row or column by column.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub(super) values: &'a [f32],
    /// From a row to the next, and from a column to the next: one of them is 1.
    pub(super) steps: (usize, usize),
}

impl<'a> Matrix<'a> {
    pub(super) fn of(view: ArrayView2<'a, f32>) -> Option<Self> {
        let (rows, columns) = view.dim();
        let by_row = view.to_slice().map(|values| (values, (columns, 1)));
        let by_column = || Some((view.reversed_axes().to_slice()?, (1, rows)));
        let (values, steps) = by_row.or_else(by_column)?;
        Some(Self { values, steps })
    }

    pub(super) fn rows_from(self, row: usize) -> Self {
        Self {
            values: &self.values[row * self.steps.0..],
            ..self
        }
    }

    /// The values from a row and column on.
    pub(super) fn from(self, row: usize, column: usize) -> &'a [f32] {
        &self.values[row * self.steps.0 + column * self.steps.1..]
    }
}

/// The left operand from a tile's first row and block on.
#[derive(Clone, Copy)]
pub(super) enum Left<'a> {
    /// Values of a row lie side by side; from one row to the next.
    Rows(&'a [f32], usize),
    /// Values of a column do; from one column to the next.
    Columns(&'a [f32], usize),
    /// Tiles that were copied, the length of each, and the first row in the first of them.
    Tiles(&'a [[f32; HEIGHT]], usize, usize),
}

impl Left<'_> {
    pub(super) fn from(self, row: usize) -> Self {
        match self {
            Self::Rows(values, step) => Self::Rows(&values[row * step..], step),
            Self::Columns(values, step) => Self::Columns(&values[row..], step),
            Self::Tiles(values, inner, _) => {
                Self::Tiles(&values[row / HEIGHT * inner..], inner, row % HEIGHT)
            }
        }
    }
}

/// `V` registers of each of the right operand's rows.
pub(super) trait Right<const V: usize>: Copy {
    fn row(self, k: usize) -> [Lanes; V];
}

/// Rows that lie apart by so many values.
#[derive(Clone, Copy)]
pub(super) struct Apart<'a>(pub(super) &'a [f32], pub(super) usize);

impl<const V: usize> Right<V> for Apart<'_> {
    #[inline(always)]
    fn row(self, k: usize) -> [Lanes; V] {
        let (lanes, _) = self.0[k * self.1..].as_chunks();
        *lanes.first_chunk().expect("a row of a strip")
    }
}

impl<const V: usize> Right<V> for &[[Lanes; V]] {
    #[inline(always)]
    fn row(self, k: usize) -> [Lanes; V] {
        self[k]
    }
}
