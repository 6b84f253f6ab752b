//! The product of f32 matrices with AVX-512: the bits of `matrixmultiply`, whose chains of fused
//! multiply-adds it makes in the same order, up to half as fast again.
//!
//! What costs there is packing: both operands are copied before they are read. Here the left one is
//! read where it lies, value by value, and the right one is copied only if enough rows use the copy. A
//! tile of 8 rows and 48 columns stays in registers for a whole block of the inner dimension.

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_mask_mov_ps, _mm512_set1_ps, _mm512_setzero_ps,
};
use std::cell::RefCell;

use bytemuck::must_cast;
use ndarray::ArrayView2;

use super::{INNER, Write};

mod pack;

/// Values of a register.
const LANES: usize = 16;
/// Rows of a tile: with [`WIDTH`] registers each, 24 of the 32 that there are.
const HEIGHT: usize = 8;
/// Registers beside one another in a tile.
const WIDTH: usize = 3;
/// So many rows and fewer read the right operand where it lies.
const FEW: usize = 64;
/// A left operand by columns that are this many and more would be read at long distances over and
/// over: there a copy is worth its price, and `matrixmultiply` makes one.
const TALL: usize = 128;
/// Values of a row that are looked for at a time.
const STRETCH: usize = 32;

type Lanes = [f32; LANES];
type Tile<const M: usize, const V: usize> = [[__m512; V]; M];

thread_local! {
    /// A block of the right operand, as tall as the inner dimension's and as wide as a tile.
    static PANEL: RefCell<Vec<Lanes>> = const { RefCell::new(Vec::new()) };
}

/// Whether this processor has what it takes. Who builds a certain kernel of `matrixmultiply`
/// (`MMTEST_FEATURE`, to compare them) gets that one.
fn is_here() -> bool {
    option_env!("MMTEST_FEATURE").is_none() && is_x86_feature_detected!("avx512f")
}

/// A matrix whose values lie close together, row by row or column by column.
#[derive(Clone, Copy)]
struct Matrix<'a> {
    values: &'a [f32],
    /// From a row to the next, and from a column to the next: one of them is 1.
    steps: (usize, usize),
}

impl<'a> Matrix<'a> {
    fn of(view: ArrayView2<'a, f32>) -> Option<Self> {
        let (rows, columns) = view.dim();
        let by_row = view.to_slice().map(|values| (values, (columns, 1)));
        let by_column = || Some((view.reversed_axes().to_slice()?, (1, rows)));
        let (values, steps) = by_row.or_else(by_column)?;
        Some(Self { values, steps })
    }

    /// The values from a row and column on.
    fn from(self, row: usize, column: usize) -> &'a [f32] {
        &self.values[row * self.steps.0 + column * self.steps.1..]
    }
}

/// Writes `left @ right`, row-major, to `into`, unless it cannot here: without AVX-512, or with an
/// operand that has gaps.
pub(super) fn multiply(
    left: ArrayView2<'_, f32>,
    right: ArrayView2<'_, f32>,
    into: &mut [f32],
    write: Write,
) -> bool {
    if !is_here() {
        return false;
    }
    let (Some(l), Some(r)) = (Matrix::of(left), Matrix::of(right)) else {
        return false;
    };
    let sizes = Sizes {
        rows: left.nrows(),
        inner: left.ncols(),
        columns: right.ncols(),
    };
    assert_eq!(sizes.inner, right.nrows(), "inner dimensions");
    if l.steps.0 == 1 && sizes.inner > TALL && sizes.columns > 2 * WIDTH * LANES {
        return false;
    }
    assert_eq!(
        into.len(),
        sizes.rows * sizes.columns,
        "values of a product"
    );
    if sizes.inner == 0 && write == Write::Replace {
        into.fill(0.0);
    }
    if into.is_empty() {
        return true;
    }
    #[expect(
        unsafe_code,
        reason = "the compiler cannot know what is_here has found"
    )]
    PANEL.with_borrow_mut(|panel| unsafe { blocks(l, r, &sizes, into, write, panel) });
    true
}

/// `rows x inner @ inner x columns`, with rows and columns.
struct Sizes {
    rows: usize,
    inner: usize,
    columns: usize,
}

