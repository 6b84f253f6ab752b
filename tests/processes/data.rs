//! Rows that are written are the rows that are computed.

use crate::scene::{Scene, assert_code, assert_success, stderr, stdout};

const JOB: &str = r#"
[run]
epochs = 3
batch = 40
[model]
name = "softmax"
[optimizer]
name = "adam"
"#;

/// The hash of the weights that the rows of a section give.
fn trained(scene: &Scene, data: &str) -> Option<String> {
    scene.write("job.toml", format!("{JOB}{data}\n"));
    let output = scene.run(&["reference", "job.toml", "--report", "report.json"]);
    assert_success(&output);
    let report = scene.report("report.json");
    assert!(report.test_accuracy > Some(0.5), "{report:?}");
    report.weights_sha256
}

#[test]
fn made_files_hold_the_computed_rows() {
    let scene = Scene::new("");
    let rows = "rows = 700\ntest_rows = 130\nwidth = 7\nclasses = 5\nnoise = 0.1\ndata_seed = 3";
    let computed = trained(&scene, &format!("[data]\nname = \"synthetic\"\n{rows}"));
    assert!(computed.is_some());
    for format in ["idx", "csv"] {
        let output = scene.run(&[
            "data",
            "make",
            "made",
            "--rows",
            "700",
            "--test-rows",
            "130",
            "--width",
            "7",
            "--classes",
            "5",
            "--noise",
            "0.1",
            "--seed",
            "3",
            "--format",
            format,
        ]);
        assert_success(&output);
        assert_eq!(trained(&scene, &stdout(&output)), computed, "{format}");
    }
}

#[test]
fn few_rows_of_many_classes_are_read_back_whole() {
    let scene = Scene::new("");
    let weights = |data: &str| {
        scene.write("job.toml", format!("{JOB}{data}\n"));
        let output = scene.run(&["reference", "job.toml", "--report", "report.json"]);
        assert_success(&output);
        scene.report("report.json").weights_sha256
    };
    let rows = "rows = 10\ntest_rows = 0\nwidth = 5\nclasses = 200\ndata_seed = 1";
    let computed = weights(&format!("[data]\nname = \"synthetic\"\n{rows}"));
    for format in ["idx", "csv"] {
        let output = scene.run(&[
            "data",
            "make",
            "made",
            "--rows",
            "10",
            "--test-rows",
            "0",
            "--width",
            "5",
            "--classes",
            "200",
            "--format",
            format,
        ]);
        assert_success(&output);
        assert_eq!(weights(&stdout(&output)), computed, "{format}");
    }
}

#[test]
fn a_place_that_takes_no_files_is_named() {
    let scene = Scene::new("");
    let output = scene.run(&["data", "make", "job.toml"]);
    assert_code(output.status, 1, &output);
    let said = stderr(&output);
    assert!(
        said.contains("cannot write job.toml/train-values-idx2-float"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 1, "{said}");
}
