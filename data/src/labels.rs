//! Labels to classes `0..count`: the same map for every file and worker, and nothing guessed.

use std::path::Path;

use resilin_learn::dataset::{DataError, TargetKind, Targets};

use crate::number::{self, Cell, quoted};

/// Most classes that are derived from labels; more must be declared.
const MOST_DERIVED: i64 = 65_536;

/// What the target column holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A class.
    Class(ClassRule),
    /// One number.
    Value,
}

/// How labels become classes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClassRule {
    /// Number of classes; `None`: the largest label + 1.
    pub classes: Option<u32>,
    /// Labels in the order of their classes; `None`: the label is the class.
    pub labels: Option<Vec<String>>,
}

impl ClassRule {
    fn declared(&self) -> Option<u32> {
        let listed = self.labels.as_ref().map(|labels| labels.len() as u32);
        self.classes.or(listed)
    }

    fn check(&self) -> Result<(), DataError> {
        let Some(labels) = &self.labels else {
            return Ok(());
        };
        if let Some(classes) = self
            .classes
            .filter(|classes| *classes as usize != labels.len())
        {
            return Err(DataError(format!(
                "classes = {classes}, but labels lists {}: leave one of them out",
                labels.len()
            )));
        }
        for (index, label) in labels.iter().enumerate() {
            if labels[..index].iter().any(|earlier| same(earlier, label)) {
                return Err(DataError(format!("labels lists {} twice", quoted(label))));
            }
        }
        Ok(())
    }
}

/// The rule for test rows: the classes are those of the training rows.
pub(crate) fn with_classes(target: &Target, kind: TargetKind) -> Target {
    match (target, kind) {
        (Target::Class(rule), TargetKind::Classes(count)) => Target::Class(ClassRule {
            classes: Some(count),
            labels: rule.labels.clone(),
        }),
        (Target::Class(_) | Target::Value, _) => target.clone(),
    }
}

/// Targets as they are read, one a row.
pub(crate) enum Reader<'a> {
    Class(Classes<'a>),
    Value(Vec<f32>),
}

pub(crate) struct Classes<'a> {
    rule: &'a ClassRule,
    classes: Vec<u32>,
    smallest: i64,
    largest: i64,
    /// Place and label of the first one that is no class.
    outside: Option<(String, i64)>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(target: &'a Target) -> Result<Self, DataError> {
        match target {
            Target::Value => Ok(Self::Value(Vec::new())),
            Target::Class(rule) => {
                rule.check()?;
                Ok(Self::Class(Classes {
                    rule,
                    classes: Vec::new(),
                    smallest: i64::MAX,
                    largest: i64::MIN,
                    outside: None,
                }))
            }
        }
    }

    /// Takes a row's target; `place` names file, line and column.
    pub(crate) fn push(
        &mut self,
        text: &str,
        place: impl FnOnce() -> String,
    ) -> Result<(), DataError> {
        match self {
            Self::Class(classes) => classes.push(text, place),
            Self::Value(values) => {
                match number::cell(text) {
                    Cell::Number(value) => {
                        values.push(value);
                        Ok(())
                    }
                    other @ (Cell::Missing | Cell::TooLarge | Cell::Text) => Err(DataError(
                        format!("{}: {}", place(), number::complaint(text, other)),
                    )),
                }
            }
        }
    }

    /// All targets and their kind; `path` is where they are from.
    pub(crate) fn finish(self, path: &Path) -> Result<(Targets, TargetKind), DataError> {
        match self {
            Self::Value(values) => {
                Ok((Targets::Values { width: 1, values }, TargetKind::Values(1)))
            }
            Self::Class(classes) => {
                let count = classes.count(path)?;
                Ok((
                    Targets::Classes(classes.classes),
                    TargetKind::Classes(count),
                ))
            }
        }
    }
}

impl Classes<'_> {
    fn push(&mut self, text: &str, place: impl FnOnce() -> String) -> Result<(), DataError> {
        if let Some(labels) = &self.rule.labels {
            let Some(class) = labels.iter().position(|label| same(label, text)) else {
                return Err(DataError(format!(
                    "{}: label {} is not in labels = {labels:?}: add it or correct the value",
                    place(),
                    quoted(text)
                )));
            };
            self.classes.push(class as u32);
            return Ok(());
        }
        let whole = text
            .trim()
            .parse()
            .ok()
            .filter(|label: &f64| label.fract() == 0.0);
        let Some(label) = whole.map(|label| label as i64) else {
            return Err(DataError(format!(
                "{}: label {} is no whole number: list all labels in labels = [...], or set \
                 target = \"value\"",
                place(),
                quoted(text)
            )));
        };
        self.smallest = self.smallest.min(label);
        self.largest = self.largest.max(label);
        let most = self.rule.classes.map_or(MOST_DERIVED, i64::from);
        if !(0..most).contains(&label) && self.outside.is_none() {
            self.outside = Some((place(), label));
        }
        self.classes.push(u32::try_from(label).unwrap_or(u32::MAX));
        Ok(())
    }

    /// Number of classes, once all labels are known to be classes.
    fn count(&self, path: &Path) -> Result<u32, DataError> {
        let (smallest, largest) = (self.smallest, self.largest);
        if let Some((place, label)) = &self.outside {
            let allowed = self.rule.classes.map_or(MOST_DERIVED, i64::from);
            return Err(DataError(format!(
                "{place}: label {label} is outside 0..{allowed} (labels run from {smallest} to \
                 {largest}): correct classes, or list all labels in labels = [...]"
            )));
        }
        if let Some(count) = self.rule.declared() {
            return Ok(count);
        }
        if self.classes.is_empty() {
            return Ok(0);
        }
        if smallest > 0 {
            return Err(DataError(format!(
                "{}: labels run from {smallest} to {largest} and none is 0: list them in \
                 labels = [...], or set classes = {} if the lower classes really exist",
                path.display(),
                largest + 1
            )));
        }
        Ok(u32::try_from(largest + 1).expect("at most 65,536"))
    }
}

/// Whether a label is the listed one: the same text, or the same number written otherwise.
fn same(listed: &str, text: &str) -> bool {
    let (listed, text) = (listed.trim(), text.trim());
    listed == text
        || matches!((listed.parse::<f64>(), text.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
}
