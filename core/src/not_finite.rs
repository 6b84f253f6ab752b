//! What to do about values that are not finite: at the first step it is no learning rate that made
//! them.

use crate::id::{PartitionId, Step};
use crate::sampling::Sampling;

/// What is not finite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The gradient of a partition.
    Leaf(PartitionId),
    /// Only the sum of them.
    Sum,
    /// A weight that the update made.
    Update,
}

/// Rows that are named; the others are counted.
const NAMED: usize = 6;

/// Training rows beyond which none is named: their order alone would take seconds to make.
const MOST_ROWS: u64 = 1 << 24;

/// The remedy, as the end of an error.
#[must_use]
pub fn remedy(step: Step, found: Found, sampling: &Sampling) -> String {
    let rows = match (step, found) {
        (Step(0), Found::Leaf(partition)) => rows(step, partition, sampling),
        (Step(0), Found::Sum) => None,
        // Such a step is not skipped: its gradient was finite.
        (_, Found::Update) => return "lower learning_rate or set clip_norm".into(),
        (Step(1..), _) => {
            return "lower learning_rate, set clip_norm, or set non_finite = \"skip\"".into();
        }
    };
    let of = rows.map_or_else(String::new, |rows| format!(" on {rows}"));
    format!(
        "the model gives it with its first weights{of}: look for values of the rows that are too \
         large, a log of 0 or a division by 0, or set non_finite = \"skip\""
    )
}

/// The rows of a partition at a step.
fn rows(step: Step, partition: PartitionId, sampling: &Sampling) -> Option<String> {
    if sampling.rows() > MOST_ROWS {
        return None;
    }
    let order = sampling.order(sampling.position(step).epoch);
    let positions = sampling.positions(step, partition);
    let rows = order.get(positions.start as usize..positions.end as usize)?;
    let mut named: Vec<String> = rows.iter().take(NAMED).map(u32::to_string).collect();
    match rows.len() {
        0 => return None,
        1..=NAMED => {}
        all => named.push(format!("{} more", all - NAMED)),
    }
    let last = named.pop().expect("there is one");
    Some(match named.is_empty() {
        true => format!("training row {last} (from 0)"),
        false => format!("training rows {} and {last} (from 0)", named.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::Shuffle;

    #[test]
    fn only_at_the_first_step_is_it_the_model() {
        let sampling = |microbatch| Sampling::new(40, 2, microbatch, Shuffle::None, 1);
        let of = |step, found, microbatch| remedy(Step(step), found, &sampling(microbatch));
        let rate = "lower learning_rate, set clip_norm, or set non_finite = \"skip\"";
        let model = |on: &str| {
            format!(
                "the model gives it with its first weights{on}: look for values of the rows that \
                 are too large, a log of 0 or a division by 0, or set non_finite = \"skip\""
            )
        };
        let leaf = Found::Leaf(PartitionId(1));
        assert_eq!(of(1, leaf, 8), rate);
        let update = "lower learning_rate or set clip_norm";
        assert_eq!(of(0, Found::Update, 8), update);
        assert_eq!(of(7, Found::Update, 8), update);
        assert_eq!(of(0, Found::Sum, 8), model(""));
        assert_eq!(of(0, leaf, 1), model(" on training row 20 (from 0)"));
        assert_eq!(
            of(0, leaf, 3),
            model(" on training rows 20, 21 and 22 (from 0)")
        );
        assert_eq!(
            of(0, leaf, 8),
            model(" on training rows 20, 21, 22, 23, 24, 25 and 2 more (from 0)")
        );
    }
}
