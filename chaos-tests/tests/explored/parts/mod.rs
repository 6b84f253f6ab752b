//! The processes: a machine each, with what its shell would carry out at once.

mod center;
mod member;
mod slice;

use resilin_core::{Incarnation, Timeline};

pub(crate) use center::Center;
pub(crate) use member::Member;
pub(crate) use slice::Slice;

const REIGN: u64 = 7;
const ROWS: &str = "rows";

fn timeline() -> Timeline {
    Timeline::first(REIGN)
}

/// A worker's number; no life follows another here.
fn incarnation(worker: u8) -> Incarnation {
    let number = u32::from(worker) + 1;
    Incarnation {
        reign: REIGN,
        number,
    }
}

fn worker_of(incarnation: Incarnation) -> u8 {
    (incarnation.number - 1) as u8
}
