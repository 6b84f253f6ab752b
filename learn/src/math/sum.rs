//! Sums in one written order: the only places where many values become one.

use super::Float;

/// Partial sums of [`sum`]; part of the numerics, not a tuning knob.
const LANES: usize = 16;

/// Columns whose sums [`add_sum_of_rows`] makes beside each other; of no influence on bits.
const BESIDE: usize = 128;

/// Sum of a slice: value `i` goes to lane `i % 16`, then the lanes are added from the first to the
/// last. Sixteen chains instead of one let it vectorise without changing the order.
#[must_use]
pub fn sum<F: Float>(values: &[F]) -> F {
    let mut lanes = [F::ZERO; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += *value;
        }
    }
    for (lane, value) in lanes.iter_mut().zip(rest) {
        *lane += *value;
    }
    lanes.into_iter().fold(F::ZERO, |total, lane| total + lane)
}

/// [`sum`] of values that are computed as they are added: the same lanes, the same bits.
pub fn sum_of<F: Float>(count: usize, value: impl Fn(usize) -> F) -> F {
    let mut lanes = [F::ZERO; LANES];
    let whole = count - count % LANES;
    for start in (0..whole).step_by(LANES) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += value(start + lane);
        }
    }
    for (lane, sum) in lanes[..count - whole].iter_mut().enumerate() {
        *sum += value(whole + lane);
    }
    lanes.into_iter().fold(F::ZERO, |total, lane| total + lane)
}

/// Writes the sum of the rows of a row-major matrix to `into`, from the first row to the last.
/// Without rows that is zero.
pub fn sum_rows<F: Float>(matrix: &[F], into: &mut [F]) {
    let Some((first, rest)) = matrix.split_at_checked(into.len()) else {
        into.fill(F::ZERO);
        return;
    };
    into.copy_from_slice(first);
    continue_sum_of_rows(rest, into);
}

/// Goes on with [`sum_rows`] of a matrix that comes in parts: `into` has the sum of the rows so far.
pub fn continue_sum_of_rows<F: Float>(matrix: &[F], into: &mut [F]) {
    for row in matrix.chunks_exact(into.len().max(1)) {
        for (sum, value) in into.iter_mut().zip(row) {
            *sum += *value;
        }
    }
}

/// Adds the sum of the rows to `into`: the bits of [`sum_rows`] to memory of its own, added after.
pub fn add_sum_of_rows<F: Float>(matrix: &[F], into: &mut [F]) {
    let width = into.len().max(1);
    for (number, part) in into.chunks_mut(BESIDE).enumerate() {
        let mut sums = [F::ZERO; BESIDE];
        let columns = number * BESIDE..number * BESIDE + part.len();
        for (index, row) in matrix.chunks_exact(width).enumerate() {
            for (sum, value) in sums.iter_mut().zip(&row[columns.clone()]) {
                *sum = if index == 0 { *value } else { *sum + *value };
            }
        }
        for (value, sum) in part.iter_mut().zip(sums) {
            *value += sum;
        }
    }
}

/// Adds `bias` to every row of a row-major matrix.
pub fn add_bias<F: Float>(matrix: &mut [F], bias: &[F]) {
    for row in matrix.chunks_exact_mut(bias.len().max(1)) {
        for (value, bias) in row.iter_mut().zip(bias) {
            *value += *bias;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_the_written_one() {
        let values: Vec<f32> = (0..37u8).map(|i| 1.0 / (1.0 + f32::from(i))).collect();
        let lane = |l: usize| {
            (l..37)
                .step_by(16)
                .fold(0.0f32, |total, i| total + values[i])
        };
        let expected = (0..16).fold(0.0f32, |total, l| total + lane(l));
        assert_eq!(sum(&values).to_bits(), expected.to_bits());
        assert_eq!(sum_of(37, |i| values[i]).to_bits(), expected.to_bits());

        let big = 1e8f32;
        let mut columns = [0.0; 2];
        sum_rows(&[big, 1.0, 3.0, big, -big, -big], &mut columns);
        assert_eq!(columns, [(big + 3.0) - big, (1.0 + big) - big]);
    }

    #[test]
    fn a_sum_of_rows_is_added_as_if_it_had_been_apart() {
        let matrix: Vec<f32> = (0..3 * 37u8).map(|i| 1.0 / (3.0 + f32::from(i))).collect();
        let (mut apart, mut added) = ([0.0f32; 37], [-0.0f32; 37]);
        added[5] = 0.1;
        sum_rows(&matrix, &mut apart);
        let expected = std::array::from_fn(|column| added[column] + apart[column]);
        add_sum_of_rows(&matrix, &mut added);
        assert_eq!(added.map(f32::to_bits), expected.map(f32::to_bits));
    }

    #[test]
    fn no_rows_sum_to_zero() {
        let mut columns = [7.0f32; 2];
        sum_rows(&[], &mut columns);
        assert_eq!((columns, sum::<f32>(&[])), ([0.0; 2], 0.0));
    }
}
