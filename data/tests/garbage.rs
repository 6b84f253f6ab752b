//! Damaged files: drawn truncations and flipped bytes of every fixture end in rows or in one
//! line, never in a panic.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{WHOLE, all, fixture};
use resilin_core::random::{Key, Purpose};
use resilin_data::{Target, csv, idx, libsvm};
use resilin_learn::dataset::{DataError, Split};

const SEED: u64 = 20;
/// Damages of each kind a fixture.
const TRIES: u32 = 30;

/// Reads the file as every kind; the answer only has to be one.
fn read(path: &Path) -> usize {
    let lenient = csv::Config {
        missing: csv::Missing::Drop,
        target: Target::Value,
        holdout: WHOLE,
        ..csv::Config::new(path)
    };
    let sparse = libsvm::Config {
        target: Target::Value,
        ..libsvm::Config::new(path)
    };
    let files = idx::Files {
        images: path.to_owned(),
        labels: path.to_owned(),
    };
    let images = idx::Config {
        train: files,
        test: None,
        target: Target::Value,
        scale: None,
        holdout: WHOLE,
    };
    let results = [
        csv::load(&csv::Config {
            target: common::classes(2),
            ..lenient.clone()
        }),
        csv::load(&lenient),
        libsvm::load(&sparse),
        idx::load(&images),
    ];
    results
        .into_iter()
        .filter(|result| accepted(result, path))
        .count()
}

fn accepted(result: &Result<Split, DataError>, path: &Path) -> bool {
    match result {
        Ok(split) => {
            let batch = all(&*split.train);
            assert!(
                batch.features.iter().all(|value| value.is_finite()),
                "{path:?}"
            );
            true
        }
        Err(error) => {
            let error = error.to_string();
            assert!(
                !error.contains('\n') && error.len() < 1000,
                "{path:?}: {error}"
            );
            assert!(error.contains(&path.display().to_string()) || error.contains("damaged"));
            false
        }
    }
}

fn fixtures() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(fixture("quirks"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && path.extension().is_none_or(|kind| kind != "md"))
        .collect();
    files.push(fixture("libsvm-heart/heart_scale"));
    files.sort();
    files
}

#[test]
fn damaged_files_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let damaged = folder.path().join("damaged");
    let fixtures = fixtures();
    assert_eq!(fixtures.len(), 23);
    let mut draws = Key::new(SEED, Purpose::User).stream();
    let mut accepted = 0;
    for path in &fixtures {
        // Long files are cut so that every try is short; their ends are then damaged as well.
        let mut bytes = fs::read(path).unwrap();
        bytes.truncate(3000);
        let length = u32::try_from(bytes.len()).unwrap();
        for _ in 0..TRIES {
            let cut = draws.below(length) as usize;
            fs::write(&damaged, &bytes[..cut]).unwrap();
            accepted += read(&damaged);
            let mut flipped = bytes.clone();
            for _ in 0..=draws.below(3) {
                flipped[draws.below(length) as usize] ^= 1 << draws.below(8);
            }
            fs::write(&damaged, &flipped).unwrap();
            accepted += read(&damaged);
        }
    }
    assert!(
        accepted > 100,
        "only {accepted} damaged files were read, seed {SEED}"
    );
}
