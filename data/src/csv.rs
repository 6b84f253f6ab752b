//! Comma-separated rows: one file, or a directory of parts.
//!
//! Every cell that is used must be a number; a cell's kind is never guessed from earlier rows.

mod columns;
mod missing;
pub(crate) mod records;

use std::path::{Path, PathBuf};

use ::csv::StringRecord;
use resilin_learn::dataset::{DataError, SourceFile, Split, TargetKind};

use crate::input::{Input, parts};
use crate::labels::{ClassRule, Reader, Target, with_classes};
use crate::number::{self, Cell};
use crate::rows::Rows;
use crate::split::{Holdout, cut, pair};
use crate::table::Origin;
pub use columns::Column;
use columns::Columns;
use records::Records;

/// Whether files begin with a line of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The first line of every file is names.
    Yes,
    /// Every line is a row.
    No,
    /// A first line is names when it holds text and no number.
    Auto,
}

/// What becomes of a missing cell. Never is it read as 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The file is refused.
    Refuse,
    /// Its row is left out.
    Drop,
    /// The mean of its column over the training rows; a missing target is refused.
    Mean,
}

impl Missing {
    /// The name in the job file.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Drop => "drop",
            Self::Mean => "mean",
        }
    }
}

/// Which rows to read, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// File or directory of parts.
    pub path: PathBuf,
    /// Test rows; `None`: held out from `path`.
    pub test_path: Option<PathBuf>,
    /// Lines that every file begins with and that are no part of the table; whatever they hold.
    pub skip_rows: u64,
    /// How to tell names from rows.
    pub header: Header,
    /// Between fields.
    pub delimiter: u8,
    /// Column of the target.
    pub target_column: Column,
    /// Feature columns in order; `None`: all but the target.
    pub columns: Option<Vec<Column>>,
    /// What the target column holds.
    pub target: Target,
    /// Policy for missing cells.
    pub missing: Missing,
    /// Every feature is divided by it.
    pub scale: f32,
    /// The held-out rows, without `test_path`.
    pub holdout: Holdout,
}

impl Config {
    /// Classes in the last column of a comma-separated file, everything else at its default.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            test_path: None,
            skip_rows: 0,
            header: Header::Auto,
            delimiter: b',',
            target_column: Column::Last,
            columns: None,
            target: Target::Class(ClassRule::default()),
            missing: Missing::Refuse,
            scale: 1.0,
            holdout: Holdout::default(),
        }
    }
}

/// What was read from one path, before missing cells are filled.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) rows: Rows,
    pub(crate) kind: TargetKind,
    pub(crate) files: Vec<SourceFile>,
    pub(crate) names: Vec<String>,
    pub(crate) missing_cells: u64,
    pub(crate) dropped_rows: u64,
}

/// Reads training and test rows.
///
/// # Errors
/// A file that is missing, damaged or empty, or a cell that is no finite number or no class.
pub fn load(config: &Config) -> Result<Split, DataError> {
    let mut train = read(config, &config.path, &config.target)?;
    let origin = |files| Origin {
        source: "csv".into(),
        files,
        missing: config.missing.name().into(),
    };
    let Some(test_path) = &config.test_path else {
        let ids = config.holdout.ids(train.rows.count());
        let means = missing::Means::of(&train.rows, &ids.train);
        means.fill(&mut train.rows, &train.names, &config.path)?;
        train.rows.divide(config.scale, &config.path)?;
        return cut(origin(train.files), train.rows, train.kind, ids);
    };
    let mut test = read(config, test_path, &with_classes(&config.target, train.kind))?;
    if test.rows.count() > 0 && test.names != train.names {
        return Err(DataError(format!(
            "{} has the columns {:?}, {} has {:?}: give both the same",
            config.path.display(),
            train.names,
            test_path.display(),
            test.names
        )));
    }
    let all: Vec<u32> = (0..train.rows.count() as u32).collect();
    let means = missing::Means::of(&train.rows, &all);
    for (side, path) in [(&mut train, &config.path), (&mut test, test_path)] {
        means.fill(&mut side.rows, &side.names, path)?;
        side.rows.divide(config.scale, path)?;
    }
    let test = (origin(test.files), test.rows);
    pair((origin(train.files), train.rows), test, train.kind)
}

/// Reads all parts of a path.
pub(crate) fn read(config: &Config, path: &Path, target: &Target) -> Result<Loaded, DataError> {
    let mut reading = Reading::new(config, target)?;
    for part in parts(path)? {
        reading.file(Input::open(&part)?)?;
    }
    let loaded = reading.finish(path)?;
    tracing::info!(
        path = %path.display(),
        files = loaded.files.len(),
        rows = loaded.rows.count(),
        width = loaded.rows.width,
        missing = config.missing.name(),
        missing_cells = loaded.missing_cells,
        dropped_rows = loaded.dropped_rows,
        "csv read"
    );
    Ok(loaded)
}

