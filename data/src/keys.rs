//! Keys of `[data]` that several sources share.
//!
//! Paths are free: the manifest says what the rows are, wherever they lie. Everything that changes
//! values, targets or the split decides bits.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use resilin_core::job::{JobError, Key, Section};

use crate::csv::{Column, Header, Missing};
use crate::labels::{ClassRule, Target};
use crate::libsvm::Base;
use crate::split::Holdout;
use crate::synthetic;

pub(crate) const PATH: Key = Key::free(
    "path",
    "",
    "File or directory of the rows, relative to --data.",
);
const TEST_PATH: Key = Key::free(
    "test_path",
    "",
    "File or directory of the test rows; without it test_fraction of the rows is held out.",
);
pub(crate) const TRAIN_IMAGES: Key =
    Key::free("train_images", "", "IDX file of the training items.");
pub(crate) const TRAIN_LABELS: Key =
    Key::free("train_labels", "", "IDX file of the training targets.");
pub(crate) const TEST_IMAGES: Key = Key::free("test_images", "", "IDX file of the test items.");
pub(crate) const TEST_LABELS: Key = Key::free("test_labels", "", "IDX file of the test targets.");

const ROWS: Key = Key::bits("rows", "rows", "Training rows that the model has.");
const TEST_ROWS: Key = Key::bits(
    "test_rows",
    "rows",
    "Test rows that the model has, numbered after the training rows.",
);
const VERSION: Key = Key::bits(
    "version",
    "",
    "What the rows are, in your words: change it with them, and a run on the old ones is another run.",
);

const COMPUTED: Key = Key::bits("rows", "rows", "Training rows.");
const COMPUTED_TEST: Key = Key::bits("test_rows", "rows", "Test rows; others than those.");
const COMPUTED_WIDTH: Key = Key::bits("width", "", "Values in a row, uniform in [-1, 1).");
const COMPUTED_CLASSES: Key = Key::bits(
    "classes",
    "",
    "Number of classes; a row's is that whose random weights have the largest product with it.",
);
const NOISE: Key = Key::bits(
    "noise",
    "",
    "Share of the rows whose class is drawn at random instead.",
);
const COMPUTED_SEED: Key = Key::bits(
    "data_seed",
    "",
    "Seed of the rows; its own, so that another run.seed keeps them.",
);
const CONTEXT: Key = Key::bits("context", "bytes", "Bytes of a row.");
const STRIDE: Key = Key::bits(
    "stride",
    "bytes",
    "Bytes from the start of a row to that of the next; without it the context.",
);

/// The positive normal numbers of f32.
const LEAST_SCALE: f64 = f32::MIN_POSITIVE as f64;
const MOST_SCALE: f64 = f32::MAX as f64;

const TEST_FRACTION: Key = Key::bits(
    "test_fraction",
    "",
    "Share of the rows that is held out for evaluation; without effect where test rows are given.",
);
const SPLIT_SEED: Key = Key::bits(
    "split_seed",
    "",
    "Seed of the held-out rows; its own, so that another run.seed keeps them.",
);
const SCALE: Key = Key::bits("scale", "", "Every feature is divided by it.").range("above 0");
const TARGET: Key = Key::bits(
    "target",
    "",
    "Whether targets are classes 0..classes or one number each.",
);
const CLASSES: Key = Key::bits(
    "classes",
    "",
    "Number of classes; without it the largest label + 1.",
);
const LABELS: Key = Key::bits(
    "labels",
    "",
    "The labels in the order of their classes; without it the label is the class.",
);
const SKIP_ROWS: Key = Key::bits(
    "skip_rows",
    "lines",
    "Lines at the start of every file that are no part of the table, such as a line of counts.",
);
const HEADER: Key = Key::bits(
    "header",
    "",
    "Whether files begin with names; auto: a first line with text and without numbers is names.",
);
const DELIMITER: Key = Key::bits("delimiter", "", "What stands between fields.");
const TARGET_COLUMN: Key = Key::bits(
    "target_column",
    "",
    "Column of the target, by name or by number from 0; without it the last one.",
);
const COLUMNS: Key = Key::bits(
    "columns",
    "",
    "Feature columns in order, by name or by number from 0; without it all but the target.",
);
const MISSING: Key = Key::bits(
    "missing",
    "",
    "What becomes of a missing cell: refuse the file, drop the row, or take the column's mean over \
     the training rows.",
);
const BASE: Key = Key::bits(
    "base",
    "",
    "First index of a row; without it 0 if index 0 occurs in any file, else 1.",
);
const WIDTH: Key = Key::bits(
    "width",
    "",
    "Values in a row; without it what the largest index of all files needs.",
);

