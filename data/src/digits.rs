//! The embedded UCI optical digits: 1,797 images of 8 x 8, ten classes, so that a first run needs no
//! file. Values 0..16 are divided by 16.

use std::path::PathBuf;

use resilin_learn::dataset::{DataError, Split};

use crate::csv::{Config, Header, Reading};
use crate::input::Input;
use crate::labels::{ClassRule, Target};
use crate::split::{Holdout, cut};
use crate::table::Origin;

const FILE: &str = "digits.csv.gz";
const BYTES: &[u8] = include_bytes!("../assets/digits.csv.gz");
const LARGEST_VALUE: f32 = 16.0;
const CLASSES: u32 = 10;

/// Reads the digits and holds test rows out.
///
/// # Errors
/// None in practice: the bytes are part of the program.
pub fn load(holdout: Holdout) -> Result<Split, DataError> {
    let config = Config {
        header: Header::No,
        target: Target::Class(ClassRule {
            classes: Some(CLASSES),
            labels: None,
        }),
        ..Config::new(PathBuf::from(FILE))
    };
    let mut reading = Reading::new(&config, &config.target)?;
    reading.file(Input::embedded(FILE, BYTES)?)?;
    let mut loaded = reading.finish(&config.path)?;
    loaded.rows.divide(LARGEST_VALUE, &config.path)?;
    let origin = Origin {
        source: "digits".into(),
        files: loaded.files,
        missing: config.missing.name().into(),
    };
    let ids = holdout.ids(loaded.rows.count());
    cut(origin, loaded.rows, loaded.kind, ids)
}
