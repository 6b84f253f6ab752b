//! Sparse rows of libsvm and svmlight: `label index:value ... # comment`, kept densely.
//!
//! Whether indices count from 0 or from 1 is settled once, for all files together.

use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use resilin_learn::dataset::{DataError, SourceFile, Split, TargetKind, Targets};

use crate::csv::records::skip_byte_order_mark;
use crate::input::{Input, parts};
use crate::labels::{ClassRule, Reader, Target, with_classes};
use crate::number::{self, Cell, quoted};
use crate::rows::Rows;
use crate::split::{Holdout, cut, pair};
use crate::table::Origin;

const MOST_LINE_BYTES: u64 = 16 << 20;
/// 16 GiB of values: rows are kept densely.
const MOST_CELLS: u64 = 1 << 32;

/// Where indices begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// At 0 if index 0 occurs in any file, else at 1.
    Auto,
    /// At 0.
    Zero,
    /// At 1, as the format says.
    One,
}

/// Which rows to read, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// File or directory of parts.
    pub path: PathBuf,
    /// Test rows; `None`: held out from `path`.
    pub test_path: Option<PathBuf>,
    /// Where indices begin.
    pub base: Base,
    /// Values in a row; `None`: as many as the largest index of all files needs.
    pub width: Option<u32>,
    /// What the labels are.
    pub target: Target,
    /// Every feature is divided by it.
    pub scale: f32,
    /// The held-out rows, without `test_path`.
    pub holdout: Holdout,
}

impl Config {
    /// Classes, everything at its default.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            test_path: None,
            base: Base::Auto,
            width: None,
            target: Target::Class(ClassRule::default()),
            scale: 1.0,
            holdout: Holdout::default(),
        }
    }
}

/// Reads training and test rows.
///
/// # Errors
/// A file that is missing, damaged or empty, an index twice in a row or outside the width, a value
/// that is not finite, or a label that is no class.
pub fn load(config: &Config) -> Result<Split, DataError> {
    let train = Sparse::read(&config.path, config, &config.target)?;
    let test = match &config.test_path {
        Some(path) => Some(Sparse::read(
            path,
            config,
            &with_classes(&config.target, train.kind),
        )?),
        None => None,
    };
    let both = || std::iter::once(&train).chain(&test);
    let base = match config.base {
        Base::Zero => 0,
        Base::One => 1,
        Base::Auto => u32::from(!both().any(|side| side.zero_seen)),
    };
    let width = width(config, base, both())?;
    let kind = train.kind;
    let origin = |files| Origin {
        source: "libsvm".into(),
        files,
        missing: format!("absent is 0, indices from {base}"),
    };
    tracing::info!(path = %config.path.display(), base, width, "libsvm read");
    let dense = |side: Sparse| {
        let (rows, files) = side.dense(base, width, config)?;
        Ok::<_, DataError>((origin(files), rows))
    };
    let train = dense(train)?;
    match test {
        Some(test) => pair(train, dense(test)?, kind),
        None => {
            let ids = config.holdout.ids(train.1.count());
            cut(train.0, train.1, kind, ids)
        }
    }
}

/// Values in a row, for all files.
fn width<'a>(
    config: &Config,
    base: u32,
    sides: impl Iterator<Item = &'a Sparse>,
) -> Result<u32, DataError> {
    let largest = sides
        .filter_map(|side| side.largest.as_ref())
        .max_by_key(|(index, _)| *index);
    match (config.width, largest) {
        (None, None) => Err(DataError(format!(
            "{} has no index:value at all: set width",
            config.path.display()
        ))),
        (None, Some((index, _))) => Ok(index - base + 1),
        (Some(width), Some((index, place))) if *index - base >= width => Err(DataError(format!(
            "{place}: index {index} lies outside width = {width} with indices from {base}: \
             correct width or base"
        ))),
        (Some(width), _) => Ok(width),
    }
}

/// Rows of one path as they stand in the files, indices ascending.
struct Sparse {
    /// Where each row's entries end.
    ends: Vec<usize>,
    entries: Vec<(u32, f32)>,
    targets: Targets,
    kind: TargetKind,
    zero_seen: bool,
    /// The largest index and its place.
    largest: Option<(u32, String)>,
    files: Vec<SourceFile>,
}

impl Sparse {
    fn read(path: &Path, config: &Config, target: &Target) -> Result<Self, DataError> {
        let mut targets = Reader::new(target)?;
        let mut sparse = Self {
            ends: Vec::new(),
            entries: Vec::new(),
            targets: Targets::default(),
            kind: TargetKind::Values(1),
            zero_seen: false,
            largest: None,
            files: Vec::new(),
        };
        for part in parts(path)? {
            sparse.file(Input::open(&part)?, config, &mut targets)?;
        }
        (sparse.targets, sparse.kind) = targets.finish(path)?;
        Ok(sparse)
    }

