//! `manifest.json`: everything of a checkpoint but its tensors, written last.
//!
//! A directory whose manifest fits its checksum and whose files fit the manifest is a full set.
//! With sled gone, the manifests alone rebuild the records.

use std::ops::Range;
use std::path::Path;

use resilin_core::job::Effective;
use resilin_core::layout::{Layout, SliceMap};
use resilin_core::ledger::hex;
use resilin_core::tree::Node;
use resilin_core::{MapNumber, SliceId, Step, Timeline};
use resilin_learn::dataset;
use serde::{Deserialize, Serialize};

use crate::digest::sha256;
use crate::error::{Result, StoreError};
use crate::files::{self, Files};
use crate::line::LedgerMark;

/// Name of the manifest's file.
pub const MANIFEST: &str = "manifest.json";

/// Version of the format described in the README; a reader refuses any other.
pub const FORMAT: u32 = 1;

/// Longest manifest that is read.
const MANIFEST_LIMIT: u64 = 64 << 20;

const UNSIGNED: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// A checkpoint's description.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// SHA-256 of the whole file with this field as 64 zeros.
    checksum: String,
    /// Name of the run.
    pub run: String,
    /// Digest over every job key that decides bits.
    #[serde(with = "hex")]
    pub digest: [u8; 32],
    /// The effective job, without descriptions.
    pub job: Effective,
    /// When the run was created, in seconds since 1970.
    pub created: u64,
    /// The coordinator's reign that wrote the checkpoint.
    pub reign: u64,
    /// The branch.
    pub timeline: Timeline,
    /// The weights are those of this step.
    pub step: Step,
    /// Chain line of the step.
    #[serde(with = "hex")]
    pub chain: [u8; 32],
    /// Whether this is the last checkpoint of a finished run.
    pub finished: bool,
    /// How far the ledger was durable before: it is fixed up to there. `None` before it is sealed.
    #[serde(default)]
    pub ledger: Option<LedgerMark>,
    /// Number of the slice layout.
    pub map: MapNumber,
    /// Which blocks each slice had.
    pub slices: SliceMap,
    /// The flat vector.
    pub layout: Layout,
    /// The rows that the run trains on, then the test rows if there are any.
    pub data: Vec<dataset::Manifest>,
    /// Slot states of the step; empty in modes without.
    pub slots: Vec<SlotRecord>,
    /// The tensor files, one a slice, in slice order.
    pub files: Vec<FileRecord>,
}

/// A tensor file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Name within the checkpoint's directory.
    pub name: String,
    /// The slice.
    pub slice: SliceId,
    /// The blocks of the slice.
    pub blocks: Range<usize>,
    /// Names of the flat tensors, in file order; all files have the same.
    pub tensors: Vec<String>,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of the whole file, in hex.
    pub sha256: String,
}

/// The file of a slot's state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// The slot.
    pub slot: Node,
    /// Name within the checkpoint's directory.
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// SHA-256 of the whole file, in hex.
    pub sha256: String,
}

/// What the manifest says beyond what the set and the run already fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Chain line of the step.
    pub chain: [u8; 32],
    /// The rows that the run trains on, then the test rows if there are any.
    pub data: Vec<dataset::Manifest>,
    /// Whether the run ends with this checkpoint.
    pub finished: bool,
}

impl Manifest {
    /// A manifest that [`Self::encode`] has still to sign.
    pub(crate) fn unsigned(
        run: &crate::run::RunRecord,
        reign: u64,
        set: &crate::save::Set,
        files: Vec<FileRecord>,
        facts: Facts,
    ) -> Self {
        Self {
            format: FORMAT,
            checksum: UNSIGNED.into(),
            run: run.name.clone(),
            digest: run.digest,
            job: run.job.clone(),
            created: run.created,
            reign,
            timeline: set.timeline,
            step: set.step,
            chain: facts.chain,
            finished: facts.finished,
            ledger: None,
            map: set.map,
            slices: set.slices,
            layout: set.layout.clone(),
            data: facts.data,
            slots: Vec::new(),
            files,
        }
    }

    /// The file's bytes, signed.
    pub(crate) fn encode(&mut self) -> Vec<u8> {
        self.checksum = UNSIGNED.into();
        let text = serde_json::to_string_pretty(self).expect("a manifest has string keys only");
        self.checksum = sha256(text.as_bytes());
        text.replacen(UNSIGNED, &self.checksum, 1).into_bytes()
    }

    /// Reads and checks the manifest of a checkpoint directory, not the files it names.
    pub(crate) fn read(files: &dyn Files, dir: &Path) -> Result<(Self, Vec<u8>)> {
        let path = dir.join(MANIFEST);
        let bytes = files::read(files, &path, MANIFEST_LIMIT)?
            .ok_or_else(|| StoreError::damaged(&path, "the file is missing"))?;
        let manifest = Self::decode(&bytes).map_err(|why| StoreError::damaged(&path, why))?;
        Ok((manifest, bytes))
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, String> {
        let text = str::from_utf8(bytes).map_err(|error| error.to_string())?;
        let manifest: Self = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if manifest.format != FORMAT {
            return Err(format!(
                "format {} is not format {FORMAT} of this version",
                manifest.format
            ));
        }
        if sha256(text.replacen(&manifest.checksum, UNSIGNED, 1).as_bytes()) != manifest.checksum {
            return Err("its checksum does not fit".into());
        }
        manifest.check_set()?;
        Ok(manifest)
    }

    /// The set must be full: one file a slice with the slice's blocks and the same tensors.
    fn check_set(&self) -> std::result::Result<(), String> {
        let expected = self
            .slices
            .ids()
            .map(|slice| (slice, self.slices.range(slice)));
        if !self
            .files
            .iter()
            .map(|file| (file.slice, file.blocks.clone()))
            .eq(expected)
        {
            return Err(format!(
                "it does not name one file for each of {} slices",
                self.slices.slices()
            ));
        }
        let other = |file: &&FileRecord| file.tensors != self.files[0].tensors;
        match self.files.iter().find(other) {
            Some(file) => Err(format!(
                "{} has other tensors than the first file",
                file.name
            )),
            None => Ok(()),
        }
    }

    /// Bytes of all files the manifest names.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum::<u64>()
            + self.slots.iter().map(|slot| slot.bytes).sum::<u64>()
    }
}

/// Name of a checkpoint's directory: it sorts by step.
#[must_use]
pub fn directory_name(step: Step, timeline: Timeline) -> String {
    format!("{:012}-{timeline}", step.0)
}

/// Reads a directory name back; `None` for any other name.
#[must_use]
pub fn parse_directory_name(name: &str) -> Option<(Step, Timeline)> {
    let (step, timeline) = name.split_once('-')?;
    let (reign, number) = timeline.split_once('.')?;
    let step = Step(step.parse().ok()?);
    let timeline = Timeline {
        reign: reign.parse().ok()?,
        number: number.parse().ok()?,
    };
    (directory_name(step, timeline) == name).then_some((step, timeline))
}
