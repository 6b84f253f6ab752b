//! What is left of a run for other programs: the report and the hash chain, as files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use resilin_actors::Exit;
use resilin_actors::coordinator::Report;
use resilin_learn::kernel::{Digest, hex};

/// Which files to write.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ResultArgs {
    /// Write the report as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write the hash of the weights of every step: one line `STEP HEX` each, from step 0
    #[arg(long, value_name = "FILE")]
    pub(crate) hash_chain: Option<PathBuf>,
}

impl ResultArgs {
    /// Refuses a file that cannot be written before hours are spent on its contents.
    pub(crate) fn check(&self) -> Result<(), Exit> {
        let files = [&self.report, &self.hash_chain].into_iter().flatten();
        files.map(PathBuf::as_path).try_for_each(check_file)
    }

    /// Writes the report, if it is wanted.
    pub(crate) fn write_report(&self, report: &Report) -> Result<(), Exit> {
        let Some(path) = &self.report else {
            return Ok(());
        };
        let text = serde_json::to_string_pretty(report).expect("a report has string keys only");
        write(path, &(text + "\n"))
    }

    /// Writes the chain, if it is wanted; `lines` gives it from step 0.
    pub(crate) fn write_chain(
        &self,
        lines: impl FnOnce() -> Result<Vec<Digest>, Exit>,
    ) -> Result<(), Exit> {
        let Some(path) = &self.hash_chain else {
            return Ok(());
        };
        let mut text = String::new();
        for (step, line) in lines()?.iter().enumerate() {
            writeln!(text, "{step} {}", hex(line)).expect("a string takes every write");
        }
        write(path, &text)
    }
}

/// Refuses a file that cannot be written, before anything runs.
pub(crate) fn check_file(path: &Path) -> Result<(), Exit> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    if path.is_dir() || folder.is_some_and(|folder| !folder.is_dir()) {
        return Err(Exit::Usage(format!(
            "cannot write {}: name a file in a directory that exists",
            path.display()
        )));
    }
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), Exit> {
    std::fs::write(path, text)
        .map_err(|error| Exit::Fault(format!("cannot write {}: {error}", path.display())))
}
