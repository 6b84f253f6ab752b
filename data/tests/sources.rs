//! `[data]` sections of a job file, to rows or to an error with the line.

mod common;

use std::path::Path;

use common::{all, counts, fixture};
use resilin_core::job::{Decides, Document, Effective, JobError, Section};
use resilin_data::sources;
use resilin_learn::dataset::Split;
use resilin_learn::registry::Registry;

type Source = fn(&mut Section<'_>, Option<&Path>) -> Result<Split, JobError>;

fn read(source: Source, keys: &str) -> Result<(Split, Effective), String> {
    let mut document = Document::parse(&format!("[data]\n{keys}\n")).unwrap();
    let mut section = document.section("data");
    let folder = fixture("");
    let split = source(&mut section, Some(&folder)).map_err(|error| error.to_string())?;
    section.finish().map_err(|error| error.to_string())?;
    Ok((split, document.finish().unwrap()))
}

fn refusal(source: Source, keys: &str) -> String {
    let folder = fixture("").display().to_string();
    read(source, keys)
        .map(|_| ())
        .expect_err("refused")
        .replace(&folder, "")
}

#[test]
fn digits_by_default() {
    let (split, effective) = read(sources::digits, "").unwrap();
    assert_eq!(split.train.manifest().rows, 1438);
    assert_eq!(effective.value("data", "test_fraction"), Some("0.2"));
    assert_eq!(effective.value("data", "split_seed"), Some("1"));
}

#[test]
fn a_job_names_its_source() {
    let registry = sources(Registry::default());
    let task = registry.task(Document::empty(), None).unwrap();
    assert_eq!(task.split.train.manifest().source, "digits");
    let job = "[data]\nname = \"libsvm\"\npath = \"heart_scale\"\nlabels = [-1, 1]\n";
    let folder = fixture("libsvm-heart");
    let task = registry
        .task(Document::parse(job).unwrap(), Some(&folder))
        .unwrap();
    assert_eq!(task.split.train.manifest().rows, 216);
}

#[test]
fn rows_without_values_are_for_models_that_have_them() {
    let registry = sources(Registry::default());
    let job = "[data]\nname = \"numbers\"\nrows = 9\ntest_rows = 0\n[model]\nname = \"mlp\"\n";
    let refused = registry.task(Document::parse(job).unwrap(), None);
    assert_eq!(
        refused.map(drop).expect_err("no values").to_string(),
        "job file line 6, [model] name: learns from values, and rows of the source numbers have \
         none here; choose another source, or a [model] command that has the rows itself"
    );
}

#[test]
fn all_keys_of_csv() {
    let keys = "path = \"quirks/q05_missing.csv\"\ntarget_column = \"y\"\ncolumns = [\"x\"]\n\
                skip_rows = 0\nheader = \"yes\"\ndelimiter = \"comma\"\nmissing = \"drop\"\nclasses = 2\n\
                scale = 0.5\ntest_fraction = 0.5\nsplit_seed = 4";
    let (split, effective) = read(sources::csv, keys).unwrap();
    let mut both = [
        all(&*split.train).features,
        all(&*split.test.unwrap()).features,
    ]
    .concat();
    both.sort_by(f32::total_cmp);
    assert_eq!(both, [2.0, 5.0]);
    let free: Vec<&str> = effective
        .keys()
        .iter()
        .filter(|key| key.decides == Decides::Free)
        .map(|key| key.key.as_str())
        .collect();
    assert_eq!(free, ["path", "test_path"]);
}

#[test]
fn labels_are_texts_or_numbers() {
    let keys = "path = \"libsvm-heart/heart_scale\"\ntest_fraction = 0\nlabels = [-1, 1]\nbase = 1";
    let (split, _) = read(sources::libsvm, keys).unwrap();
    assert_eq!(counts(&all(&*split.train), 2), [150, 120]);
    let texts = keys.replace("[-1, 1]", "[\"-1\", \"+1\"]");
    let (same, _) = read(sources::libsvm, &texts).unwrap();
    assert_eq!(same.train.manifest(), split.train.manifest());
}

#[test]
fn idx_by_directory_or_by_file() {
    let folder = "../../../examples/data/fashion-mnist-7k";
    let (split, _) = read(sources::idx, &format!("path = \"{folder}\"")).unwrap();
    let files = format!(
        "train_images = \"{folder}/train-images-idx3-ubyte.gz\"\n\
         train_labels = \"{folder}/train-labels-idx1-ubyte.gz\"\n\
         test_images = \"{folder}/t10k-images-idx3-ubyte.gz\"\n\
         test_labels = \"{folder}/t10k-labels-idx1-ubyte.gz\"\nscale = 255"
    );
    let (by_file, _) = read(sources::idx, &files).unwrap();
    assert_eq!(split.train.manifest(), by_file.train.manifest());
    assert_eq!(
        split.test.unwrap().manifest(),
        by_file.test.unwrap().manifest()
    );
}

#[test]
fn refusals_name_the_line_of_the_job_file() {
    let cases: [(Source, &str, &str); 6] = [
        (
            sources::csv,
            "path = \"quirks/q08_nan_inf.csv\"",
            "job file line 2, [data] path: quirks/q08_nan_inf.csv, line 3 (row 2), column x1: \
             \"inf\" is infinite or beyond f32 (3.4e38): correct the value",
        ),
        (
            sources::csv,
            "path = \"quirks/absent\"",
            "job file line 2, [data] path: quirks/absent does not exist: correct the path in \
             [data], or say --data DIR",
        ),
        (
            sources::csv,
            "path = \"a\"\ntarget = \"value\"\nclasses = 3",
            "job file line 4, [data] classes: is for target = \"class\": remove it",
        ),
        (
            sources::csv,
            "path = \"a\"\ncolumns = []",
            "job file line 3, [data] columns: lists no column: name at least one, or remove it",
        ),
        (
            sources::idx,
            "path = \"a\"\ntest_images = \"b\"",
            "job file line 2, [data] path: images and labels go together: set both of train_ or \
             of test_",
        ),
        (
            sources::idx,
            "",
            "job file, [data] path: set path, or train_images and train_labels",
        ),
    ];
    for (source, keys, expected) in cases {
        assert_eq!(refusal(source, keys), expected, "{keys}");
    }
}

/// The tables of `docs/data.md` are what the code declares.
#[test]
fn the_reference_is_what_the_code_declares() {
    let csv = "quirks/q02_bom_quoted_header.csv";
    let images = "../../../examples/data/fashion-mnist-7k";
    let cases: [(&str, Source, &str); 7] = [
        ("digits", sources::digits, ""),
        ("csv", sources::csv, csv),
        ("idx", sources::idx, images),
        ("libsvm", sources::libsvm, "quirks/q11_zero_based.svm"),
        ("numbers", sources::numbers, ""),
        ("synthetic", sources::synthetic, ""),
        ("text", sources::text, "text/sonnet.txt"),
    ];
    let mut declared = String::new();
    for (name, source, path) in cases {
        let keys = match (name, path) {
            ("numbers", _) => "rows = 1".into(),
            (_, "") => String::new(),
            (_, path) => format!("path = \"{path}\""),
        };
        let (_, effective) = read(source, &keys).unwrap();
        let table = effective.markdown();
        let table = table.replace("`[data]`", &format!("`name = \"{name}\"`"));
        let table = table.replace("| `rows` | `1` |", "| `rows` | none |");
        declared += &table.replace(&format!("`\"{path}\"`"), "none");
    }
    let written = include_str!("../../docs/data.md");
    let (_, rest) = written
        .split_once("<!-- sources: begin -->\n")
        .expect("a begin marker");
    let (written, _) = rest
        .split_once("<!-- sources: end -->")
        .expect("an end marker");
    assert!(
        written == declared,
        "docs/data.md differs from the code; put this between the markers:\n{declared}"
    );
}
