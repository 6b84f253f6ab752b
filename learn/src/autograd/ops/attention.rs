//! Scaled dot-product attention (Vaswani et al. 2017).

use ndarray::ArrayView2;

use crate::autograd::{Shape, Tape, Var};
use crate::math::{self, Float, Write, multiply, view};

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask {
    /// All.
    None,
    /// Those up to its own place: text that is read from the left.
    Causal,
}

/// softmax(q k^T / sqrt(width)) v, for q [.., queries, width], k [.., keys, width] and v [.., keys,
/// values] with equal dimensions before.
///
/// # Panics
/// If the shapes do not fit.
pub fn attention<F: Float>(tape: &mut Tape<F>, q: Var, k: Var, v: Var, mask: Mask) -> Var {
    let sizes = Sizes::new(tape, [q, k, v]);
    let shares = shares(tape, q, k, sizes, mask);
    let mut dimensions = tape.shape(q).dimensions().to_vec();
    dimensions.pop();
    dimensions.push(sizes.values);
    let Sizes {
        batch,
        queries,
        keys,
        width,
        values,
    } = sizes;
    let factor = sizes.factor::<F>();
    tape.record(
        Shape::new(&dimensions),
        &[q, k, v],
        |all, out| {
            let (p, v) = (all.slice(shares), all.slice(v));
            for (b, out) in out.chunks_exact_mut(queries * values).enumerate() {
                let (p, v) = (part(p, b, queries, keys), part(v, b, keys, values));
                multiply(p, v, out, Write::Replace);
            }
        },
        move |up, gradients| {
            let [p, q_values, k_values, v_values] =
                [shares, q, k, v].map(|var| up.values.slice(var));
            let above = |b| part(up.gradient, b, queries, values);
            // Gradient of the scaled scores: p (dp - sum of p dp), row by row.
            let mut scores = gradients.take_scratch(batch * queries * keys);
            for (b, scores) in scores.chunks_exact_mut(queries * keys).enumerate() {
                let v = part(v_values, b, keys, values).reversed_axes();
                multiply(above(b), v, scores, Write::Replace);
                let p = p[b * queries * keys..].chunks_exact(keys);
                for (row, p) in scores.chunks_exact_mut(keys).zip(p) {
                    let (row, p) = (&mut row[..keys], &p[..keys]);
                    let total = math::sum_of(keys, |i| row[i] * p[i]);
                    for (score, p) in row.iter_mut().zip(p) {
                        *score = *p * (*score - total) * factor;
                    }
                }
            }
            let score = |b| part(&scores, b, queries, keys);
            let all = 0..batch;
            gradients.add_products(
                q,
                all.clone()
                    .map(|b| (score(b), part(k_values, b, keys, width))),
            );
            gradients.add_products(
                k,
                all.clone().map(|b| {
                    let q = part(q_values, b, queries, width);
                    (score(b).reversed_axes(), q)
                }),
            );
            gradients.add_products(
                v,
                all.map(|b| (part(p, b, queries, keys).reversed_axes(), above(b))),
            );
            gradients.keep_scratch(scores);
        },
    )
}

/// What each query takes of each key: the rows of a softmax.
fn shares<F: Float>(tape: &mut Tape<F>, q: Var, k: Var, sizes: Sizes, mask: Mask) -> Var {
    let Sizes {
        batch,
        queries,
        keys,
        width,
        ..
    } = sizes;
    let factor = sizes.factor::<F>();
    tape.computed(Shape::new(&[batch, queries, keys]), |all, out| {
        let (q, k) = (all.slice(q), all.slice(k));
        for (b, scores) in out.chunks_exact_mut(queries * keys).enumerate() {
            let (q, k) = (part(q, b, queries, width), part(k, b, keys, width));
            multiply(q, k.reversed_axes(), scores, Write::Replace);
            for (query, row) in scores.chunks_exact_mut(keys).enumerate() {
                let seen = match mask {
                    Mask::None => keys,
                    Mask::Causal => keys.min(query + 1),
                };
                let (seen, hidden) = row.split_at_mut(seen);
                seen.iter_mut().for_each(|score| *score *= factor);
                math::softmax(seen);
                hidden.fill(F::ZERO);
            }
        }
    })
}

#[derive(Clone, Copy)]
struct Sizes {
    batch: usize,
    queries: usize,
    keys: usize,
    width: usize,
    values: usize,
}

impl Sizes {
    fn new<F: Float>(tape: &Tape<F>, [q, k, v]: [Var; 3]) -> Self {
        let [q, k, v] = [q, k, v].map(|var| tape.shape(var));
        let (
            [outer @ .., queries, width],
            [outer_k @ .., keys, width_k],
            [outer_v @ .., keys_v, values],
        ) = (q.dimensions(), k.dimensions(), v.dimensions())
        else {
            panic!("queries, keys and values are matrices");
        };
        assert!(
            outer == outer_k && outer == outer_v,
            "equal batch dimensions"
        );
        assert!(
            width == width_k && keys == keys_v,
            "a key and a value per place"
        );
        Self {
            batch: outer.iter().product(),
            queries: *queries,
            keys: *keys,
            width: *width,
            values: *values,
        }
    }

    fn factor<F: Float>(&self) -> F {
        F::ONE / F::from_f64(self.width as f64).root()
    }
}

/// Matrix number `b`.
fn part<F: Float>(values: &[F], b: usize, rows: usize, columns: usize) -> ArrayView2<'_, F> {
    let size = rows * columns;
    view(&values[b * size..(b + 1) * size], rows, columns)
}