/// Block by block of the inner dimension, and in each tile column by tile column.
#[target_feature(enable = "avx512f")]
fn blocks(
    left: Matrix<'_>,
    right: Matrix<'_>,
    sizes: &Sizes,
    into: &mut [f32],
    write: Write,
    panel: &mut Vec<Lanes>,
) {
    let registers = sizes.columns.div_ceil(LANES);
    // As equally wide as they can be.
    let width = registers.div_ceil(registers.div_ceil(WIDTH));
    panel.resize(panel.len().max(WIDTH * INNER), [0.0; LANES]);
    for first in (0..sizes.inner).step_by(INNER) {
        let inner = INNER.min(sizes.inner - first);
        let add = write == Write::Add || first > 0;
        for column in (0..sizes.columns).step_by(width * LANES) {
            let columns = (width * LANES).min(sizes.columns - column);
            let strip = Strip {
                left: match left.steps {
                    (step, 1) => Left::Rows(left.from(0, first), step),
                    (_, step) => Left::Columns(left.from(0, first), step),
                },
                inner,
                rows: sizes.rows,
                columns,
                step: sizes.columns,
                add,
            };
            let into = &mut into[column..];
            let right = Part {
                matrix: right,
                first,
                column,
            };
            match columns.div_ceil(LANES) {
                1 => strip.beside::<1>(&right, panel, into),
                2 => strip.beside::<2>(&right, panel, into),
                _ => strip.beside::<WIDTH>(&right, panel, into),
            }
        }
    }
}

/// Where a strip's block of the right operand begins.
struct Part<'a> {
    matrix: Matrix<'a>,
    first: usize,
    column: usize,
}

/// The left operand from a tile's first row and block on.
#[derive(Clone, Copy)]
enum Left<'a> {
    /// Values of a row lie side by side; from one row to the next.
    Rows(&'a [f32], usize),
    /// Values of a column do; from one column to the next.
    Columns(&'a [f32], usize),
}

impl Left<'_> {
    fn from(self, row: usize) -> Self {
        match self {
            Self::Rows(values, step) => Self::Rows(&values[row * step..], step),
            Self::Columns(values, step) => Self::Columns(&values[row..], step),
        }
    }
}

/// `V` registers of each of the right operand's rows.
trait Right<const V: usize>: Copy {
    fn row(self, k: usize) -> [Lanes; V];
}

/// Rows that lie apart by so many values.
#[derive(Clone, Copy)]
struct Apart<'a>(&'a [f32], usize);

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

/// All rows of a product, in the columns of one tile, with one block of the inner dimension.
struct Strip<'a> {
    left: Left<'a>,
    inner: usize,
    rows: usize,
    columns: usize,
    /// From a row of the result to the next.
    step: usize,
    add: bool,
}

