//! The one line that a person reads when a job file is refused.

use std::fmt;

/// A job file or an override of it that cannot be run: where, what, and the remedy, in one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct JobError {
    place: Place,
    message: String,
}

/// Where a value was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A line of the job file, from 1.
    Line(usize),
    /// An option of the command line, which overrides the file.
    CommandLine,
    /// Nowhere: the key or the section is not in the file.
    Absent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    origin: Origin,
    section: Option<String>,
    key: Option<String>,
}

impl JobError {
    pub(crate) fn file(origin: Origin, message: impl fmt::Display) -> Self {
        Self::new(origin, None, None, message)
    }

    pub(crate) fn top(origin: Origin, key: &str, message: impl fmt::Display) -> Self {
        Self::new(origin, None, Some(key), message)
    }

    pub(crate) fn section(origin: Origin, section: &str, message: impl fmt::Display) -> Self {
        Self::new(origin, Some(section), None, message)
    }

    pub(crate) fn key(
        origin: Origin,
        section: &str,
        key: &str,
        message: impl fmt::Display,
    ) -> Self {
        Self::new(origin, Some(section), Some(key), message)
    }

    fn new(
        origin: Origin,
        section: Option<&str>,
        key: Option<&str>,
        message: impl fmt::Display,
    ) -> Self {
        // Names come from the file too: an escape keeps the error on its one line.
        let clean = |name: &str| name.escape_debug().take(80).collect::<String>();
        let place = Place {
            origin,
            section: section.map(clean),
            key: key.map(clean),
        };
        Self {
            place,
            message: message.to_string().replace(['\n', '\r'], " "),
        }
    }

    /// What somebody says against a section as a whole who does not read it: whoever does adds its
    /// line ([`Section::placed`](super::Section::placed)).
    pub fn of_section(section: &str, message: impl fmt::Display) -> Self {
        Self::section(Origin::Absent, section, message)
    }

    /// The same with a place, if it is against the section and has none.
    pub(crate) fn placed(mut self, origin: Origin, section: &str) -> Self {
        let Place {
            origin: known,
            section: of,
            key,
        } = &self.place;
        if *known == Origin::Absent && of.as_deref() == Some(section) && key.is_none() {
            self.place.origin = origin;
        }
        self
    }

    /// The line of the job file, from 1; `None` if the value is not written there.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        match self.place.origin {
            Origin::Line(line) => Some(line),
            Origin::CommandLine | Origin::Absent => None,
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            Origin::Line(line) => write!(f, "job file line {line}")?,
            Origin::CommandLine => write!(f, "command line")?,
            Origin::Absent => write!(f, "job file")?,
        }
        if let Some(section) = &self.section {
            write!(f, ", [{section}]")?;
        }
        match (&self.section, &self.key) {
            (Some(_), Some(key)) => write!(f, " {key}"),
            (None, Some(key)) => write!(f, ", {key}"),
            (_, None) => Ok(()),
        }
    }
}
