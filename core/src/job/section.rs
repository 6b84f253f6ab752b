//! One section of a job file while it is read: key by key, each declared, each recorded.
//!
//! Whoever reads a section writes each key once, with its type, range and default; the checks, the
//! effective job, the digest and the reference in `docs/job-file.md` follow from that.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::document::{Table, Written};
use super::effective::{Effective, EffectiveKey};
use super::error::{JobError, Origin};
use super::key::Key;
use super::suggest::nearest;
use super::value::Value;

/// A section that is being read. Take keys from it, then [`finish`](Self::finish) it.
pub struct Section<'a> {
    name: String,
    table: Table,
    /// Names and places of the keys that were asked for, to name the line in later errors.
    asked: Vec<(&'static str, Origin)>,
    effective: &'a mut Effective,
}

impl<'a> Section<'a> {
    pub(crate) fn new(name: &str, table: Table, effective: &'a mut Effective) -> Self {
        Self {
            name: name.into(),
            table,
            asked: Vec::new(),
            effective,
        }
    }

    /// The section's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the file (or the command line) has a key that was not taken yet.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.table.keys.contains_key(key)
    }

    /// A whole number in `range`.
    ///
    /// # Errors
    /// If it is something else, or absent without a default.
    pub fn integer(
        &mut self,
        key: &Key,
        default: Option<i64>,
        range: RangeInclusive<i64>,
    ) -> Result<i64, JobError> {
        let default = default.map(Value::from);
        self.required(key, default, span(&range), |v, words| {
            whole(v, &range, words)
        })
    }

    /// A whole number in `range`, if it is there.
    ///
    /// # Errors
    /// If it is something else.
    pub fn optional_integer(
        &mut self,
        key: &Key,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, JobError> {
        self.take(key, None, span(&range), |v, words| whole(v, &range, words))
    }

    /// A whole number in `range`, up to 2^64 - 1.
    ///
    /// # Errors
    /// If it is something else, or absent without a default.
    pub fn unsigned(
        &mut self,
        key: &Key,
        default: Option<u64>,
        range: RangeInclusive<u64>,
    ) -> Result<u64, JobError> {
        let default = default.map(Value::from);
        self.required(key, default, span(&range), |v, words| {
            whole(v, &range, words)
        })
    }

    /// A finite number in `range`; whole numbers count.
    ///
    /// # Errors
    /// If it is something else, or absent without a default.
    pub fn float(
        &mut self,
        key: &Key,
        default: Option<f64>,
        range: RangeInclusive<f64>,
    ) -> Result<f64, JobError> {
        let default = default.map(Value::from);
        self.required(key, default, span(&range), |v, words| {
            real(v, &range, words)
        })
    }

    /// A finite number in `range`, if it is there; whole numbers count.
    ///
    /// # Errors
    /// If it is something else.
    pub fn optional_float(
        &mut self,
        key: &Key,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, JobError> {
        self.take(key, None, span(&range), |v, words| real(v, &range, words))
    }

    /// `true` or `false`.
    ///
    /// # Errors
    /// If it is something else, or absent without a default.
    pub fn boolean(&mut self, key: &Key, default: Option<bool>) -> Result<bool, JobError> {
        let default = default.map(Value::from);
        self.required(key, default, "true, false".into(), |value, _| match value {
            Value::Boolean(boolean) => Ok((*boolean, value.clone())),
            other => Err(expected("true or false", other)),
        })
    }

    /// A string.
    ///
    /// # Errors
    /// If it is something else, or absent without a default.
    pub fn text(&mut self, key: &Key, default: Option<&str>) -> Result<String, JobError> {
        self.required(key, default.map(Value::from), "text".into(), string)
    }

    /// A string, if it is there.
    ///
    /// # Errors
    /// If it is something else.
    pub fn optional_text(&mut self, key: &Key) -> Result<Option<String>, JobError> {
        self.take(key, None, "text".into(), string)
    }

    /// One of `choices`.
    ///
    /// # Errors
    /// If it is something else, or absent without a default.
    pub fn choice(
        &mut self,
        key: &Key,
        default: Option<&str>,
        choices: &[&str],
    ) -> Result<String, JobError> {
        let range = choices.join(", ");
        self.required(key, default.map(Value::from), range, |value, words| {
            let (text, recorded) = string(value, words)?;
            if choices.contains(&text.as_str()) {
                return Ok((text, recorded));
            }
            let remedy = match nearest(&text, choices.iter().copied()) {
                Some(meant) => format!("; did you mean \"{meant}\"?"),
                None => String::new(),
            };
            let expected = expected(&format!("one of {}", choices.join(", ")), value);
            Err(expected + &remedy)
        })
    }

    /// A list of whole numbers, each in `range`.
    ///
    /// # Errors
    /// If it is something else, or absent without a default.
    pub fn integers(
        &mut self,
        key: &Key,
        default: Option<&[i64]>,
        range: RangeInclusive<i64>,
    ) -> Result<Vec<i64>, JobError> {
        let default = default.map(|d| Value::List(d.iter().copied().map(Value::from).collect()));
        let described = span(&range);
        self.required(key, default, described, |value, words| {
            list(value, |item| whole(item, &range, words))
        })
    }

    /// A list of finite numbers in `range`, if it is there; whole numbers count.
    ///
    /// # Errors
    /// If it is something else.
    pub fn optional_floats(
        &mut self,
        key: &Key,
        range: RangeInclusive<f64>,
    ) -> Result<Option<Vec<f64>>, JobError> {
        self.take(key, None, span(&range), |value, words| {
            list(value, |item| real(item, &range, words))
        })
    }

    /// A list of strings.
    ///
    /// # Errors
    /// If it is something else, or absent without a default.
    pub fn texts(&mut self, key: &Key, default: Option<&[&str]>) -> Result<Vec<String>, JobError> {
        let default = default.map(|d| Value::List(d.iter().copied().map(Value::from).collect()));
        self.required(key, default, "list of texts".into(), |value, words| {
            list(value, |item| string(item, words))
        })
    }

    /// A list of strings and whole numbers, the numbers as text, if it is there: labels are
    /// written either way.
    ///
    /// # Errors
    /// If it is something else.
    pub fn optional_words(&mut self, key: &Key) -> Result<Option<Vec<String>>, JobError> {
        let range = "list of texts or integers".into();
        self.take(key, None, range, |value, words| {
            list(value, |item| match item {
                Value::Integer(number) => Ok((number.to_string(), item.clone())),
                other => string(other, words),
            })
        })
    }

    /// An error about a key of this section, for rules that a range cannot say. Names the line.
    pub fn error(&self, key: &str, message: impl Display) -> JobError {
        let asked = self.asked.iter().rev().find(|(name, _)| *name == key);
        let origin = match (asked, self.table.keys.get(key)) {
            (Some((_, origin)), _) => *origin,
            (None, Some(written)) => written.origin,
            (None, None) => Origin::Absent,
        };
        JobError::key(origin, &self.name, key, message)
    }

    /// An error about what the section as a whole asks for. Names its line.
    pub fn refuse(&self, message: impl Display) -> JobError {
        JobError::section(self.table.origin, &self.name, message)
    }

    /// An error that may be [against the section](JobError::of_section) without a place. Names its
    /// line then.
    pub fn placed(&self, error: JobError) -> JobError {
        error.placed(self.table.origin, &self.name)
    }

    /// Ends the section.
    ///
    /// # Errors
    /// If it has a key that nobody asked for.
    pub fn finish(self) -> Result<(), JobError> {
        let Some((key, written)) = self.table.keys.first_key_value() else {
            return Ok(());
        };
        let known = || self.asked.iter().map(|(name, _)| *name);
        let remedy = match nearest(key, known()) {
            Some(meant) => format!("did you mean {meant}?"),
            None => format!(
                "the keys here are {}",
                known().collect::<Vec<_>>().join(", ")
            ),
        };
        let message = format!("unknown key; {remedy}");
        Err(JobError::key(written.origin, &self.name, key, message))
    }

    fn required<T>(
        &mut self,
        key: &Key,
        default: Option<Value>,
        range: String,
        read: impl Fn(&Value, &str) -> Result<(T, Value), String>,
    ) -> Result<T, JobError> {
        self.take(key, default, range, read)?
            .ok_or_else(|| self.missing(key))
    }

    /// Takes a key out of the table, checks it and records it.
    fn take<T>(
        &mut self,
        key: &Key,
        default: Option<Value>,
        range: String,
        read: impl Fn(&Value, &str) -> Result<(T, Value), String>,
    ) -> Result<Option<T>, JobError> {
        let written = self.table.keys.remove(key.name);
        let origin = written.as_ref().map_or(Origin::Absent, |w| w.origin);
        self.asked.push((key.name, origin));
        let value = match (written, default) {
            (Some(Written { value, .. }), _) => Some(value),
            (None, default) => default,
        };
        let range = match key.range {
            "" => range,
            words => words.into(),
        };
        let read = match &value {
            Some(value) => {
                Some(read(value, &range).map_err(|message| self.error(key.name, message))?)
            }
            None => None,
        };
        let (result, recorded) = read.unzip();
        self.effective.record(EffectiveKey {
            section: self.name.clone(),
            key: key.name.into(),
            value: recorded.map(|value| value.literal()),
            decides: key.decides,
            doc: key.doc.into(),
            unit: key.unit.into(),
            range,
        });
        Ok(result)
    }

    fn missing(&self, key: &Key) -> JobError {
        let written = self.table.keys.keys().map(String::as_str);
        match nearest(key.name, written) {
            Some(found) => self.error(found, format!("unknown key; did you mean {}?", key.name)),
            None => {
                let message = format!("missing; set it ({})", key.doc);
                JobError::key(self.table.origin, &self.name, key.name, message)
            }
        }
    }
}

/// A range in words, unless the key has its own.
fn span<T: Display>(range: &RangeInclusive<T>) -> String {
    format!("{} to {}", range.start(), range.end())
}

fn expected(what: &str, found: &Value) -> String {
    format!("expected {what}, found {}", found.shown())
}

fn whole<T>(value: &Value, range: &RangeInclusive<T>, words: &str) -> Result<(T, Value), String>
where
    T: TryFrom<i128> + PartialOrd,
{
    let refuse = || expected(&format!("an integer ({words})"), value);
    let Value::Integer(number) = value else {
        return Err(refuse());
    };
    match T::try_from(*number) {
        Ok(inside) if range.contains(&inside) => Ok((inside, value.clone())),
        Ok(_) | Err(_) => Err(refuse()),
    }
}

fn real(value: &Value, range: &RangeInclusive<f64>, words: &str) -> Result<(f64, Value), String> {
    let number = match value {
        Value::Integer(number) => *number as f64,
        Value::Float(number) => *number,
        Value::Boolean(_) | Value::Text(_) | Value::List(_) | Value::Foreign(_) => f64::NAN,
    };
    if number.is_finite() && range.contains(&number) {
        // `1` and `1.0` are one value, so they are recorded as one.
        return Ok((number, Value::Float(number)));
    }
    Err(expected(&format!("a number ({words})"), value))
}

fn string(value: &Value, _words: &str) -> Result<(String, Value), String> {
    match value {
        Value::Text(text) => Ok((text.clone(), value.clone())),
        other => Err(expected("text in quotes", other)),
    }
}

fn list<T>(
    value: &Value,
    read: impl Fn(&Value) -> Result<(T, Value), String>,
) -> Result<(Vec<T>, Value), String> {
    let Value::List(items) = value else {
        return Err(expected("a list in [ ]", value));
    };
    let mut read_items = Vec::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        let (item, _) = read(item).map_err(|e| format!("item {}: {e}", place + 1))?;
        read_items.push(item);
    }
    Ok((read_items, value.clone()))
}
