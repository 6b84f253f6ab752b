//! Rows that no file holds: three interleaved spirals in the plane. Row `n` is a function of `n`
//! alone, so every worker computes the same ones.

use std::f64::consts::TAU;
use std::ops::Range;

use resilin::dataset::{Batch, DataError, Targets};
use resilin::random::{Key, Purpose};
use resilin::{Dataset, Manifest, TargetKind};

/// Arms of the figure, one class each.
pub(crate) const ARMS: u32 = 3;

/// A range of the endless rows.
pub(crate) struct Spirals {
    rows: Range<u32>,
    noise: f64,
    manifest: Manifest,
}

impl Spirals {
    /// The rows with these numbers; `noise` is the standard deviation of each coordinate.
    pub(crate) fn new(rows: Range<u32>, noise: f64) -> Self {
        let manifest = Manifest {
            source: "spirals".into(),
            files: Vec::new(),
            rows: u64::from(rows.end - rows.start),
            width: 2,
            targets: TargetKind::Classes(ARMS),
            missing: "refuse".into(),
            // Computed rows need no hash of their values: whatever fixes them will do. The version
            // is raised when the formula below changes.
            digest: format!("spirals version 1, rows {rows:?}, noise {noise:?}"),
        };
        Self {
            rows,
            noise,
            manifest,
        }
    }

    /// Coordinates and arm of the row with this number in the endless rows.
    fn row(&self, number: u32) -> ([f32; 2], u32) {
        let key = Key {
            index: number,
            ..Key::new(0, Purpose::Synthetic)
        };
        let mut draws = key.stream();
        let arm = draws.below(ARMS);
        // Nearer to the centre, where the arms meet, nobody could tell them apart.
        let along = 0.2 + 0.8 * draws.unit_f64();
        let angle = TAU * (along + f64::from(arm) / f64::from(ARMS));
        // The functions of `libm` give the same bits on every machine; those of `std` need not.
        let x = along * libm::cos(angle) + self.noise * draws.normal();
        let y = along * libm::sin(angle) + self.noise * draws.normal();
        ([x as f32, y as f32], arm)
    }
}

impl Dataset for Spirals {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn read(&self, rows: &[u32], batch: &mut Batch) -> Result<(), DataError> {
        let mut arms = match std::mem::take(&mut batch.targets) {
            Targets::Classes(arms) => arms,
            Targets::Values { .. } => Vec::new(),
        };
        arms.clear();
        batch.features.clear();
        for row in rows {
            if u64::from(*row) >= self.manifest.rows {
                return Err(DataError(format!(
                    "row {row} was asked for, but there are {}",
                    self.manifest.rows
                )));
            }
            let (point, arm) = self.row(self.rows.start + row);
            batch.features.extend(point);
            arms.push(arm);
        }
        batch.rows = rows.len();
        batch.width = 2;
        batch.targets = Targets::Classes(arms);
        Ok(())
    }
}