/// Most classes, columns or lines that a job declares.
const MOST: i64 = 1 << 24;

/// A path of the job file: relative ones begin at the data directory, or else where the program
/// was started.
pub(crate) fn resolve(directory: Option<&Path>, path: impl Into<PathBuf>) -> PathBuf {
    let path = path.into();
    match directory {
        Some(directory) => directory.join(path),
        None => path,
    }
}

/// `path` and `test_path`.
pub(crate) fn paths(
    section: &mut Section<'_>,
    directory: Option<&Path>,
) -> Result<(PathBuf, Option<PathBuf>), JobError> {
    let path = section.text(&PATH, None)?;
    let test = section.optional_text(&TEST_PATH)?;
    Ok((
        resolve(directory, path),
        test.map(|path| resolve(directory, path)),
    ))
}

/// `test_fraction` and `split_seed`.
pub(crate) fn holdout(section: &mut Section<'_>) -> Result<Holdout, JobError> {
    let default = Holdout::default();
    Ok(Holdout {
        fraction: section.float(&TEST_FRACTION, Some(default.fraction), 0.0..=0.99)?,
        seed: section.unsigned(&SPLIT_SEED, Some(default.seed), 0..=u64::MAX)?,
    })
}

/// `target`, `classes` and `labels`.
pub(crate) fn target(section: &mut Section<'_>) -> Result<Target, JobError> {
    let kind = section.choice(&TARGET, Some("class"), &["class", "value"])?;
    let classes = section.optional_integer(&CLASSES, 1..=MOST)?;
    let labels = section.optional_words(&LABELS)?;
    if kind == "class" {
        return Ok(Target::Class(ClassRule {
            classes: classes.map(|count| u32::try_from(count).expect("at most 2^24")),
            labels,
        }));
    }
    if classes.is_some() || labels.is_some() {
        let key = if classes.is_some() {
            CLASSES.name
        } else {
            LABELS.name
        };
        return Err(section.error(key, "is for target = \"class\": remove it"));
    }
    Ok(Target::Value)
}

/// `scale`, 1 by default.
pub(crate) fn scale(section: &mut Section<'_>) -> Result<f32, JobError> {
    let scale = section.float(&SCALE, Some(1.0), LEAST_SCALE..=MOST_SCALE)?;
    Ok(scale as f32)
}

/// `scale` where the default depends on the file.
pub(crate) fn optional_scale(section: &mut Section<'_>) -> Result<Option<f32>, JobError> {
    let key = Key {
        doc: "Every feature is divided by it; without it 255 for unsigned bytes, else 1.",
        ..SCALE
    };
    let scale = section.optional_float(&key, LEAST_SCALE..=MOST_SCALE)?;
    Ok(scale.map(|scale| scale as f32))
}

/// `skip_rows`.
pub(crate) fn skip_rows(section: &mut Section<'_>) -> Result<u64, JobError> {
    section.unsigned(&SKIP_ROWS, Some(0), 0..=MOST as u64)
}

/// `header`.
pub(crate) fn header(section: &mut Section<'_>) -> Result<Header, JobError> {
    let header = section.choice(&HEADER, Some("auto"), &["auto", "yes", "no"])?;
    Ok(match header.as_str() {
        "yes" => Header::Yes,
        "no" => Header::No,
        _ => Header::Auto,
    })
}

/// `delimiter`.
pub(crate) fn delimiter(section: &mut Section<'_>) -> Result<u8, JobError> {
    let choices = ["comma", "semicolon", "tab"];
    let delimiter = section.choice(&DELIMITER, Some("comma"), &choices)?;
    Ok(match delimiter.as_str() {
        "semicolon" => b';',
        "tab" => b'\t',
        _ => b',',
    })
}

