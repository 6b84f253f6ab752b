//! Fixtures and whole data sets.
#![allow(dead_code, reason = "each test binary takes what it needs")]

use std::path::{Path, PathBuf};

use resilin_data::{ClassRule, Holdout, Target};
use resilin_learn::dataset::{Batch, DataError, Dataset, Split, Targets};

/// No rows held out.
pub(crate) const WHOLE: Holdout = Holdout {
    fraction: 0.0,
    seed: 1,
};

/// Path of a file that is kept with the tests.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// A number of declared classes.
pub(crate) fn classes(count: u32) -> Target {
    Target::Class(ClassRule {
        classes: Some(count),
        labels: None,
    })
}

/// Listed labels.
pub(crate) fn labels(labels: &[&str]) -> Target {
    let labels = labels.iter().map(|label| (*label).to_owned()).collect();
    Target::Class(ClassRule {
        classes: None,
        labels: Some(labels),
    })
}

/// All rows of a set, in order.
pub(crate) fn all(set: &dyn Dataset) -> Batch {
    let rows: Vec<u32> = (0..u32::try_from(set.manifest().rows).unwrap()).collect();
    let mut batch = Batch::default();
    set.read(&rows, &mut batch).unwrap();
    batch
}

/// Rows of a class.
pub(crate) fn counts(batch: &Batch, classes: usize) -> Vec<usize> {
    let Targets::Classes(of_rows) = &batch.targets else {
        panic!("values, not classes")
    };
    let mut counts = vec![0; classes];
    of_rows
        .iter()
        .for_each(|class| counts[*class as usize] += 1);
    counts
}

/// What a refusal says, with the fixtures' folder left out.
pub(crate) fn refusal(result: Result<Split, DataError>) -> String {
    let error = result.map(|_| ()).expect_err("refused");
    let folder = fixture("quirks").display().to_string();
    error
        .to_string()
        .replace(&format!("{folder}/"), "")
        .replace(&folder, "quirks")
}
