//! Rows as the mathematics sees them; where they come from is the data crate's or the user's.

use std::ops::Range;
use std::sync::Arc;

use resilin_core::job::JobError;
use serde::{Deserialize, Serialize};

/// Dense rows with their targets. Buffers are reused: reading replaces the contents.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// Number of rows.
    pub rows: usize,
    /// Values in a row.
    pub width: usize,
    /// `rows * width` values, row-major.
    pub features: Vec<f32>,
    /// What the model shall predict.
    pub targets: Targets,
}

impl Batch {
    /// One class a row.
    ///
    /// # Panics
    /// If the rows have values to predict; a model's rows are checked before.
    #[must_use]
    pub fn classes(&self) -> &[u32] {
        match &self.targets {
            Targets::Classes(classes) => classes,
            Targets::Values { .. } => panic!("the rows have values to predict, no classes"),
        }
    }

    /// A copy of some of the rows.
    ///
    /// # Panics
    /// If there are not as many.
    #[must_use]
    pub fn rows(&self, rows: Range<usize>) -> Self {
        let part =
            |values: &[f32], width: usize| values[rows.start * width..rows.end * width].to_vec();
        let targets = match &self.targets {
            Targets::Classes(classes) => Targets::Classes(classes[rows.clone()].to_vec()),
            Targets::Values { width, values } => Targets::Values {
                width: *width,
                values: part(values, *width),
            },
        };
        Self {
            rows: rows.len(),
            width: self.width,
            features: part(&self.features, self.width),
            targets,
        }
    }
}

/// The targets of a batch.
#[derive(Clone, Debug, PartialEq)]
pub enum Targets {
    /// One class a row, each below the manifest's class count.
    Classes(Vec<u32>),
    /// `width` values a row, row-major.
    Values {
        /// Values in a row.
        width: usize,
        /// `rows * width` values.
        values: Vec<f32>,
    },
}

impl Default for Targets {
    fn default() -> Self {
        Self::Classes(Vec::new())
    }
}

/// What kind of target a data set has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// Classes `0..count`.
    Classes(u32),
    /// That many values a row.
    Values(u32),
}

/// One file that rows came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// Name without its folder.
    pub name: String,
    /// Bytes on disk.
    pub bytes: u64,
    /// SHA-256 of the bytes on disk, in hex.
    pub sha256: String,
}

/// What a data set is: computed once, kept in every checkpoint, compared by every worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// The source's name in the job file.
    pub source: String,
    /// Files in the order their rows come, sorted by bytes of their names.
    pub files: Vec<SourceFile>,
    /// Number of rows.
    pub rows: u64,
    /// Values in a row.
    pub width: u32,
    /// Classes or values.
    pub targets: TargetKind,
    /// Policy for missing values, as in the job file.
    pub missing: String,
    /// SHA-256 over every row's values and target as they are trained on, in hex.
    pub digest: String,
}

/// Why rows could not be read.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct DataError(pub String);

/// For `?` where rows are made for the section `[data]` of a job.
impl From<DataError> for JobError {
    fn from(error: DataError) -> Self {
        Self::of_section("data", error)
    }
}

/// Rows by number. A read is a pure function of the data set: every worker gets the same values.
pub trait Dataset: Send + Sync {
    /// What the data set is.
    fn manifest(&self) -> &Manifest;

    /// Replaces `batch` by the rows with these ids, in this order.
    ///
    /// # Errors
    /// An id out of range, or a source that fails; `batch` is then unspecified.
    fn read(&self, rows: &[u32], batch: &mut Batch) -> Result<(), DataError>;
}

/// Training rows and, where there are any, test rows.
#[derive(Clone)]
pub struct Split {
    /// Rows that are trained on.
    pub train: Arc<dyn Dataset>,
    /// Rows that are only evaluated.
    pub test: Option<Arc<dyn Dataset>>,
}

/// Rows that are known and not here: a process that only sums and updates never reads one.
struct Elsewhere(Manifest);

impl Dataset for Elsewhere {
    fn manifest(&self) -> &Manifest {
        &self.0
    }

    fn read(&self, _: &[u32], _: &mut Batch) -> Result<(), DataError> {
        let name = &self.0.source;
        Err(DataError(format!(
            "the rows of {name} are not in this process"
        )))
    }
}

impl Split {
    /// Rows to train on, and others to evaluate.
    pub fn new(train: impl Dataset + 'static, test: impl Dataset + 'static) -> Self {
        Self {
            train: Arc::new(train),
            test: Some(Arc::new(test)),
        }
    }

    /// What the rows are, training rows first: enough for a process that reads none. The files are
    /// left out.
    #[must_use]
    pub fn described(&self) -> Vec<Manifest> {
        let all = std::iter::once(&self.train).chain(&self.test);
        all.map(|rows| Manifest {
            files: Vec::new(),
            ..rows.manifest().clone()
        })
        .collect()
    }

    /// Rows that are in other processes; `None` if `described` does not come from a split.
    #[must_use]
    pub fn elsewhere(described: Vec<Manifest>) -> Option<Self> {
        let mut rows = described.into_iter();
        let elsewhere = |manifest| Arc::new(Elsewhere(manifest)) as Arc<dyn Dataset>;
        let (train, test) = (rows.next()?, rows.next());
        rows.next().is_none().then(|| Self {
            train: elsewhere(train),
            test: test.map(elsewhere),
        })
    }
}
