//! Which columns are features and which one is the target, settled by a data set's first line.

use ::csv::StringRecord;
use resilin_learn::dataset::DataError;

use super::Config;
use crate::labels::Target;
use crate::number::{self, Cell, quoted};

/// A column as the job file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Column {
    /// The last one.
    Last,
    /// By its name in the header, or, where no name matches, by its number from 0.
    Named(String),
}

/// The columns of a data set.
pub(crate) struct Columns {
    /// Names of all columns: those of the header, or numbers from 0.
    names: Vec<String>,
    has_header: bool,
    features: Vec<usize>,
    target: usize,
}

impl Columns {
    pub(crate) fn new(
        config: &Config,
        first: &StringRecord,
        is_header: bool,
        place: &str,
    ) -> Result<Self, DataError> {
        let names: Vec<String> = if is_header {
            first.iter().map(|name| name.trim().to_owned()).collect()
        } else {
            (0..first.len()).map(|index| index.to_string()).collect()
        };
        let target = find(&config.target_column, &names, place)?;
        let features: Vec<usize> = match &config.columns {
            None => (0..names.len()).filter(|index| *index != target).collect(),
            Some(chosen) => {
                let found = chosen.iter().map(|column| find(column, &names, place));
                found.collect::<Result<_, _>>()?
            }
        };
        let mut seen = vec![false; names.len()];
        for index in &features {
            let name = &names[*index];
            if *index == target {
                return Err(DataError(format!(
                    "{place}: column {name} is the target and in columns: leave it out there"
                )));
            }
            if std::mem::replace(&mut seen[*index], true) {
                return Err(DataError(format!(
                    "{place}: columns lists column {name} twice"
                )));
            }
        }
        if features.is_empty() {
            return Err(DataError(format!(
                "{place}: only the target column is left: rows need at least one feature; is the \
                 delimiter right?"
            )));
        }
        Ok(Self {
            names,
            has_header: is_header,
            features,
            target,
        })
    }

    /// Refuses a later part whose header differs: its values would land in other columns.
    pub(crate) fn same_names(&self, record: &StringRecord, place: &str) -> Result<(), DataError> {
        let names = self.names.iter().map(String::as_str);
        let same = self.has_header && record.iter().map(str::trim).eq(names);
        if same {
            return Ok(());
        }
        Err(DataError(format!(
            "{place}: the header differs from that of the first file: give all parts the same one"
        )))
    }

    pub(crate) fn all(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn features(&self) -> &[usize] {
        &self.features
    }

    pub(crate) fn target(&self) -> usize {
        self.target
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        &self.names[index]
    }

    pub(crate) fn feature_names(&self) -> Vec<String> {
        self.features
            .iter()
            .map(|index| self.names[*index].clone())
            .collect()
    }

    /// Said with a refused cell while no row was accepted: the line may be names.
    pub(crate) fn hint(&self, rows: u64) -> &'static str {
        if rows == 0 && !self.has_header {
            "; if the line holds names, set header = \"yes\""
        } else {
            ", or choose other columns"
        }
    }
}

/// Names are told from values by text and the absence of numbers.
pub(crate) fn looks_like_names(record: &StringRecord) -> bool {
    let mut text = false;
    for field in record.iter() {
        match number::cell(field) {
            Cell::Number(_) | Cell::TooLarge => return false,
            Cell::Text => text = true,
            Cell::Missing => {}
        }
    }
    text
}

/// Whether a label that looks like a missing value ("none") is one of the job's labels.
pub(crate) fn lists(config: &Config, text: &str) -> bool {
    match &config.target {
        Target::Value => false,
        Target::Class(rule) => rule
            .labels
            .as_ref()
            .is_some_and(|labels| labels.iter().any(|label| label.trim() == text.trim())),
    }
}

fn find(column: &Column, names: &[String], place: &str) -> Result<usize, DataError> {
    let name = match column {
        Column::Last => return Ok(names.len() - 1),
        Column::Named(name) => name,
    };
    let mut found = (0..names.len()).filter(|index| names[*index] == *name);
    match (found.next(), found.next()) {
        (Some(index), None) => Ok(index),
        (Some(_), Some(_)) => Err(DataError(format!(
            "{place}: more than one column is called {name}: choose by number from 0"
        ))),
        (None, _) => match name
            .parse::<usize>()
            .ok()
            .filter(|index| *index < names.len())
        {
            Some(index) => Ok(index),
            None => {
                const SHOWN: usize = 20;
                let shown = &names[..names.len().min(SHOWN)];
                let more = if names.len() > SHOWN { ", ..." } else { "" };
                Err(DataError(format!(
                    "{place}: no column is called {}: there are {}{more}",
                    quoted(name),
                    shown.join(", ")
                )))
            }
        },
    }
}
