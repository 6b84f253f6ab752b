//! Rows that are somewhere else: only their numbers are here. A model that has the rows itself, as an
//! outside command may, is given the number of each.

use std::sync::Arc;

use resilin_learn::dataset::{Batch, DataError, Dataset, Manifest, Split, TargetKind, Targets};

/// How many rows there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Rows that are trained on; they have the numbers `0..rows`.
    pub rows: u32,
    /// Rows that are only evaluated, with the numbers after those.
    pub test_rows: u32,
    /// What the rows are: another text means other rows.
    pub version: String,
}

/// The numbers as rows without values, each with its number as its class.
#[must_use]
pub fn load(config: &Config) -> Split {
    let train: Arc<dyn Dataset> = Arc::new(Numbers::new(config, 0, config.rows));
    let test: Arc<dyn Dataset> = Arc::new(Numbers::new(config, config.rows, config.test_rows));
    Split {
        train,
        test: Some(test).filter(|_| config.test_rows > 0),
    }
}

struct Numbers {
    first: u32,
    manifest: Manifest,
}

impl Numbers {
    fn new(config: &Config, first: u32, rows: u32) -> Self {
        let Config { version, .. } = config;
        Self {
            first,
            manifest: Manifest {
                source: "numbers".into(),
                files: Vec::new(),
                rows: rows.into(),
                width: 0,
                targets: TargetKind::Classes(config.rows + config.test_rows),
                missing: "refuse".into(),
                digest: format!("numbers {first} and {rows} more, version {version:?}"),
            },
        }
    }
}

impl Dataset for Numbers {
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
        (batch.rows, batch.width) = (rows.len(), 0);
        batch.targets = Targets::Classes(rows.iter().map(|row| self.first + row).collect());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_rows_have_the_numbers_after_the_others() {
        let config = Config {
            rows: 5,
            test_rows: 3,
            version: "1".into(),
        };
        let split = load(&config);
        let mut batch = Batch::default();
        let mut read = |rows: &Arc<dyn Dataset>, ids: &[u32]| {
            let done = rows
                .read(ids, &mut batch)
                .map_err(|error| error.to_string());
            done.map(|()| (batch.rows, batch.width, batch.targets.clone()))
        };
        let test = split.test.expect("there are test rows");
        assert_eq!(
            read(&split.train, &[4, 0]),
            Ok((2, 0, Targets::Classes(vec![4, 0])))
        );
        assert_eq!(read(&test, &[2]), Ok((1, 0, Targets::Classes(vec![7]))));
        assert_eq!(
            read(&test, &[3]),
            Err("row 3 was asked for, but there are 3".into())
        );
        let none = Config {
            test_rows: 0,
            ..config.clone()
        };
        assert!(load(&none).test.is_none());
        let other = Config {
            version: "2".into(),
            ..config
        };
        let digest = |config| load(config).train.manifest().digest.clone();
        assert_ne!(digest(&other), split.train.manifest().digest);
    }
}
