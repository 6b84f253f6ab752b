//! Prints the hash chain of a short job, computed serially: what two processors must agree on.
//!
//! Needs core, learn and data only, so it builds for any target without a C compiler.
//! `.ci/other-processor` compares its output between x86-64 and aarch64. Exits with 3 on a machine
//! that the whole program would refuse.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;

use resilin_core::Step;
use resilin_core::job::Document;
use resilin_learn::kernel::{Digest, hex};
use resilin_learn::numerics;
use resilin_learn::reference::{self, Progress};
use resilin_learn::registry::Registry;

/// Everything whose bits could differ: products with an inner dimension beyond one block of 256,
/// tanh, exp, log, dropout, the powers of Adam, a global norm that clips, a cosine schedule, and
/// partitions of unequal length, whose last microbatch of an epoch is short.
const JOB: &str = r#"
[run]
steps = 60
batch = 96
partitions = 12
block = 256
clip_norm = 0.5

[model]
name = "mlp"
hidden = [300, 32]
activation = "tanh"
dropout = 0.2

[optimizer]
name = "adam"
l2 = 0.0001

[schedule]
name = "cosine"
warmup_steps = 5
"#;

fn main() -> ExitCode {
    if let Err(refusal) = numerics::check() {
        eprintln!("error: {refusal}");
        return ExitCode::from(3);
    }
    match print_chain() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// One line `t hex` a version of the weights, from 0.
fn print_chain() -> Result<(), Box<dyn Error>> {
    let registry = resilin_data::sources(Registry::default());
    let task = Arc::new(registry.task(Document::parse(JOB)?, None)?);
    let mut lines: Vec<(Step, Digest)> = Vec::new();
    let trained = reference::run(&task, |progress| match progress {
        Progress::Start { chain } => lines.push((Step(0), chain)),
        Progress::Step(report) => lines.push((report.version, report.chain)),
        Progress::Epoch { .. } => {}
    })?;
    let mut out = io::stdout().lock();
    for (version, line) in lines {
        writeln!(out, "{version} {}", hex(&line))?;
    }
    if let Some(test) = trained.test {
        eprintln!("{} test rows, loss sum {}", test.rows, test.loss_sum);
    }
    Ok(())
}
