//! The job description: what a run is, read from TOML with the line of every mistake.
//!
//! A [`Document`] is the file; a [`Section`] of it is read key by key by the code that owns it; the
//! [`Effective`] job is the record of all that was read, and names the run. The sections here are
//! those of the core; `[model]`, `[optimizer]`, `[data]` and others are read the same way elsewhere.
//!
//! ```
//! use resilin_core::job::{Document, Job, Key};
//!
//! let mut document = Document::parse("[run]\nbatch = 96\n[model]\nwidth = 32\n")?;
//! document.set("run", "seed", 7_u64);
//! let job = Job::read(&mut document)?;
//! let mut section = document.section("model");
//! let width = section.integer(&Key::bits("width", "", "Hidden units."), Some(64), 1..=4096)?;
//! section.finish()?;
//! let effective = document.finish()?;
//! assert_eq!((job.run.seed, job.run.microbatch(), width), (7, 6, 32));
//! assert_eq!(effective.value("run", "partitions"), Some("16"));
//! # Ok::<(), resilin_core::job::JobError>(())
//! ```

mod checkpoint;
mod cluster;
mod document;
mod effective;
mod error;
mod failure;
mod key;
mod run;
mod section;
mod suggest;
mod value;

#[cfg(test)]
mod effective_test;
#[cfg(test)]
mod job_test;

pub use checkpoint::CheckpointSection;
pub use cluster::Cluster;
pub use document::{Document, MAX_BYTES};
pub use effective::{Effective, EffectiveKey};
pub use error::JobError;
pub use failure::Failure;
pub use key::{Decides, Key};
pub use run::{Bits, Length, NonFinite, Run};
pub use section::Section;
pub use value::Value;

/// The core's sections of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// `[run]`.
    pub run: Run,
    /// `[cluster]`.
    pub cluster: Cluster,
    /// `[checkpoint]`.
    pub checkpoint: CheckpointSection,
    /// `[failure]`.
    pub failure: Failure,
}

impl Job {
    /// Reads and checks the core's sections; the others stay in the document.
    ///
    /// # Errors
    /// If one of them has an unknown key, a value that it may not have, or values that contradict
    /// each other.
    pub fn read(document: &mut Document) -> Result<Self, JobError> {
        let run = whole(document.section("run"), Run::read)?;
        let bits = run.bits;
        Ok(Self {
            run,
            cluster: whole(document.section("cluster"), Cluster::read)?,
            checkpoint: whole(document.section("checkpoint"), CheckpointSection::read)?,
            failure: whole(document.section("failure"), |section| {
                Failure::read(section, bits)
            })?,
        })
    }
}

impl Default for Job {
    /// The job of an empty file.
    fn default() -> Self {
        Self::read(&mut Document::empty()).expect("the defaults are legal")
    }
}

/// Reads a section to its end.
fn whole<T>(
    mut section: Section<'_>,
    read: impl Fn(&mut Section<'_>) -> Result<T, JobError>,
) -> Result<T, JobError> {
    let value = read(&mut section)?;
    section.finish()?;
    Ok(value)
}
