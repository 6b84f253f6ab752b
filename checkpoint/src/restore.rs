//! Reading checkpoints back: only full sets whose every byte fits, on any number of slices.

use std::ops::Range;
use std::path::{Path, PathBuf};

use resilin_core::{Step, Timeline};
use resilin_learn::kernel::extent;

use crate::branches::Began;
use crate::digest::sha256;
use crate::error::{Result, StoreError};
use crate::files::{self, Files};
use crate::manifest::{Manifest, parse_directory_name};
use crate::run::{CommitRecord, Run};
use crate::slice_file;

/// How closely a checkpoint is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Manifest checksum, and the lengths of the files.
    Lengths,
    /// Every byte of every file.
    Digests,
}

/// The answer to the question for the newest checkpoint.
#[derive(Debug)]
pub struct Newest {
    /// The newest good one, if there is one.
    pub restored: Option<Restored>,
    /// Newer ones that cannot be used.
    pub skipped: Vec<Skipped>,
}

/// A checkpoint that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// Name of its directory.
    pub name: String,
    /// What does not fit.
    pub why: String,
}

/// A good checkpoint.
#[derive(Clone, Debug)]
pub struct Restored {
    run: Run,
    path: PathBuf,
    /// What the checkpoint is.
    pub manifest: Manifest,
}

impl Restored {
    /// The checkpoint's directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The flat tensors of a range of blocks, whatever slices they were stored in: name and values,
    /// in the order in which they were written. Every file that is touched is checked again.
    ///
    /// # Errors
    /// A file that was damaged meanwhile, or the file system's.
    pub fn load(&self, blocks: Range<usize>) -> Result<Vec<(String, Vec<f32>)>> {
        load(self.run.state().files(), &self.path, &self.manifest, blocks)
    }
}

/// The flat tensors of a range of blocks of the checkpoint in `dir`.
pub(crate) fn load(
    files: &dyn Files,
    dir: &Path,
    manifest: &Manifest,
    blocks: Range<usize>,
) -> Result<Vec<(String, Vec<f32>)>> {
    let names = &manifest.files[0].tensors;
    let length = |name: &String| extent(name, &manifest.layout, blocks.clone()).len();
    let mut flat: Vec<_> = names.iter().map(|name| vec![0.0; length(name)]).collect();
    let overlaps = |stored: &Range<usize>| stored.start < blocks.end && blocks.start < stored.end;
    for record in manifest.files.iter().filter(|file| overlaps(&file.blocks)) {
        slice_file::read(files, dir, manifest, record, &blocks, &mut flat)?;
    }
    Ok(names.iter().cloned().zip(flat).collect())
}

pub(crate) fn newest(run: &Run) -> Result<Newest> {
    good(run, run.commits()?)
}

pub(crate) fn at(run: &Run, step: Step) -> Result<Option<Restored>> {
    let mut commits = run.commits()?;
    commits.retain(|commit| commit.step == step);
    Ok(good(run, commits)?.restored)
}

/// The last good one of these, and the later ones.
fn good(run: &Run, commits: Vec<CommitRecord>) -> Result<Newest> {
    let mut skipped = Vec::new();
    for commit in commits.into_iter().rev() {
        let path = run.path().join(&commit.directory);
        let checked = check_current(run, &commit)
            .and_then(|()| check_committed(run.state().files(), &path, &commit, Depth::Digests));
        match checked {
            Ok(manifest) => {
                run.note_verified(&commit.directory);
                let restored = Restored {
                    run: run.clone(),
                    path,
                    manifest,
                };
                return Ok(Newest {
                    restored: Some(restored),
                    skipped,
                });
            }
            Err(error) => skipped.push(Skipped {
                name: commit.directory,
                why: error.to_string(),
            }),
        }
    }
    Ok(Newest {
        restored: None,
        skipped,
    })
}

/// Checks that no later branch left a checkpoint behind.
fn check_current(run: &Run, commit: &CommitRecord) -> Result<()> {
    let Some(later) = run.left(commit) else {
        return Ok(());
    };
    let Began { timeline, base } = later;
    Err(StoreError::Refused(format!(
        "{} was left behind: the run went on from step {base} in {timeline}",
        commit.directory
    )))
}

/// Checks a checkpoint against its commit record.
pub(crate) fn check_committed(
    files: &dyn Files,
    dir: &Path,
    commit: &CommitRecord,
    depth: Depth,
) -> Result<Manifest> {
    let (manifest, sha256) = check(files, dir, depth)?;
    if sha256 != commit.manifest_sha256 {
        return Err(StoreError::damaged(dir, "another manifest was committed"));
    }
    Ok(manifest)
}

/// Checks a checkpoint's directory; returns its manifest and the SHA-256 of the manifest's file.
pub(crate) fn check(files: &dyn Files, dir: &Path, depth: Depth) -> Result<(Manifest, String)> {
    let (manifest, bytes) = Manifest::read(files, dir)?;
    let slots = manifest
        .slots
        .iter()
        .map(|slot| (&slot.name, slot.bytes, &slot.sha256));
    let named = manifest
        .files
        .iter()
        .map(|file| (&file.name, file.bytes, &file.sha256))
        .chain(slots);
    for (name, bytes, sha256) in named {
        let path = dir.join(name);
        match depth {
            Depth::Lengths => slice_file::check_length(files, &path, bytes)?,
            Depth::Digests => slice_file::verify(files, &path, bytes, sha256)?,
        }
    }
    Ok((manifest, sha256(&bytes)))
}

/// A checkpoint as `resilin checkpoints` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    /// Name of the run's directory.
    pub run: String,
    /// Name of the checkpoint's directory.
    pub name: String,
    /// The weights are those of this step.
    pub step: Step,
    /// The branch.
    pub timeline: Timeline,
    /// Bytes of its tensor files; 0 if its manifest is damaged.
    pub bytes: u64,
    /// Whether the run ended with it.
    pub finished: bool,
    /// Whether it can be used.
    pub state: Health,
}

/// Whether a checkpoint can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// All that was looked at fits.
    Good,
    /// It cannot be used; the text says why.
    Damaged(String),
}

/// All checkpoints in a state directory, by run and step. It reads files only, so it needs no lock
/// and works beside a coordinator.
///
/// # Errors
/// The file system's for the state directory itself.
pub fn inspect(files: &dyn Files, root: &Path, depth: Depth) -> Result<Vec<Listing>> {
    let mut listings = Vec::new();
    for run in files.list(root).map_err(StoreError::io("list", root))? {
        let dir = root.join(&run);
        // A plain file has no entries; it is not a run.
        for name in files::list(files, &dir).unwrap_or_default() {
            let Some((step, timeline)) = parse_directory_name(&name) else {
                continue;
            };
            let (bytes, finished, state) = match check(files, &dir.join(&name), depth) {
                Ok((manifest, _)) => (manifest.bytes(), manifest.finished, Health::Good),
                Err(error) => (0, false, Health::Damaged(error.to_string())),
            };
            listings.push(Listing {
                run: run.clone(),
                name,
                step,
                timeline,
                bytes,
                finished,
                state,
            });
        }
    }
    Ok(listings)
}
