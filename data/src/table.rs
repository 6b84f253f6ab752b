//! Rows in memory, and a choice of them. The digest says what is trained on, not how it was stored.

use std::sync::Arc;

use resilin_learn::dataset::{
    Batch, DataError, Dataset, Manifest, SourceFile, TargetKind, Targets,
};
use sha2::{Digest, Sha256};

use crate::input::hex;
use crate::rows::Rows;

/// Where rows came from and how they were treated: the part of a manifest that is not counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The source's name in the job file.
    pub source: String,
    /// The files in the order of their rows.
    pub files: Vec<SourceFile>,
    /// Policy for missing values, as in the job file.
    pub missing: String,
}

/// All rows of a source, row-major.
#[derive(Clone, Debug)]
pub struct Table {
    manifest: Manifest,
    values: Vec<f32>,
    targets: Targets,
}

impl Table {
    /// A table of rows that are complete and checked: finite values, classes below the count.
    ///
    /// # Errors
    /// No rows, no columns, or more than 2^32 - 1 rows or columns.
    pub fn new(origin: Origin, rows: Rows, kind: TargetKind) -> Result<Self, DataError> {
        let count = rows.count();
        assert_eq!(rows.values.len(), count * rows.width, "rows x width values");
        assert!(
            rows.values.iter().all(|value| value.is_finite()),
            "readers refuse what is not finite"
        );
        assert_fits(&rows.targets, kind);
        if count == 0 || rows.width == 0 {
            return Err(DataError(format!(
                "{} holds {count} rows of {} values: give at least one of each",
                described(&origin),
                rows.width
            )));
        }
        let (Ok(_), Ok(width)) = (u32::try_from(count), u32::try_from(rows.width)) else {
            return Err(DataError(format!(
                "{} has {count} rows of {} values: both must stay below 2^32",
                described(&origin),
                rows.width
            )));
        };
        let mut table = Self {
            manifest: Manifest {
                source: origin.source,
                files: origin.files,
                rows: count as u64,
                width,
                targets: kind,
                missing: origin.missing,
                digest: String::new(),
            },
            values: rows.values,
            targets: rows.targets,
        };
        table.manifest.digest = table.digest_of(0..count);
        Ok(table)
    }

    /// SHA-256 in hex over, little-endian: rows u64, width u32, kind u32 (0 classes, 1 values),
    /// classes or target width u32, then for each row its values as f32 and its class as u32 or
    /// its target values as f32.
    fn digest_of(&self, rows: impl ExactSizeIterator<Item = usize>) -> String {
        let (kind, count) = match self.manifest.targets {
            TargetKind::Classes(count) => (0u32, count),
            TargetKind::Values(width) => (1, width),
        };
        let mut hash = Sha256::new();
        hash.update((rows.len() as u64).to_le_bytes());
        for number in [self.manifest.width, kind, count] {
            hash.update(number.to_le_bytes());
        }
        let mut bytes = Vec::new();
        for row in rows {
            bytes.clear();
            self.row(row)
                .iter()
                .for_each(|value| bytes.extend_from_slice(&value.to_le_bytes()));
            match &self.targets {
                Targets::Classes(classes) => bytes.extend_from_slice(&classes[row].to_le_bytes()),
                Targets::Values { width, values } => values[row * width..(row + 1) * width]
                    .iter()
                    .for_each(|value| bytes.extend_from_slice(&value.to_le_bytes())),
            }
            hash.update(&bytes);
        }
        hex(&hash.finalize())
    }

    fn row(&self, row: usize) -> &[f32] {
        let width = self.manifest.width as usize;
        &self.values[row * width..(row + 1) * width]
    }

    /// Replaces the batch by these rows of the table, each of which exists.
    fn copy(&self, rows: impl Iterator<Item = usize> + Clone, batch: &mut Batch) {
        batch.width = self.manifest.width as usize;
        batch.features.clear();
        for row in rows.clone() {
            batch.features.extend_from_slice(self.row(row));
        }
        match &self.targets {
            Targets::Classes(classes) => {
                let mut out = match std::mem::take(&mut batch.targets) {
                    Targets::Classes(out) => out,
                    Targets::Values { .. } => Vec::new(),
                };
                out.clear();
                out.extend(rows.map(|row| classes[row]));
                batch.rows = out.len();
                batch.targets = Targets::Classes(out);
            }
            Targets::Values { width, values } => {
                let mut out = match std::mem::take(&mut batch.targets) {
                    Targets::Values { values, .. } => values,
                    Targets::Classes(_) => Vec::new(),
                };
                out.clear();
                batch.rows = 0;
                for row in rows {
                    out.extend_from_slice(&values[row * width..(row + 1) * width]);
                    batch.rows += 1;
                }
                batch.targets = Targets::Values {
                    width: *width,
                    values: out,
                };
            }
        }
    }
}

impl Dataset for Table {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn read(&self, rows: &[u32], batch: &mut Batch) -> Result<(), DataError> {
        check_ids(rows, self.manifest.rows)?;
        self.copy(rows.iter().map(|id| *id as usize), batch);
        Ok(())
    }
}

/// Some rows of a table, numbered anew from 0, with a digest of their own.
#[derive(Clone, Debug)]
pub struct Subset {
    table: Arc<Table>,
    ids: Vec<u32>,
    manifest: Manifest,
}

impl Subset {
    /// The rows of `table` with these ids, in this order.
    ///
    /// # Errors
    /// An id that the table does not have.
    pub fn new(table: Arc<Table>, ids: Vec<u32>) -> Result<Self, DataError> {
        check_ids(&ids, table.manifest.rows)?;
        let manifest = Manifest {
            rows: ids.len() as u64,
            digest: table.digest_of(ids.iter().map(|id| *id as usize)),
            ..table.manifest.clone()
        };
        Ok(Self {
            table,
            ids,
            manifest,
        })
    }
}

impl Dataset for Subset {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn read(&self, rows: &[u32], batch: &mut Batch) -> Result<(), DataError> {
        check_ids(rows, self.manifest.rows)?;
        let ids = rows.iter().map(|id| self.ids[*id as usize] as usize);
        self.table.copy(ids, batch);
        Ok(())
    }
}

fn check_ids(ids: &[u32], rows: u64) -> Result<(), DataError> {
    match ids.iter().find(|id| u64::from(**id) >= rows) {
        Some(id) => Err(DataError(format!(
            "row {id} was asked for, but there are {rows} rows"
        ))),
        None => Ok(()),
    }
}

fn assert_fits(targets: &Targets, kind: TargetKind) {
    match (targets, kind) {
        (Targets::Classes(classes), TargetKind::Classes(count)) => {
            assert!(
                classes.iter().all(|class| *class < count),
                "readers refuse other classes"
            );
        }
        (Targets::Values { width, values }, TargetKind::Values(expected)) => {
            assert_eq!(*width, expected as usize, "values a target");
            assert!(
                values.iter().all(|value| value.is_finite()),
                "readers refuse these"
            );
        }
        (Targets::Classes(_), TargetKind::Values(_))
        | (Targets::Values { .. }, TargetKind::Classes(_)) => {
            panic!("a reader made targets of another kind than it declared")
        }
    }
}

fn described(origin: &Origin) -> String {
    let names: Vec<&str> = origin.files.iter().map(|file| file.name.as_str()).collect();
    match names.len() {
        0 => format!("source {}", origin.source),
        1..=3 => names.join(", "),
        count => format!("{} and {} more files", names[0], count - 1),
    }
}
