//! A parsed job file: sections of keys with the line of each, before anything is known of their
//! meaning.

use std::borrow::Cow;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::sorted::{SortedMap, SortedSet};

use super::effective::Effective;
use super::error::{JobError, Origin};
use super::section::Section;
use super::suggest::nearest;
use super::value::Value;

/// The largest job file that is read: people write them by hand.
pub const MAX_BYTES: usize = 1 << 20;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

/// One section of the file, not yet read.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub(crate) origin: Origin,
    pub(crate) keys: SortedMap<String, Written>,
}

/// A job file and the overrides of the command line. Sections are taken out of it one by one, each
/// by the code that knows its keys; [`finish`](Self::finish) refuses what nobody took.
#[derive(Clone, Debug, Default)]
pub struct Document {
    tables: SortedMap<String, Table>,
    taken: SortedSet<String>,
    effective: Effective,
}

impl Document {
    /// Reads a job file.
    ///
    /// # Errors
    /// If the text is not TOML, is too long, or has something else than sections at its top.
    pub fn parse(text: &str) -> Result<Self, JobError> {
        if text.len() > MAX_BYTES {
            let message = format!("{} bytes; a job file has at most {MAX_BYTES}", text.len());
            return Err(JobError::file(Origin::Absent, message));
        }
        let lines = Lines::of(text);
        let root = DeTable::parse(text).map_err(|error| {
            let origin = error
                .span()
                .map_or(Origin::Absent, |s| lines.origin(s.start));
            JobError::file(origin, format!("not valid TOML: {}", error.message()))
        })?;
        let mut document = Self::default();
        for (name, value) in root.get_ref() {
            let table = table(name, value, &lines)?;
            document
                .tables
                .insert(name.get_ref().clone().into_owned(), table);
        }
        Ok(document)
    }

    /// Reads a job that another process printed. Its lines are nobody's: errors name none.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn received(text: &str) -> Result<Self, JobError> {
        let mut document = Self::parse(text)?;
        for table in document.tables.values_mut() {
            table.origin = Origin::Absent;
            let keys = table.keys.values_mut();
            keys.for_each(|written| written.origin = Origin::Absent);
        }
        Ok(document)
    }

    /// The job of an empty file: every key has its default.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Overrides a key, as an option of the command line does.
    pub fn set(&mut self, section: &str, key: &str, value: impl Into<Value>) {
        let table = self.tables.entry(section.into()).or_insert_with(|| Table {
            origin: Origin::CommandLine,
            keys: SortedMap::new(),
        });
        let written = Written {
            value: value.into(),
            origin: Origin::CommandLine,
        };
        table.keys.insert(key.into(), written);
    }

    /// Takes a section out, to be read; an absent one reads as empty. A section is read once.
    pub fn section(&mut self, name: &str) -> Section<'_> {
        assert!(
            self.taken.insert(name.into()),
            "section [{name}] is read in two places"
        );
        let table = self.tables.remove(name).unwrap_or_else(|| Table {
            origin: Origin::Absent,
            keys: SortedMap::new(),
        });
        Section::new(name, table, &mut self.effective)
    }

    /// Ends the reading and gives the effective job, in the order in which it was read.
    ///
    /// # Errors
    /// If the file has a section that nobody read.
    pub fn finish(self) -> Result<Effective, JobError> {
        let Some((name, table)) = self.tables.first_key_value() else {
            return Ok(self.effective);
        };
        let remedy = match nearest(name, self.taken.iter().map(String::as_str)) {
            Some(known) => format!("did you mean [{known}]?"),
            None => {
                let known: Vec<String> = self.taken.iter().map(|s| format!("[{s}]")).collect();
                format!("this job has {}", known.join(" "))
            }
        };
        let message = format!("unknown section; {remedy}");
        Err(JobError::section(table.origin, name, message))
    }
}

fn table(
    name: &Spanned<Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    lines: &Lines,
) -> Result<Table, JobError> {
    let origin = lines.origin(name.span().start);
    let DeValue::Table(keys) = value.get_ref() else {
        let name = name.get_ref();
        let message = match value.get_ref() {
            DeValue::Array(_) => "expected a section, found a list; write the name in single [ ]",
            _ => "a key outside of every section; put it below its [section]",
        };
        return Err(JobError::top(origin, name, message));
    };
    let keys = keys
        .iter()
        .map(|(key, value)| {
            let written = Written {
                value: Value::from_toml(value.get_ref()),
                origin: lines.origin(key.span().start),
            };
            (key.get_ref().clone().into_owned(), written)
        })
        .collect();
    Ok(Table { origin, keys })
}

/// Where the lines of a text begin.
struct Lines(Vec<usize>);

impl Lines {
    fn of(text: &str) -> Self {
        Self(text.match_indices('\n').map(|(at, _)| at + 1).collect())
    }

    fn origin(&self, offset: usize) -> Origin {
        Origin::Line(self.0.partition_point(|start| *start <= offset) + 1)
    }
}
