//! The job of a command: a file, or the embedded digits, with the overrides of the command line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resilin_actors::Exit;
use resilin_core::job::{Document, JobError, MAX_BYTES};
use resilin_learn::numerics;
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;

use crate::input;

/// What is trained when no file is named.
const EMBEDDED: &str = include_str!("../examples/digits.toml");

/// Which job, on which rows.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct JobArgs {
    /// Job file; without it the embedded digits are trained
    #[arg(value_name = "JOB.toml")]
    pub(crate) job: Option<PathBuf>,
    /// Seed of every random draw, instead of [run] seed
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
    /// Directory where relative paths of [data] begin [default: the working directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
}

impl JobArgs {
    /// Reads the file and sets the overrides.
    pub(crate) fn document(&self) -> Result<Document, Exit> {
        let mut document = match &self.job {
            Some(path) => Document::parse(&read(path)?),
            None => Document::parse(EMBEDDED),
        }
        .map_err(|error| self.refused(&error))?;
        if let Some(seed) = self.seed {
            document.set("run", "seed", seed);
        }
        Ok(document)
    }

    /// Builds everything that the job names, after a check of this machine's arithmetic.
    pub(crate) fn task(&self, document: Document, registry: &Registry) -> Result<Arc<Task>, Exit> {
        numerics::check().map_err(Exit::Refused)?;
        let task = registry.task(document, self.data.as_deref());
        task.map(Arc::new).map_err(|error| self.refused(&error))
    }

    /// The error of a job, with the name of its file.
    pub(crate) fn refused(&self, error: &JobError) -> Exit {
        match &self.job {
            Some(path) => Exit::Usage(format!("{}: {error}", path.display())),
            None => Exit::Usage(error.to_string()),
        }
    }

    /// The arguments that give another process the same job.
    pub(crate) fn arguments(&self) -> Result<Vec<String>, Exit> {
        let mut arguments = Vec::new();
        arguments.extend(self.job.as_deref().map(utf8).transpose()?);
        if let Some(seed) = self.seed {
            arguments.extend(["--seed".into(), seed.to_string()]);
        }
        if let Some(data) = &self.data {
            arguments.extend(["--data".into(), utf8(data)?]);
        }
        Ok(arguments)
    }
}

/// A path as an argument for another process.
pub(crate) fn utf8(path: &Path) -> Result<String, Exit> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Exit::Usage(format!(
            "{}: the path is not UTF-8; rename it",
            path.display()
        ))
    })
}

fn read(path: &Path) -> Result<String, Exit> {
    input::text(path, MAX_BYTES)
        .map_err(|why| Exit::Usage(format!("job file {}: {why}", path.display())))
}

#[cfg(test)]
#[path = "job_file_test.rs"]
mod tests;
