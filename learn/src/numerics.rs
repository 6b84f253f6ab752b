//! Whether this machine computes the bits that a run promises: a check of the matrix product at
//! start-up, and a fingerprint that workers compare when they join.
//!
//! On processors without fused multiply-add `matrixmultiply` multiplies and adds apart, which
//! rounds twice: such a machine is refused, by name, before it computes anything.

use crate::math::{Float, Write, exp_each, multiply, sigmoid_each, sum, sum_rows, tanh_each, view};

/// Shapes (rows, inner, columns): below, at and beyond the blocks of 256 and of every kernel, which
/// are 4 to 16 values wide.
const SHAPES: [(usize, usize, usize); 6] = [
    (1, 1, 1),
    (3, 7, 5),
    (16, 64, 16),
    (17, 256, 9),
    (5, 300, 33),
    (65, 513, 18),
];

/// Shapes that are checked besides: at and beyond the tiles of 8 x 48 that our own kernel has.
const TILES: [(usize, usize, usize); 3] = [(9, 40, 48), (70, 130, 50), (67, 270, 96)];

/// Inner dimension that the product handles at a time.
const BLOCK: usize = 256;

/// Which operand is read transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transposed {
    Neither,
    /// The left one, as in the gradient of a weight.
    Left,
    /// The right one, as in the gradient of an input.
    Right,
}

/// Checks that matrix products have the bits of the fused reference.
///
/// # Errors
/// The first product that differs, naming FMA and the remedy.
pub fn check() -> Result<(), String> {
    for (rows, inner, columns) in SHAPES.into_iter().chain(TILES) {
        for transposed in [Transposed::Neither, Transposed::Left, Transposed::Right] {
            for write in [Write::Replace, Write::Add] {
                let single = agrees::<f32>(rows, inner, columns, transposed, write, libm::fmaf);
                let double = agrees::<f64>(rows, inner, columns, transposed, write, libm::fma);
                if !(single && double) {
                    return Err(format!(
                        "this machine's matrix products ({rows}x{inner}x{columns}) are not those of fused multiply-add: \
                         the processor has no FMA, or a build setting hides it (MMTEST_FEATURE, MATMUL_*GEMM_KC); \
                         use a processor with FMA (x86-64 with AVX2 and FMA, or aarch64) and an unchanged build"
                    ));
                }
            }
        }
    }
    Ok(())
}

/// A hash over products, polynomials, logarithms and sums of fixed values: equal on two machines iff
/// they compute the same bits, as far as that can be sampled.
#[must_use]
pub fn fingerprint() -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    digest::<f32>(&mut hasher);
    digest::<f64>(&mut hasher);
    *hasher.finalize().as_bytes()
}

/// Whether one product of fixed values equals the reference in every bit.
fn agrees<F: Float>(
    rows: usize,
    inner: usize,
    columns: usize,
    transposed: Transposed,
    write: Write,
    fused: fn(F, F, F) -> F,
) -> bool {
    let left: Vec<F> = fixed(rows * inner, 1);
    let right: Vec<F> = fixed(inner * columns, 2);
    let mut found: Vec<F> = fixed(rows * columns, 3);
    let mut expected = found.clone();
    let a = match transposed {
        Transposed::Left => view(&left, inner, rows).reversed_axes(),
        Transposed::Neither | Transposed::Right => view(&left, rows, inner),
    };
    let b = match transposed {
        Transposed::Right => view(&right, columns, inner).reversed_axes(),
        Transposed::Neither | Transposed::Left => view(&right, inner, columns),
    };
    multiply(a, b, &mut found, write);
    for (place, value) in expected.iter_mut().enumerate() {
        let (row, column) = (place / columns, place % columns);
        for first in (0..inner).step_by(BLOCK) {
            let block = (first..inner.min(first + BLOCK)).fold(F::ZERO, |chain, k| {
                fused(a[[row, k]], b[[k, column]], chain)
            });
            let replaces = first == 0 && write == Write::Replace;
            *value = if replaces { block } else { *value + block };
        }
    }
    found
        .iter()
        .zip(&expected)
        .all(|(f, e)| f.bits() == e.bits())
}

fn digest<F: Float>(hasher: &mut blake3::Hasher) {
    let mut feed = |values: &[F]| {
        for value in values {
            hasher.update(&value.bits().to_le_bytes());
        }
    };
    for (rows, inner, columns) in SHAPES {
        let (left, right) = (fixed::<F>(rows * inner, 1), fixed::<F>(inner * columns, 2));
        let mut product = vec![F::ZERO; rows * columns];
        let (a, b) = (view(&left, rows, inner), view(&right, inner, columns));
        multiply(a, b, &mut product, Write::Replace);
        feed(&product);
    }
    for function in [exp_each::<F>, tanh_each::<F>, sigmoid_each::<F>] {
        let mut values: Vec<F> = fixed::<F>(512, 4)
            .iter()
            .map(|v| *v * F::from_f64(40.0))
            .collect();
        function(&mut values);
        feed(&values);
        feed(&[sum(&values)]);
        let logarithms: Vec<F> = values.iter().map(|value| value.magnitude().ln()).collect();
        feed(&logarithms);
        let mut columns = [F::ZERO; 8];
        sum_rows(&values, &mut columns);
        feed(&columns);
    }
}

/// Values in [-1, 1) with full mantissas, by splitmix64.
fn fixed<F: Float>(count: usize, seed: u64) -> Vec<F> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let unit = ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        F::from_f64(2.0 * unit - 1.0)
    };
    std::iter::repeat_with(next).take(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_passes() {
        assert_eq!(check(), Ok(()));
    }

    /// The check must be able to fail: unfused products are told from fused ones at every shape
    /// with more than a few values.
    #[test]
    fn unfused_products_are_told_apart() {
        let unfused = |a: f32, b: f32, chain: f32| a * b + chain;
        for (rows, inner, columns) in SHAPES.into_iter().skip(1) {
            let same = agrees(
                rows,
                inner,
                columns,
                Transposed::Neither,
                Write::Replace,
                unfused,
            );
            assert!(!same, "{rows}x{inner}x{columns}");
        }
    }

    /// Equal on x86-64 with AVX2 or AVX-512 and on aarch64; a change of it is a change of what all
    /// earlier runs promised.
    #[test]
    fn the_fingerprint_is_that_of_the_format() {
        let hex: String = fingerprint()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            hex,
            "27dc64197e90eb44305cb647c6d1ab3e51d2ef749b44c5b53ddf5d872f3d2d48"
        );
    }
}