/// Rows of the files so far.
pub(crate) struct Reading<'a> {
    config: &'a Config,
    columns: Option<Columns>,
    values: Vec<f32>,
    targets: Reader<'a>,
    files: Vec<SourceFile>,
    rows: u64,
    missing_cells: u64,
    dropped_rows: u64,
}

impl<'a> Reading<'a> {
    pub(crate) fn new(config: &'a Config, target: &'a Target) -> Result<Self, DataError> {
        Ok(Self {
            config,
            columns: None,
            values: Vec::new(),
            targets: Reader::new(target)?,
            files: Vec::new(),
            rows: 0,
            missing_cells: 0,
            dropped_rows: 0,
        })
    }

    pub(crate) fn file(&mut self, input: Input) -> Result<(), DataError> {
        let mut records = Records::new(input, self.config.delimiter, self.config.skip_rows)?;
        let mut record = StringRecord::new();
        let mut row_of_file = 0;
        let mut first = true;
        while let Some(line) = records.next(&mut record)? {
            let place = format!("{}, line {line}", records.path());
            let is_header = first && self.header(&record, &place)?;
            first = false;
            if !is_header {
                row_of_file += 1;
                self.row(&record, &format!("{place} (row {row_of_file})"))?;
            }
        }
        self.files.push(records.into_input().finish()?);
        Ok(())
    }

    /// Whether a file's first record is names; sets the columns, or holds the names against them.
    fn header(&mut self, record: &StringRecord, place: &str) -> Result<bool, DataError> {
        let is_header = match self.config.header {
            Header::Yes => true,
            Header::No => false,
            Header::Auto => columns::looks_like_names(record),
        };
        match &self.columns {
            None => self.columns = Some(Columns::new(self.config, record, is_header, place)?),
            Some(columns) if is_header => columns.same_names(record, place)?,
            Some(_) => {}
        }
        Ok(is_header)
    }

    fn row(&mut self, record: &StringRecord, place: &str) -> Result<(), DataError> {
        let columns = self.columns.as_ref().expect("set by the first record");
        if record.len() != columns.all() {
            return Err(DataError(format!(
                "{place}: {} columns, but {} before: make all rows equally wide",
                record.len(),
                columns.all()
            )));
        }
        let start = self.values.len();
        let mut absent = 0;
        for index in columns.features() {
            let text = &record[*index];
            let value = match number::cell(text) {
                Cell::Number(value) => value,
                Cell::Missing if self.config.missing != Missing::Refuse => {
                    absent += 1;
                    f32::NAN
                }
                other @ (Cell::Missing | Cell::TooLarge | Cell::Text) => {
                    let complaint = number::complaint(text, other);
                    let hint = match other {
                        Cell::Missing => ", or set missing = \"drop\" or \"mean\"",
                        Cell::Text => columns.hint(self.rows),
                        Cell::TooLarge | Cell::Number(_) => "",
                    };
                    let name = columns.name(*index);
                    return Err(DataError(format!(
                        "{place}, column {name}: {complaint}{hint}"
                    )));
                }
            };
            self.values.push(value);
        }
        let target = &record[columns.target()];
        let no_target =
            number::cell(target) == Cell::Missing && !columns::lists(self.config, target);
        self.missing_cells += absent + u64::from(no_target);
        if self.config.missing == Missing::Drop && (absent > 0 || no_target) {
            self.values.truncate(start);
            self.dropped_rows += 1;
            return Ok(());
        }
        let place = || format!("{place}, column {}", columns.name(columns.target()));
        if no_target {
            return Err(DataError(format!(
                "{}: the target {} is missing: correct it, or set missing = \"drop\"",
                place(),
                number::quoted(target)
            )));
        }
        self.targets.push(target, place)?;
        self.rows += 1;
        if self.rows >= u64::from(u32::MAX) {
            return Err(DataError("more than 2^32 - 2 rows: split the data".into()));
        }
        Ok(())
    }

    pub(crate) fn finish(self, path: &Path) -> Result<Loaded, DataError> {
        let names = self
            .columns
            .as_ref()
            .map(Columns::feature_names)
            .unwrap_or_default();
        let (targets, kind) = self.targets.finish(path)?;
        Ok(Loaded {
            rows: Rows {
                width: names.len(),
                values: self.values,
                targets,
            },
            kind,
            files: self.files,
            names,
            missing_cells: self.missing_cells,
            dropped_rows: self.dropped_rows,
        })
    }
}
