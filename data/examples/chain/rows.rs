//! Rows for the models that take no digits: made here, so that a target needs no file.

use std::sync::Arc;

use resilin_core::random::{Key, Purpose};
use resilin_data::Table;
use resilin_learn::dataset::{DataError, Split};

/// Bytes of a row of text.
const CONTEXT: usize = 16;

/// Any text will do: the source of this file.
const TEXT: &[u8] = include_bytes!("rows.rs");

/// Runs of bytes, each with the byte that follows as its class.
pub(crate) fn letters() -> Result<Split, DataError> {
    let rows = TEXT.windows(CONTEXT + 1).step_by(CONTEXT);
    let (mut values, mut classes) = (Vec::new(), Vec::new());
    for row in rows {
        let (bytes, next) = row.split_at(CONTEXT);
        values.extend(bytes.iter().copied().map(f32::from));
        classes.push(u32::from(next[0]));
    }
    split(Table::of_classes("letters", CONTEXT, values, classes)?)
}

/// Pairs of ids, below 40 and below 60, with a class that depends on both.
pub(crate) fn ids() -> Result<Split, DataError> {
    let mut draws = Key::new(1, Purpose::Synthetic).stream();
    let (mut values, mut classes) = (Vec::new(), Vec::new());
    for _ in 0..400 {
        let (left, right) = (draws.below(40), draws.below(60));
        values.extend([left as f32, right as f32]);
        classes.push(u32::from(left % 3 == right % 3));
    }
    split(Table::of_classes("ids", 2, values, classes)?)
}

fn split(table: Table) -> Result<Split, DataError> {
    Ok(Split {
        train: Arc::new(table),
        test: None,
    })
}