    fn file(
        &mut self,
        mut input: Input,
        config: &Config,
        targets: &mut Reader<'_>,
    ) -> Result<(), DataError> {
        skip_byte_order_mark(&mut input)?;
        let mut bytes = Vec::new();
        let mut line = 0;
        loop {
            bytes.clear();
            let read = input
                .by_ref()
                .take(MOST_LINE_BYTES)
                .read_until(b'\n', &mut bytes);
            let count = read.map_err(|error| input.failed(&error))?;
            if count == 0 {
                break;
            }
            line += 1;
            let place = format!("{}, line {line}", input.path);
            if count as u64 == MOST_LINE_BYTES {
                return Err(DataError(format!(
                    "{place} is longer than 16 MiB: split it"
                )));
            }
            let text = String::from_utf8_lossy(&bytes);
            let text = text.split('#').next().unwrap_or_default();
            let mut tokens = text.split_ascii_whitespace();
            if let Some(label) = tokens.next() {
                targets.push(label, || place.clone())?;
                self.row(tokens, config, &place)?;
            }
        }
        self.files.push(input.finish()?);
        Ok(())
    }

    fn row<'t>(
        &mut self,
        tokens: impl Iterator<Item = &'t str>,
        config: &Config,
        place: &str,
    ) -> Result<(), DataError> {
        let start = self.ends.last().copied().unwrap_or(0);
        for token in tokens {
            if !token.starts_with("qid:") {
                self.entries.push(entry(token, place)?);
            }
        }
        let row = &mut self.entries[start..];
        row.sort_by_key(|(index, _)| *index);
        if let Some(twice) = row.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(DataError(format!(
                "{place}: index {} occurs twice: remove one of them",
                twice[0].0
            )));
        }
        if let (Some((first, _)), Some((last, _))) = (row.first(), row.last()) {
            if *first == 0 && config.base == Base::One {
                return Err(DataError(format!(
                    "{place}: index 0 with base = 1: set base = 0, or remove base"
                )));
            }
            self.zero_seen |= *first == 0;
            if self.largest.as_ref().is_none_or(|(index, _)| index < last) {
                self.largest = Some((*last, place.to_owned()));
            }
        }
        self.ends.push(self.entries.len());
        if self.ends.len() as u64 >= u64::from(u32::MAX) {
            return Err(DataError(format!(
                "{place}: more than 2^32 - 2 rows: split the data"
            )));
        }
        Ok(())
    }

    fn dense(
        self,
        base: u32,
        width: u32,
        config: &Config,
    ) -> Result<(Rows, Vec<SourceFile>), DataError> {
        let width = width as usize;
        let cells = (self.ends.len() as u64).saturating_mul(width as u64);
        let mut values = Vec::new();
        let room = usize::try_from(cells).ok().filter(|_| cells <= MOST_CELLS);
        if room.is_none_or(|cells| values.try_reserve_exact(cells).is_err()) {
            return Err(DataError(format!(
                "{}: {} rows of {width} values do not fit in memory when kept densely: remove \
                 large indices, or hash them into fewer",
                config.path.display(),
                self.ends.len()
            )));
        }
        let mut start = 0;
        for end in self.ends {
            let row = values.len();
            values.resize(row + width, 0.0);
            for (index, value) in &self.entries[start..end] {
                values[row + (index - base) as usize] = *value;
            }
            start = end;
        }
        let mut rows = Rows {
            width,
            values,
            targets: self.targets,
        };
        rows.divide(config.scale, &config.path)?;
        Ok((rows, self.files))
    }
}

/// `index:value`.
fn entry(token: &str, place: &str) -> Result<(u32, f32), DataError> {
    let parsed = token
        .split_once(':')
        .and_then(|(index, value)| Some((index.parse::<u32>().ok()?, value)));
    let Some((index, text)) = parsed.filter(|(index, _)| *index < u32::MAX) else {
        return Err(DataError(format!(
            "{place}: {} is no index:value: correct it",
            quoted(token)
        )));
    };
    match number::cell(text) {
        Cell::Number(value) => Ok((index, value)),
        Cell::Missing => Err(DataError(format!(
            "{place}, index {index}: {} is no value: leave the entry out where it shall be 0",
            quoted(text)
        ))),
        other @ (Cell::TooLarge | Cell::Text) => Err(DataError(format!(
            "{place}, index {index}: {}",
            number::complaint(text, other)
        ))),
    }
}
