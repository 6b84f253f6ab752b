//! Rows chosen by number: an embedding, or any dimension's entries.

use crate::autograd::{Shape, Tape, Var};
use crate::math::Float;

/// Rows `ids` of a table [count, width], as `[dimensions, width]`. A row that is chosen more than
/// once gets the sum of its gradients, in the order of `ids`; the others get zero.
///
/// # Panics
/// If an id is not below the count, or there are not as many as the dimensions' product.
pub fn embedding<F: Float>(
    tape: &mut Tape<F>,
    table: Var,
    dimensions: &[usize],
    ids: &[u32],
) -> Var {
    let width = tape.shape(table).width();
    let chosen = gather(tape, table, 0, ids);
    let mut shape = dimensions.to_vec();
    shape.push(width);
    super::reshape(tape, chosen, &shape)
}

/// Entries `ids` of a dimension, in this order, as often as they are named.
///
/// # Panics
/// If there is no such dimension or entry.
pub fn gather<F: Float>(tape: &mut Tape<F>, x: Var, axis: usize, ids: &[u32]) -> Var {
    let mut sizes = tape.shape(x).dimensions().to_vec();
    let (count, width) = (sizes[axis], sizes[axis + 1..].iter().product::<usize>());
    if let Some(id) = ids.iter().find(|id| **id as usize >= count) {
        panic!("entry {id} of a dimension with {count}: ids count from 0");
    }
    sizes[axis] = ids.len();
    let ids = ids.to_vec();
    let chosen = ids.clone();
    tape.record(
        Shape::new(&sizes),
        &[x],
        move |values, out| {
            let x = values.slice(x);
            each(&chosen, count, width, out.len(), |to, from| {
                out[to..to + width].copy_from_slice(&x[from..from + width]);
            });
        },
        move |up, gradients| {
            gradients.scatter(x, |place| {
                each(&ids, count, width, up.gradient.len(), |to, from| {
                    let above = &up.gradient[to..to + width];
                    for (place, above) in place[from..from + width].iter_mut().zip(above) {
                        *place += *above;
                    }
                });
            });
        },
    )
}

/// Calls `visit` with the first place of every run of `width` values, chosen and original.
fn each(
    ids: &[u32],
    count: usize,
    width: usize,
    total: usize,
    mut visit: impl FnMut(usize, usize),
) {
    let outer = total.checked_div(ids.len() * width).unwrap_or(0);
    for block in 0..outer {
        for (number, id) in ids.iter().enumerate() {
            let to = (block * ids.len() + number) * width;
            visit(to, (block * count + *id as usize) * width);
        }
    }
}
