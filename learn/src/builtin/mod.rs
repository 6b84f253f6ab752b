//! The models, optimizers and schedules that every program has, and the keys that describe them.

mod losses;
mod models;
mod optimizers;
mod schedules;

use crate::registry::Registry;

/// The largest number that a decay below 1 may be.
const BELOW_ONE: f64 = 1.0 - f64::EPSILON;

pub(crate) fn register(registry: Registry) -> Registry {
    schedules::register(optimizers::register(models::register(registry)))
}
