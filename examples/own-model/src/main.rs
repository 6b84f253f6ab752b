//! A full `resilin` with two names more: rows that are computed, `[data] name = "spirals"`, and a
//! model with a loss of its own, `[model] name = "smoothed"`.
//!
//! `cargo run --release -p own-model -- train examples/own-model/spirals.toml` trains it; all other
//! commands and job files work as with `resilin` itself.

mod smoothed;
mod spirals;

use std::process::ExitCode;
use std::sync::Arc;

use resilin::{Dataset, JobError, Key, Manifest, Model, Registry, Section, Split};

use smoothed::Smoothed;
use spirals::Spirals;

const ROWS: Key = Key::bits(
    "rows",
    "rows",
    "Training rows; a quarter as many more are test rows.",
);
const NOISE: Key = Key::bits(
    "noise",
    "",
    "Standard deviation of what is added to each coordinate.",
);
const UNITS: Key = Key::bits("units", "units", "Width of both hidden layers.");
const SMOOTHING: Key = Key::bits(
    "smoothing",
    "",
    "Share of each target that goes to all classes.",
);

fn main() -> ExitCode {
    let registry = Registry::default()
        .data("spirals", |section, _| spirals(section))
        .model("smoothed", smoothed);
    resilin::main(registry)
}

fn spirals(section: &mut Section<'_>) -> Result<Split, JobError> {
    let rows = section.unsigned(&ROWS, Some(1200), 1..=1 << 24)?;
    let noise = section.float(&NOISE, Some(0.05), 0.0..=1.0)?;
    let rows = u32::try_from(rows).expect("at most 2^24");
    let train: Arc<dyn Dataset> = Arc::new(Spirals::new(0..rows, noise));
    let test: Arc<dyn Dataset> = Arc::new(Spirals::new(rows..rows + rows / 4, noise));
    Ok(Split {
        train,
        test: Some(test).filter(|_| rows >= 4),
    })
}

fn smoothed(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let units = section.unsigned(&UNITS, Some(32), 1..=4096)?;
    let smoothing = section.float(&SMOOTHING, Some(0.1), 0.0..=0.9)?;
    let config = Smoothed {
        width: data.width as usize,
        units: usize::try_from(units).expect("at most 4096"),
        smoothing: smoothing as f32,
    };
    Ok(Box::new(config.model(data.targets)?))
}
