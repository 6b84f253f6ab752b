//! `resilin data`: rows as files.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use resilin_actors::Exit;
use resilin_data::synthetic::{self, Config};
use resilin_learn::dataset::{Batch, Dataset, Targets};

use crate::print;

/// Rows that are written in one piece.
const PIECE: u32 = 1024;

/// Make data sets
#[derive(Debug, Args)]
pub(crate) struct Data {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Make(Make),
}

/// Write the rows that `[data] name = "synthetic"` computes, for other programs and for the readers
/// of files; prints the [data] section that reads them
#[derive(Debug, Args)]
struct Make {
    /// Directory for the files; it is made, and files of these names in it are replaced
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Training rows
    #[arg(long, value_name = "N", default_value = "10000", value_parser = clap::value_parser!(u32).range(1..=1 << 30))]
    rows: u32,
    /// Test rows
    #[arg(long, value_name = "N", default_value = "1000", value_parser = clap::value_parser!(u32).range(0..=1 << 30))]
    test_rows: u32,
    /// Values in a row
    #[arg(long, value_name = "N", default_value = "100", value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    width: u32,
    /// Classes
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=256))]
    classes: u32,
    /// Share of the rows whose class is drawn at random, 0 to 1
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share)]
    noise: f64,
    /// Seed of rows and teacher
    #[arg(long, value_name = "SEED", default_value = "1")]
    seed: u64,
    /// Kind of files
    #[arg(long, value_enum, default_value = "idx")]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// IDX: 32-bit floats, and a byte for each class
    Idx,
    /// CSV with a header; the class is the last column
    Csv,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text
        .parse()
        .ok()
        .filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0 to 1".into())
}

impl Data {
    pub(crate) fn run(&self) -> Result<(), Exit> {
        match &self.command {
            Command::Make(make) => make.run(),
        }
    }
}

impl Make {
    fn run(&self) -> Result<(), Exit> {
        let split = synthetic::load(&Config {
            rows: self.rows,
            test_rows: self.test_rows,
            width: self.width,
            classes: self.classes,
            noise: self.noise,
            seed: self.seed,
        });
        let sets = [("train", Some(split.train)), ("test", split.test)];
        let mut section = vec!["[data]".to_owned()];
        section.push(match self.format {
            Format::Idx => "name = \"idx\"".into(),
            Format::Csv => "name = \"csv\"".into(),
        });
        for (set, rows) in sets {
            let Some(rows) = rows else { continue };
            let written = match self.format {
                Format::Idx => self.idx(set, rows.as_ref()),
                Format::Csv => self.csv(set, rows.as_ref()),
            };
            section.extend(written.map_err(|(path, error)| {
                Exit::Fault(format!("cannot write {}: {error}", path.display()))
            })?);
        }
        // Of a few rows, some class may have none.
        section.push(format!("classes = {}", self.classes));
        if self.test_rows == 0 {
            section.push("test_fraction = 0".into());
        }
        print::line(&section.join("\n"))
    }

    fn idx(&self, set: &str, rows: &dyn Dataset) -> Result<Vec<String>, Broken> {
        let values = self.directory.join(format!("{set}-values-idx2-float"));
        let classes = self.directory.join(format!("{set}-classes-idx1-ubyte"));
        let count = u32::try_from(rows.manifest().rows).expect("at most 2^30");
        self.write(&values, |out| {
            out.write_all(&[0, 0, 0x0d, 2])?;
            out.write_all(&count.to_be_bytes())?;
            out.write_all(&self.width.to_be_bytes())?;
            pieces(rows, |values, _| {
                values
                    .iter()
                    .try_for_each(|v| out.write_all(&v.to_be_bytes()))
            })
        })?;
        self.write(&classes, |out| {
            out.write_all(&[0, 0, 0x08, 1])?;
            out.write_all(&count.to_be_bytes())?;
            pieces(rows, |_, classes| {
                let bytes = classes
                    .iter()
                    .map(|class| u8::try_from(*class).expect("at most 256"));
                out.write_all(&bytes.collect::<Vec<_>>())
            })
        })?;
        Ok(vec![
            format!("{set}_images = {:?}", values.display().to_string()),
            format!("{set}_labels = {:?}", classes.display().to_string()),
        ])
    }

    fn csv(&self, set: &str, rows: &dyn Dataset) -> Result<Vec<String>, Broken> {
        let path = self.directory.join(format!("{set}.csv"));
        self.write(&path, |out| {
            let names = (0..self.width).map(|column| format!("x{column}"));
            writeln!(out, "{},class", names.collect::<Vec<_>>().join(","))?;
            pieces(rows, |values, classes| {
                for (row, class) in values.chunks_exact(self.width as usize).zip(classes) {
                    // The shortest text that is read back as the same f32.
                    row.iter().try_for_each(|value| write!(out, "{value},"))?;
                    writeln!(out, "{class}")?;
                }
                Ok(())
            })
        })?;
        let key = if set == "train" { "path" } else { "test_path" };
        Ok(vec![format!("{key} = {:?}", path.display().to_string())])
    }

    /// Writes a file whole or says which one could not be.
    fn write(
        &self,
        path: &Path,
        fill: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
    ) -> Result<(), Broken> {
        let done = || {
            fs::create_dir_all(&self.directory)?;
            let mut out = BufWriter::new(File::create(path)?);
            fill(&mut out)?;
            out.flush()
        };
        done().map_err(|error| (path.to_owned(), error))
    }
}

/// A file and what was wrong with it.
type Broken = (PathBuf, io::Error);

/// Gives values and classes of all rows, some at a time.
fn pieces(
    rows: &dyn Dataset,
    mut each: impl FnMut(&[f32], &[u32]) -> io::Result<()>,
) -> io::Result<()> {
    let count = u32::try_from(rows.manifest().rows).expect("at most 2^30");
    let mut batch = Batch::default();
    for first in (0..count).step_by(PIECE as usize) {
        let ids: Vec<u32> = (first..count.min(first + PIECE)).collect();
        rows.read(&ids, &mut batch).expect("these rows exist");
        let Targets::Classes(classes) = &batch.targets else {
            unreachable!("synthetic rows have classes")
        };
        each(&batch.features, classes)?;
    }
    Ok(())
}
