//! What a key of the job file means: declared once, beside the code that reads it.

use serde::{Deserialize, Serialize};

/// Whether a key has a part in the weights that come out (PROTOCOL 31).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Decides {
    /// Another value gives other weights: a changed key is another run.
    Bits,
    /// Speed, place or safety only: may change when a run resumes.
    Free,
}

/// One key of a section. Its type and its default are where it is read (see
/// [`Section`](super::Section)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// The name in the file.
    pub name: &'static str,
    /// What it means, in one sentence without a line break.
    pub doc: &'static str,
    /// The unit of its values, or "".
    pub unit: &'static str,
    /// The values it takes, or "" where the range that it is read with says all.
    pub range: &'static str,
    /// Whether it decides bits.
    pub decides: Decides,
}

impl Key {
    /// A key that decides bits.
    #[must_use]
    pub const fn bits(name: &'static str, unit: &'static str, doc: &'static str) -> Self {
        Self {
            name,
            doc,
            unit,
            range: "",
            decides: Decides::Bits,
        }
    }

    /// A key that may change when a run resumes.
    #[must_use]
    pub const fn free(name: &'static str, unit: &'static str, doc: &'static str) -> Self {
        Self {
            name,
            doc,
            unit,
            range: "",
            decides: Decides::Free,
        }
    }

    /// The same key with its values described in words.
    #[must_use]
    pub const fn range(self, range: &'static str) -> Self {
        Self { range, ..self }
    }
}
