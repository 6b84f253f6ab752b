//! Rows that are computed and in no file: points in a cube, each with the class that a linear
//! teacher gives it. Row `n` is a function of the seed and of `n`, so that every process has the
//! same ones and a million of them cost no memory.

use std::sync::Arc;

use resilin_core::random::{Key, Purpose};
use resilin_learn::dataset::{Batch, DataError, Dataset, Manifest, Split, TargetKind, Targets};

/// Which rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Rows that are trained on: the rows `0..rows` of an endless sequence.
    pub rows: u32,
    /// Rows that are only evaluated: those that follow.
    pub test_rows: u32,
    /// Values in a row, uniform in [-1, 1).
    pub width: u32,
    /// Classes; at least one.
    pub classes: u32,
    /// Share of the rows whose class is drawn at random instead, in [0, 1].
    pub noise: f64,
    /// Seed of rows and teacher; not `run.seed`.
    pub seed: u64,
}

/// The computed rows.
#[must_use]
pub fn load(config: &Config) -> Split {
    let teacher = Arc::new(teacher(config));
    let rows = |first, count| {
        let rows: Arc<dyn Dataset> = Arc::new(Synthetic::new(config, &teacher, first, count));
        rows
    };
    Split {
        train: rows(0, config.rows),
        test: Some(rows(config.rows, config.test_rows)).filter(|_| config.test_rows > 0),
    }
}

/// `classes` x `width` normal weights.
fn teacher(config: &Config) -> Vec<f32> {
    let key = Key {
        clock: 1,
        ..Key::new(config.seed, Purpose::Synthetic)
    };
    let mut draws = key.stream();
    let count = config.classes as usize * config.width as usize;
    (0..count).map(|_| draws.normal() as f32).collect()
}

struct Synthetic {
    config: Config,
    teacher: Arc<Vec<f32>>,
    first: u32,
    manifest: Manifest,
}

impl Synthetic {
    fn new(config: &Config, teacher: &Arc<Vec<f32>>, first: u32, rows: u32) -> Self {
        let Config {
            width,
            classes,
            noise,
            seed,
            ..
        } = *config;
        Self {
            config: config.clone(),
            teacher: Arc::clone(teacher),
            first,
            manifest: Manifest {
                source: "synthetic".into(),
                files: Vec::new(),
                rows: rows.into(),
                width,
                targets: TargetKind::Classes(classes),
                missing: "refuse".into(),
                // What fixes the rows stands for a hash of them. The version is raised when a
                // formula here changes.
                digest: format!(
                    "synthetic version 1, rows {first} and {rows} more, width {width}, \
                     classes {classes}, noise {noise:?}, seed {seed}"
                ),
            },
        }
    }

    /// Appends the values of a row of the sequence; its class.
    fn row(&self, number: u32, features: &mut Vec<f32>) -> u32 {
        let key = Key {
            index: number,
            ..Key::new(self.config.seed, Purpose::Synthetic)
        };
        let mut draws = key.stream();
        let begin = features.len();
        features.extend((0..self.config.width).map(|_| 2.0 * draws.unit_f32() - 1.0));
        if draws.unit_f64() < self.config.noise {
            return draws.below(self.config.classes);
        }
        self.taught(&features[begin..])
    }

    /// The class whose weights have the largest product with the row; the first of equal ones.
    fn taught(&self, row: &[f32]) -> u32 {
        let mut best = (0, f32::NEG_INFINITY);
        for (class, weights) in (0..).zip(self.teacher.chunks_exact(row.len())) {
            let mut product = 0.0_f32;
            for (value, weight) in row.iter().zip(weights) {
                // Two roundings: a fused one is another value on another machine.
                let term = value * weight;
                product += term;
            }
            if product > best.1 {
                best = (class, product);
            }
        }
        best.0
    }
}

impl Dataset for Synthetic {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn read(&self, rows: &[u32], batch: &mut Batch) -> Result<(), DataError> {
        let count = self.manifest.rows;
        if let Some(row) = rows.iter().find(|row| u64::from(**row) >= count) {
            return Err(DataError(format!(
                "row {row} was asked for, but there are {count}"
            )));
        }
        batch.features.clear();
        let mut classes = match std::mem::take(&mut batch.targets) {
            Targets::Classes(classes) => classes,
            Targets::Values { .. } => Vec::new(),
        };
        classes.clear();
        for row in rows {
            classes.push(self.row(self.first + row, &mut batch.features));
        }
        (batch.rows, batch.width) = (rows.len(), self.config.width as usize);
        batch.targets = Targets::Classes(classes);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: Config = Config {
        rows: 1000,
        test_rows: 500,
        width: 3,
        classes: 4,
        noise: 0.0,
        seed: 7,
    };

    fn read(rows: &Arc<dyn Dataset>, ids: &[u32]) -> Batch {
        let mut batch = Batch::default();
        rows.read(ids, &mut batch).expect("rows that exist");
        batch
    }

    #[test]
    fn a_row_is_a_function_of_seed_and_number() {
        let split = load(&CONFIG);
        let both = read(&split.train, &[17, 3]);
        let one = read(&load(&CONFIG).train, &[3]);
        assert_eq!(both.features[3..], one.features);
        let longer = Config {
            rows: 1200,
            ..CONFIG
        };
        let test = split.test.expect("there are test rows");
        assert_eq!(read(&test, &[5]), read(&load(&longer).train, &[1005]));
        let other = Config { seed: 8, ..CONFIG };
        assert_ne!(read(&load(&other).train, &[3]).features, one.features);
    }

    #[test]
    fn values_and_classes_are_as_described() {
        let ids: Vec<u32> = (0..CONFIG.rows).collect();
        let batch = read(&load(&CONFIG).train, &ids);
        assert!(batch.features.iter().all(|x| (-1.0..1.0).contains(x)));
        let mean = batch.features.iter().sum::<f32>() / batch.features.len() as f32;
        assert!(mean.abs() < 0.05, "{mean}");
        let noisy = Config {
            noise: 0.5,
            ..CONFIG
        };
        let drawn = read(&load(&noisy).train, &ids);
        assert_eq!(drawn.features, batch.features);
        let (Targets::Classes(taught), Targets::Classes(drawn)) = (&batch.targets, &drawn.targets)
        else {
            panic!("classes")
        };
        for class in 0..4 {
            assert!(taught.contains(&class), "nobody has class {class}");
        }
        // Half of them are drawn, and a quarter of those get the old class.
        let changed = taught.iter().zip(drawn).filter(|(a, b)| a != b).count();
        assert!((300..450).contains(&changed), "{changed}");
    }
}
