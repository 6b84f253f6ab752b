use std::fmt::Write as _;

use resilin_core::job::Effective;

use super::*;

/// A section of the job and the names that it may have.
const NAMES: [(&str, &[&str]); 3] = [
    (
        "model",
        &[
            "mlp",
            "softmax",
            "linear",
            "cnn",
            "transformer",
            "factorization",
            "vae",
        ],
    ),
    (
        "optimizer",
        &[
            "momentum", "sgd", "nesterov", "adam", "adamw", "rmsprop", "adagrad",
        ],
    ),
    ("schedule", &["constant", "step", "cosine", "plateau"]),
];

fn task(text: &str, folder: &Path) -> Task {
    let registry = resilin_data::sources(Registry::default());
    let document = Document::parse(text).expect("a job file");
    let task = registry.task(document, Some(folder));
    task.unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// The table of one section, for one name in it.
fn table(effective: &Effective, section: &str) -> String {
    let all = effective.markdown();
    let (_, rest) = all
        .split_once(&format!("### `[{section}]`\n"))
        .expect("the section was read");
    rest.split("### ").next().unwrap_or(rest).to_owned()
}

/// What a name needs beside itself: `linear` predicts values, and `factorization` takes ids.
fn rows(name: &str) -> &'static str {
    match name {
        "factorization" => {
            "fields = [3, 3]\n[data]\nname = \"csv\"\npath = \"ids.csv\"\ntarget = \"value\"\n"
        }
        "linear" => "[data]\nname = \"csv\"\npath = \"rows.csv\"\ntarget = \"value\"\n",
        _ => "",
    }
}

/// The part of `docs/job-file.md` between the names' markers is what the code declares.
#[test]
fn the_reference_of_the_named_sections_is_what_the_code_declares() {
    let folder = tempfile::tempdir().expect("a directory");
    std::fs::write(folder.path().join("rows.csv"), "1,2\n3,4\n5,6\n7,8\n").expect("rows");
    std::fs::write(folder.path().join("ids.csv"), "0,1,2\n1,2,5\n2,0,1\n").expect("rows");
    let mut declared = String::new();
    for (section, names) in NAMES {
        writeln!(declared, "### `[{section}]`\n").expect("a string");
        for name in names {
            let text = format!("[{section}]\nname = \"{name}\"\n{}", rows(name));
            let table = table(&task(&text, folder.path()).effective, section);
            let table = table.trim();
            writeln!(declared, "#### `name = \"{name}\"`\n\n{table}\n").expect("a string");
        }
    }
    let written = include_str!("../docs/job-file.md");
    let written = written
        .split_once("<!-- names: begin -->\n")
        .and_then(|(_, rest)| rest.split_once("<!-- names: end -->"))
        .map_or("", |(between, _)| between);
    assert!(
        written == declared,
        "docs/job-file.md differs from the code; put this between the names' markers:\n{declared}"
    );
}

#[test]
fn the_examples_are_jobs_of_the_runs_that_they_are_named_after() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in [
        "digits",
        "fashion-cnn",
        "fashion-mlp",
        "fashion-softmax",
        "vae",
    ] {
        let text = std::fs::read_to_string(root.join(format!("examples/{name}.toml")));
        let task = task(&text.expect("an example"), root);
        assert_eq!(task.job.run.name, name);
    }
}

#[test]
fn copies_of_shards_need_two_processes() {
    let registry = resilin_data::sources(Registry::default());
    let document = Document::parse("[cluster]\nreplicas = 1\n").expect("a job file");
    let refused = registry
        .task(document, None)
        .map(drop)
        .expect_err("refused");
    assert_eq!(
        refused.to_string(),
        "job file line 2, [cluster] replicas: a copy of each shard needs \
         shard_processes of at least 2, not 0; raise it or set replicas to 0"
    );
}
