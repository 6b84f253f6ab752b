//! The effective job: every key that was read, with the value that counts, in the order of reading.
//!
//! It is what a run prints, what names the run (through the digest over the keys that decide bits),
//! and what a checkpoint carries so that a changed job is refused by name.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::key::Decides;
use crate::id::RunId;
use crate::sorted::SortedMap;

/// One key with its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveKey {
    /// The section's name, without brackets.
    pub section: String,
    /// The key's name.
    pub key: String,
    /// The value in TOML; `None` for an optional key that is not set.
    pub value: Option<String>,
    /// Whether it decides bits.
    pub decides: Decides,
    /// What it means.
    pub doc: String,
    /// The unit, or "".
    pub unit: String,
    /// The values that it takes.
    pub range: String,
}

/// A whole job as it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effective {
    keys: Vec<EffectiveKey>,
}

impl Effective {
    pub(crate) fn record(&mut self, key: EffectiveKey) {
        self.keys.push(key);
    }

    /// The keys in the order in which they were read.
    #[must_use]
    pub fn keys(&self) -> &[EffectiveKey] {
        &self.keys
    }

    /// The value of a key in TOML; `None` if it is unknown or not set.
    #[must_use]
    pub fn value(&self, section: &str, key: &str) -> Option<&str> {
        let mut keys = self.keys.iter();
        keys.find(|k| k.section == section && k.key == key)?
            .value
            .as_deref()
    }

    /// BLAKE3 over the lines `section.key=value` of the keys that decide bits, sorted, each ended
    /// by a line feed. Keys that are not set have no line, so that a new optional key renames no
    /// run.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for (name, value) in self.deciding() {
            hasher.update(format!("{name}={value}\n").as_bytes());
        }
        *hasher.finalize().as_bytes()
    }

    /// The first eight bytes of the digest, big-endian.
    #[must_use]
    pub fn run_id(&self) -> RunId {
        let [a, b, c, d, e, f, g, h, ..] = self.digest();
        RunId(u64::from_be_bytes([a, b, c, d, e, f, g, h]))
    }

    /// The first eight hex digits of the digest: the end of a run directory's name.
    #[must_use]
    pub fn digest8(&self) -> String {
        let [a, b, c, d, ..] = self.digest();
        format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
    }

    /// The keys that decide bits and differ, each with the value here and the value of `other`.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let (here, there) = (self.deciding(), other.deciding());
        let mut names: Vec<&String> = here.keys().chain(there.keys()).collect();
        names.sort();
        names.dedup();
        let shown = |value: Option<&&str>| value.map_or("not set", |v| *v).to_owned();
        names
            .into_iter()
            .filter(|name| here.get(*name) != there.get(*name))
            .map(|name| {
                let (ours, theirs) = (shown(here.get(name)), shown(there.get(name)));
                format!("{name} is {ours} here, {theirs} there")
            })
            .collect()
    }

    /// The same keys and values without their descriptions: what runs and checkpoints store.
    #[must_use]
    pub fn bare(&self) -> Self {
        let bare = |key: &EffectiveKey| EffectiveKey {
            section: key.section.clone(),
            key: key.key.clone(),
            value: key.value.clone(),
            decides: key.decides,
            doc: String::new(),
            unit: String::new(),
            range: String::new(),
        };
        Self {
            keys: self.keys.iter().map(bare).collect(),
        }
    }

    /// The job as a job file that reads back to the same digest, with a comment for each key.
    #[must_use]
    pub fn toml(&self) -> String {
        let mut out = String::new();
        for (section, keys) in self.sections() {
            let blank = if out.is_empty() { "" } else { "\n" };
            put(&mut out, format_args!("{blank}[{section}]"));
            for key in keys {
                let decides = decides(key.decides);
                let about = [key.range.as_str(), key.unit.as_str(), decides];
                let about: Vec<&str> = about.into_iter().filter(|s| !s.is_empty()).collect();
                put(
                    &mut out,
                    format_args!("# {} ({})", key.doc, about.join("; ")),
                );
                match &key.value {
                    Some(value) => put(&mut out, format_args!("{} = {value}", key.key)),
                    None => put(&mut out, format_args!("# {} is not set", key.key)),
                }
            }
        }
        out
    }

    /// The reference of the keys, as in `docs/job-file.md`: a heading and a table a section, with
    /// the values as defaults. Made from the job of an empty file.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        for (section, keys) in self.sections() {
            put(&mut out, format_args!("### `[{section}]`\n"));
            put(
                &mut out,
                format_args!("| key | default | unit | range | decides | meaning |"),
            );
            put(
                &mut out,
                format_args!("| --- | --- | --- | --- | --- | --- |"),
            );
            for key in keys {
                let EffectiveKey {
                    key: name,
                    unit,
                    range,
                    doc,
                    ..
                } = key;
                let default = match &key.value {
                    Some(value) => format!("`{value}`"),
                    None => "not set".into(),
                };
                let decides = match key.decides {
                    Decides::Bits => "bits",
                    Decides::Free => "free",
                };
                let row =
                    format!("| `{name}` | {default} | {unit} | {range} | {decides} | {doc} |");
                put(&mut out, format_args!("{row}"));
            }
            out.push('\n');
        }
        out
    }

    fn deciding(&self) -> SortedMap<String, &str> {
        let bits = self.keys.iter().filter(|k| k.decides == Decides::Bits);
        bits.filter_map(|k| Some((format!("{}.{}", k.section, k.key), k.value.as_deref()?)))
            .collect()
    }

    /// Sections in the order of their first key.
    fn sections(&self) -> Vec<(&str, Vec<&EffectiveKey>)> {
        let mut sections: Vec<(&str, Vec<&EffectiveKey>)> = Vec::new();
        for key in &self.keys {
            match sections.iter_mut().find(|(name, _)| *name == key.section) {
                Some((_, keys)) => keys.push(key),
                None => sections.push((&key.section, vec![key])),
            }
        }
        sections
    }
}

fn decides(decides: Decides) -> &'static str {
    match decides {
        Decides::Bits => "decides bits",
        Decides::Free => "",
    }
}

fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(out, "{line}").expect("a string takes every write");
}
