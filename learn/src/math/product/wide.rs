//! The product of f32 matrices with AVX-512: the bits of `matrixmultiply`, whose chains of fused
//! multiply-adds it makes in the same order, up to half as fast again.
//!
//! What costs there is packing: both operands are copied before they are read. Here they are read
//! where they lie, the left one value by value, unless many rows or columns use a copy. A tile of 8
//! rows and 48 columns stays in registers for a whole block of the inner dimension.

use std::arch::x86_64::{
    __m512, _mm512_add_ps, _mm512_fmadd_ps, _mm512_mask_mov_ps, _mm512_set1_ps, _mm512_setzero_ps,
};
use std::cell::RefCell;
use std::ops::Range;

use bytemuck::must_cast;
use ndarray::ArrayView2;

use super::{INNER, Write};

mod operands;
mod pack;

use operands::{Apart, Left, Matrix, Right};

/// Values of a register.
const LANES: usize = 16;
/// Rows of a tile: with [`WIDTH`] registers each, 24 of the 32 that there are.
const HEIGHT: usize = 8;
/// Registers beside one another in a tile.
const WIDTH: usize = 3;
/// So many rows and fewer read the right operand where it lies.
const FEW: usize = 64;
/// More columns of a left operand by columns are read at long distances for each tile; where more
/// than [`FEW_TILES`] are beside one another, a copy is worth its price.
const TALL: usize = 128;
const FEW_TILES: usize = 2;
/// Rows of a left operand that are copied at a time: a block of them stays in the second cache.
const GROUP: usize = 512;
/// Values of a row that are looked for at a time.
const STRETCH: usize = 32;

type Lanes = [f32; LANES];
type Tile<const M: usize, const V: usize> = [[__m512; V]; M];

thread_local! {
    static COPIES: RefCell<Copies> = const { RefCell::new(Copies { right: Vec::new(), left: Vec::new() }) };
}

/// Where blocks of operands are copied to.
struct Copies {
    /// As tall as the inner dimension's block and as wide as a tile.
    right: Vec<Lanes>,
    /// Tiles one after the other, each column by column.
    left: Vec<[f32; HEIGHT]>,
}

/// Whether this processor has what it takes. Who builds a certain kernel of `matrixmultiply`
/// (`MMTEST_FEATURE`, to compare them) gets that one.
fn is_here() -> bool {
    option_env!("MMTEST_FEATURE").is_none() && is_x86_feature_detected!("avx512f")
}

/// Writes some rows of `left @ right`, row-major, to `into`, unless it cannot here: without AVX-512, or
/// with an operand that has gaps.
pub(super) fn multiply(
    left: ArrayView2<'_, f32>,
    some: Range<usize>,
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
        rows: some.len(),
        inner: left.ncols(),
        columns: right.ncols(),
    };
    assert_eq!(sizes.inner, right.nrows(), "inner dimensions");
    assert!(some.end <= left.nrows(), "rows of the left operand");
    assert_eq!(
        into.len(),
        sizes.rows * sizes.columns,
        "values of a product"
    );
    if sizes.inner == 0 && write == Write::Replace {
        into.fill(0.0);
    }
    if into.is_empty() || sizes.inner == 0 {
        return true;
    }
    let l = l.rows_from(some.start);
    #[expect(
        unsafe_code,
        reason = "the compiler cannot know what is_here has found"
    )]
    COPIES.with_borrow_mut(|copies| unsafe { blocks(l, r, &sizes, into, write, copies) });
    true
}

/// `rows x inner @ inner x columns`, with rows and columns.
struct Sizes {
    rows: usize,
    inner: usize,
    columns: usize,
}

/// Block by block of the inner dimension, in each group of rows by group, and in these tile column by
/// tile column.
#[target_feature(enable = "avx512f")]
fn blocks(
    left: Matrix<'_>,
    right: Matrix<'_>,
    sizes: &Sizes,
    into: &mut [f32],
    write: Write,
    copies: &mut Copies,
) {
    let registers = sizes.columns.div_ceil(LANES);
    // As equally wide as they can be.
    let tiles = registers.div_ceil(WIDTH);
    let width = registers.div_ceil(tiles);
    let is_copied = left.steps.0 == 1 && sizes.inner > TALL && tiles > FEW_TILES;
    let group = if is_copied { GROUP } else { sizes.rows };
    let Copies {
        right: panel,
        left: copy,
    } = copies;
    panel.resize(panel.len().max(WIDTH * INNER), [0.0; LANES]);
    for first in (0..sizes.inner).step_by(INNER) {
        let inner = INNER.min(sizes.inner - first);
        for row in (0..sizes.rows).step_by(group) {
            let rows = group.min(sizes.rows - row);
            let values = left.from(row, first);
            let left = match left.steps {
                (step, 1) => Left::Rows(values, step),
                (_, step) if is_copied => {
                    copy.resize(copy.len().max(GROUP / HEIGHT * INNER), [0.0; HEIGHT]);
                    let copy = &mut copy[..rows.div_ceil(HEIGHT) * inner];
                    pack::pack_left(values, step, rows, inner, copy);
                    Left::Tiles(copy, inner, 0)
                }
                (_, step) => Left::Columns(values, step),
            };
            for column in (0..sizes.columns).step_by(width * LANES) {
                let strip = Strip {
                    left,
                    inner,
                    rows,
                    columns: (width * LANES).min(sizes.columns - column),
                    step: sizes.columns,
                    add: write == Write::Add || first > 0,
                };
                let right = Part {
                    matrix: right,
                    first,
                    column,
                };
                let into = &mut into[row * sizes.columns + column..];
                match strip.columns.div_ceil(LANES) {
                    1 => strip.beside::<1>(&right, panel, into),
                    2 => strip.beside::<2>(&right, panel, into),
                    _ => strip.beside::<WIDTH>(&right, panel, into),
                }
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
            Left::Tiles(values, inner, row) => along_tile::<M, V>(&values[..inner], row, right),
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

#[inline]
#[target_feature(enable = "avx512f")]
fn along_tile<const M: usize, const V: usize>(
    left: &[[f32; HEIGHT]],
    row: usize,
    right: impl Right<V>,
) -> Tile<M, V> {
    let mut tile = [[_mm512_setzero_ps(); V]; M];
    for (k, column) in left.iter().enumerate() {
        let column: &[f32; M] = column[row..].first_chunk().expect("rows of a tile");
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
