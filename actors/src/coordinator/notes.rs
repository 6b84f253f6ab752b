//! The story of a run in the log: one line for each fact.

use resilin_core::fact::{Dated, Weight};
use tracing::field::display;

/// Writes one line: the fact in words, with who, why and when as fields.
pub(super) fn tell(dated: &Dated) {
    let Dated {
        generation,
        step,
        fact,
        ..
    } = dated;
    let (cause, member, step) = (fact.cause(), fact.member().map(display), step.0);
    match fact.weight() {
        Weight::Usual => tracing::info!(cause, member, %generation, step, "{fact}"),
        Weight::Trouble => tracing::warn!(cause, member, %generation, step, "{fact}"),
    }
}
