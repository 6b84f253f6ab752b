//! Numbers that JSON has no word for: it says `null` for what is not finite, which is read as NaN.

use serde::{Deserialize, Deserializer};

use crate::message::PARTS;

pub(crate) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(or_nan(Option::deserialize(deserializer)?))
}

pub(crate) fn read_parts<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<[f64; PARTS], D::Error> {
    Ok(<[Option<f64>; PARTS]>::deserialize(deserializer)?.map(or_nan))
}

fn or_nan(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}
