//! What is said of a task before its run.

use resilin_core::job::Document;
use resilin_learn::look::{check_rows, notes};
use resilin_learn::registry::Registry;
use resilin_learn::task::Task;

use crate::networks::drawn;

fn task(run: &str, data: &str, model: &str) -> Task {
    let text = format!("[run]\n{run}\n[data]\nname = \"drawn\"\n{data}\n[model]\n{model}\n");
    let document = Document::parse(&text).expect("TOML");
    let registry = Registry::default().data("drawn", drawn);
    registry.task(document, None).expect("a job")
}

fn said(data: &str, model: &str) -> Option<String> {
    check_rows(&task("batch = 10", data, model))
        .err()
        .map(|error| error.to_string())
}

#[test]
fn rows_that_a_model_does_not_take_are_named_at_the_start() {
    let ids = "width = 3\ncount = 30\nclasses = 2";
    let model = "name = \"factorization\"\nfields = [30, 30, 29]";
    assert_eq!(
        said(ids, model).as_deref(),
        Some("training row 29: 29 in column 2 is none of 29 ids, which are whole numbers from 0")
    );
    assert_eq!(
        said(ids, "name = \"factorization\"\nfields = [30, 30, 30]"),
        None
    );
    let text = "width = 4\ncount = 30\nclasses = 7";
    let refused = said(text, "name = \"transformer\"\nwidth = 8");
    let refused = refused.expect("most values are beyond the classes");
    assert!(
        refused.starts_with(
            "training row 0: a transformer takes rows such as those of the source text: "
        ),
        "{refused}"
    );
    assert_eq!(said(text, "name = \"mlp\""), None, "takes every value");
}

#[test]
fn few_samples_under_batch_normalization_are_told() {
    let rows = "width = 16\ncount = 9\nclasses = 3";
    let normed = "name = \"cnn\"\nimage = [4, 4, 1]\nlayers = [\"conv 2 3 norm\"]";
    let plain = "name = \"cnn\"\nimage = [4, 4, 1]\nlayers = [\"conv 2 3\"]";
    let told = |run, model| notes(&task(run, rows, model));
    assert_eq!(
        told("batch = 12\npartitions = 12", normed),
        [
            "batch normalization takes its statistics from a microbatch, and 1 is few samples; set [run] \
             partitions so that batch / partitions is 16 or more, or leave norm out"
        ]
    );
    assert_eq!(
        told("batch = 32\npartitions = 2", normed),
        Vec::<String>::new()
    );
    assert_eq!(
        told("batch = 12\npartitions = 12", plain),
        Vec::<String>::new()
    );
}