/// `missing`.
pub(crate) fn missing(section: &mut Section<'_>) -> Result<Missing, JobError> {
    let all = [Missing::Refuse, Missing::Drop, Missing::Mean];
    let missing = section.choice(&MISSING, Some("refuse"), &all.map(Missing::name))?;
    let chosen = all.into_iter().find(|policy| policy.name() == missing);
    Ok(chosen.expect("the choices are their names"))
}

/// `target_column` and `columns`.
pub(crate) fn columns(
    section: &mut Section<'_>,
) -> Result<(Column, Option<Vec<Column>>), JobError> {
    let target = section.optional_text(&TARGET_COLUMN)?;
    let columns = section.optional_words(&COLUMNS)?;
    if columns.as_ref().is_some_and(Vec::is_empty) {
        return Err(section.error(
            COLUMNS.name,
            "lists no column: name at least one, or remove it",
        ));
    }
    let columns = columns.map(|names| names.into_iter().map(Column::Named).collect());
    Ok((target.map_or(Column::Last, Column::Named), columns))
}

/// `base` and `width`.
pub(crate) fn indices(section: &mut Section<'_>) -> Result<(Base, Option<u32>), JobError> {
    let base = match section.optional_integer(&BASE, 0..=1)? {
        None => Base::Auto,
        Some(0) => Base::Zero,
        Some(_) => Base::One,
    };
    let width = section.optional_integer(&WIDTH, 1..=MOST)?;
    Ok((
        base,
        width.map(|width| u32::try_from(width).expect("at most 2^24")),
    ))
}

/// `rows` and `test_rows`, which together have numbers of 31 bits.
pub(crate) fn counts(section: &mut Section<'_>) -> Result<(u32, u32), JobError> {
    let rows = section.unsigned(&ROWS, None, 1..=1 << 30)?;
    let test_rows = section.unsigned(&TEST_ROWS, Some(0), 0..=(1 << 30) - 1)?;
    let small = |count| u32::try_from(count).expect("at most 2^30");
    Ok((small(rows), small(test_rows)))
}

pub(crate) fn version(section: &mut Section<'_>) -> Result<String, JobError> {
    section.text(&VERSION, Some("1"))
}

/// The keys of computed rows.
pub(crate) fn synthetic(section: &mut Section<'_>) -> Result<synthetic::Config, JobError> {
    let mut count = |key, default, range: RangeInclusive<u64>| {
        let count = section.unsigned(key, Some(default), range)?;
        Ok::<_, JobError>(u32::try_from(count).expect("at most 2^30"))
    };
    Ok(synthetic::Config {
        rows: count(&COMPUTED, 10_000, 1..=1 << 30)?,
        test_rows: count(&COMPUTED_TEST, 1000, 0..=1 << 30)?,
        width: count(&COMPUTED_WIDTH, 100, 1..=1 << 16)?,
        classes: count(&COMPUTED_CLASSES, 10, 1..=1 << 16)?,
        noise: section.float(&NOISE, Some(0.0), 0.0..=1.0)?,
        seed: section.unsigned(&COMPUTED_SEED, Some(1), 0..=u64::MAX)?,
    })
}

/// `context` and `stride`.
pub(crate) fn runs(section: &mut Section<'_>) -> Result<(usize, usize), JobError> {
    let context = section.integer(&CONTEXT, Some(64), 1..=1 << 16)?;
    let stride = section.optional_integer(&STRIDE, 1..=MOST)?;
    let size = |number| usize::try_from(number).expect("in a range of positive numbers");
    Ok((size(context), size(stride.unwrap_or(context))))
}

/// `test_fraction` of a source whose test rows are its end.
pub(crate) fn end_fraction(section: &mut Section<'_>) -> Result<f64, JobError> {
    let key = Key {
        doc: "Share of the bytes, at the end, that is held out; without effect with test_path.",
        ..TEST_FRACTION
    };
    section.float(&key, Some(0.1), 0.0..=0.99)
}