impl Strip<'_> {
    /// With the block of the right operand where it lies, if it can be read there, or copied.
    #[target_feature(enable = "avx512f")]
    fn beside<const V: usize>(&self, right: &Part<'_>, panel: &mut [Lanes], into: &mut [f32]) {
        let values = right.matrix.from(right.first, right.column);
        match right.matrix.steps {
            (step, 1) if self.rows <= FEW && self.columns == V * LANES => {
                self.tiles::<V>(Apart(values, step), into);
            }
            steps => {
                let (panel, _) = panel.as_chunks_mut::<V>();
                let panel = &mut panel[..self.inner];
                pack::pack(values, steps, self.columns, panel);
                self.tiles::<V>(&*panel, into);
            }
        }
    }

    #[inline(never)]
    #[target_feature(enable = "avx512f")]
    fn tiles<const V: usize>(&self, right: impl Right<V>, into: &mut [f32]) {
        let mut row = 0;
        while row < self.rows {
            let left = self.left.from(row);
            let into = &mut into[row * self.step..];
            row += match self.rows - row {
                HEIGHT.. => self.tile::<HEIGHT, V>(left, right, into),
                4.. => self.tile::<4, V>(left, right, into),
                2.. => self.tile::<2, V>(left, right, into),
                _ => self.tile::<1, V>(left, right, into),
            };
        }
    }

    /// Makes `M` rows, and returns how many that were.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn tile<const M: usize, const V: usize>(
        &self,
        left: Left<'_>,
        right: impl Right<V>,
        into: &mut [f32],
    ) -> usize {
        let tile = match left {
            Left::Rows(values, step) => along_rows::<M, V>(values, step, self.inner, right),
            Left::Columns(values, step) => along_columns::<M, V>(values, step, self.inner, right),
        };
        if self.columns == V * LANES {
            self.put(&tile, into);
        } else {
            self.put_part(&tile, into);
        }
        M
    }

    /// Writes a tile straight from registers: nothing but this is in its loop.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn put<const M: usize, const V: usize>(&self, tile: &Tile<M, V>, into: &mut [f32]) {
        for (row, sums) in tile.iter().enumerate() {
            let into = &mut into[row * self.step..];
            for (v, sum) in sums.iter().enumerate() {
                let place: &mut Lanes = into[v * LANES..].first_chunk_mut().expect("a register");
                *place = must_cast(match self.add {
                    true => _mm512_add_ps(must_cast(*place), *sum),
                    false => *sum,
                });
            }
        }
    }

    /// Writes the columns that there are, and what is there already beside them.
    #[inline(never)]
    #[target_feature(enable = "avx512f")]
    fn put_part<const M: usize, const V: usize>(&self, tile: &Tile<M, V>, into: &mut [f32]) {
        for (row, sums) in tile.iter().enumerate() {
            let into = &mut into[row * self.step..];
            for (sum, first) in sums.iter().zip((0..self.columns).step_by(LANES)) {
                let columns = LANES.min(self.columns - first);
                let Some(place) = into[first..].first_chunk_mut() else {
                    put_last(must_cast(*sum), &mut into[first..][..columns], self.add);
                    continue;
                };
                let there = must_cast::<Lanes, __m512>(*place);
                let sum = match self.add {
                    true => _mm512_add_ps(there, *sum),
                    false => *sum,
                };
                let mask = u16::MAX >> (LANES - columns);
                *place = must_cast(_mm512_mask_mov_ps(there, mask, sum));
            }
        }
    }
}

/// Writes the last columns of all, behind which there is too little for a whole register.
fn put_last(sums: Lanes, into: &mut [f32], add: bool) {
    for (place, sum) in into.iter_mut().zip(sums) {
        *place = match add {
            true => *place + sum,
            false => sum,
        };
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn along_rows<const M: usize, const V: usize>(
    left: &[f32],
    step: usize,
    inner: usize,
    right: impl Right<V>,
) -> Tile<M, V> {
    let mut tile = [[_mm512_setzero_ps(); V]; M];
    let mut rows = [left; M];
    for (row, values) in rows.iter_mut().enumerate() {
        *values = &left[row * step..][..inner];
    }
    let whole = inner / STRETCH * STRETCH;
    for first in (0..whole).step_by(STRETCH) {
        // One look at the ends of the rows for many values.
        let rows = rows.map(|row| row[first..].first_chunk::<STRETCH>().expect("a stretch"));
        for k in 0..STRETCH {
            add(&mut tile, rows.map(|row| &row[k]), &right.row(first + k));
        }
    }
    for k in whole..inner {
        add(&mut tile, rows.map(|row| &row[k]), &right.row(k));
    }
    tile
}

#[inline]
#[target_feature(enable = "avx512f")]
fn along_columns<const M: usize, const V: usize>(
    left: &[f32],
    step: usize,
    inner: usize,
    right: impl Right<V>,
) -> Tile<M, V> {
    let mut tile = [[_mm512_setzero_ps(); V]; M];
    for k in 0..inner {
        let column: &[f32; M] = left[k * step..].first_chunk().expect("rows of a tile");
        add(&mut tile, column.each_ref(), &right.row(k));
    }
    tile
}

/// One more link of all chains. `left` is by reference, so that each value goes from memory to all
/// lanes, and not through a register that multiplications wait for.
#[inline]
#[target_feature(enable = "avx512f")]
fn add<const M: usize, const V: usize>(tile: &mut Tile<M, V>, left: [&f32; M], right: &[Lanes; V]) {
    for (value, row) in left.into_iter().zip(tile) {
        let value = _mm512_set1_ps(*value);
        for (sum, lanes) in row.iter_mut().zip(right) {
            *sum = _mm512_fmadd_ps(value, must_cast(*lanes), *sum);
        }
    }
}
