//! Prints the hash chains of short jobs, computed serially: what two processors must agree on.
//!
//! Needs core, learn and data only, so it builds for any target without a C compiler.
//! `.ci/other-processor` compares its output between x86-64 and aarch64. Exits with 3 on a machine
//! that the whole program would refuse.

mod rows;
#[path = "../../../examples/own-model/src/smoothed.rs"]
mod smoothed;

// The example's model says `resilin`, whose modules of mathematics are those of this crate.
extern crate resilin_learn as resilin;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use resilin_core::Step;
use resilin_core::job::{Document, JobError, Section};
use resilin_learn::dataset::{DataError, Manifest, Split};
use resilin_learn::kernel::{Digest, hex};
use resilin_learn::model::Model;
use resilin_learn::numerics;
use resilin_learn::reference::{self, Progress};
use resilin_learn::registry::Registry;

use smoothed::Smoothed;

/// What is trained; the name stands before each line.
const JOBS: [(&str, &str); 5] = [
    ("mlp", include_str!("mlp.toml")),
    ("cnn", include_str!("cnn.toml")),
    ("transformer", include_str!("transformer.toml")),
    ("factorization", include_str!("factorization.toml")),
    ("own-model", include_str!("own-model.toml")),
];

fn main() -> ExitCode {
    if let Err(refusal) = numerics::check() {
        eprintln!("error: {refusal}");
        return ExitCode::from(3);
    }
    for (name, job) in JOBS {
        if let Err(error) = print_chain(name, job) {
            eprintln!("error: {name}: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// One line `name t hex` a version of the weights, from 0.
fn print_chain(name: &str, job: &str) -> Result<(), Box<dyn Error>> {
    let task = Arc::new(registry().task(Document::parse(job)?, None)?);
    let mut lines: Vec<(Step, Digest)> = Vec::new();
    let trained = reference::run(&task, |progress| match progress {
        Progress::Start { chain } => lines.push((Step(0), chain)),
        Progress::Step(report) => lines.push((report.version, report.chain)),
        Progress::Epoch { .. } => {}
    })?;
    let mut out = io::stdout().lock();
    for (version, line) in lines {
        writeln!(out, "{name} {version} {}", hex(&line))?;
    }
    if let Some(test) = trained.test {
        eprintln!(
            "{name}: {} test rows, loss sum {}",
            test.rows, test.loss_sum
        );
    }
    Ok(())
}

/// The names of every `resilin`, and those that the jobs here have beside them.
fn registry() -> Registry {
    resilin_data::sources(Registry::default())
        .data("letters", |section, _| made(section, rows::letters()))
        .data("ids", |section, _| made(section, rows::ids()))
        .model("smoothed", smoothed)
}

fn made(section: &Section<'_>, split: Result<Split, DataError>) -> Result<Split, JobError> {
    split.map_err(|error| section.error("name", error))
}

fn smoothed(section: &mut Section<'_>, data: &Manifest) -> Result<Box<dyn Model>, JobError> {
    let config = Smoothed {
        width: data.width as usize,
        units: 24,
        smoothing: 0.1,
    };
    match config.model(data.targets) {
        Ok(model) => Ok(Box::new(model)),
        Err(error) => Err(section.error("name", error)),
    }
}
