//! What must hold for the whole repository and no compiler checks: lengths of files, calls that are
//! not made, links that lead somewhere, and crates that stay free of the world.
//!
//! It reads the repository around this crate and needs no build of the others.

use std::fs;
use std::path::{Path, PathBuf};

/// Most lines of a Rust file without its tests.
const LONGEST: usize = 400;

/// The folders at the top whose README says what they are for.
const FOLDERS: [&str; 14] = [
    "actors",
    "bench",
    "chaos-tests",
    "checkpoint",
    "core",
    "data",
    "deploy",
    "docs",
    "examples",
    "foreign",
    "learn",
    "python",
    "src",
    "tests",
];

/// What no file contains, tests included. Written in parts, so that this file does not either.
const NOWHERE: [&str; 3] = [
    concat!("to", "do!("),
    concat!("unimplemented", "!("),
    concat!("#[", "ignore"),
];

/// A thread that sleeps notices nothing; waiting is for a deadline or an event.
const SLEEP: &str = concat!("thread::", "sleep");

/// Files that may sleep: they poll a lock, which tells nobody when it is free, or measure what happens
/// while a process stands still for so long.
const SLEEPERS: [&str; 3] = [
    "checkpoint/src/lock.rs",
    "checkpoint/src/state.rs",
    "src/commands/bench/memory.rs",
];

/// The crates whose results are pure functions.
const PURE: [&str; 2] = ["core", "learn"];

/// What would let the world, the platform or chance into them (docs/numerics.md), beside what their
/// `clippy.toml` forbids.
const IMPURE: [&str; 13] = [
    "std::fs",
    "std::net",
    "std::thread",
    "std::process",
    "std::env",
    "Instant",
    "SystemTime",
    "HashMap",
    "HashSet",
    "mul_add(",
    ".powi(",
    ".powf(",
    ".dot(",
];

/// Packages that bring files, sockets or a runtime.
const WORLDLY: [&str; 7] = [
    "actix",
    "actix-web",
    "rustix",
    "sled",
    "socket2",
    "tokio",
    "ureq",
];

#[test]
fn files_are_short_enough_to_read_at_once() {
    let long: Vec<String> = rust_files()
        .iter()
        .filter(|file| !file.is_test())
        .map(|file| (file, file.lines_without_tests().count()))
        .filter(|(_, lines)| *lines > LONGEST)
        .map(|(file, lines)| format!("{}: {lines} lines", file.name))
        .collect();
    assert_eq!(long, [""; 0], "over {LONGEST} lines: one idea a file");
}

#[test]
fn nothing_is_left_open_and_nothing_sleeps() {
    let mut found = Vec::new();
    for file in rust_files() {
        for (number, line) in file.lines() {
            let open = NOWHERE.iter().any(|word| line.contains(word));
            let sleeps = line.contains(SLEEP) && !SLEEPERS.contains(&file.name.as_str());
            if open || sleeps {
                found.push(format!("{}:{number}: {}", file.name, line.trim()));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn files_that_may_sleep_do() {
    for name in SLEEPERS {
        let text = fs::read_to_string(root().join(name)).unwrap();
        assert!(text.contains(SLEEP), "{name} need not be listed");
    }
}

#[test]
fn pure_crates_contain_nothing_impure() {
    let mut found = Vec::new();
    for file in rust_files() {
        let folder = file.name.split_once("/src/").map(|(folder, _)| folder);
        if file.is_test() || !folder.is_some_and(|folder| PURE.contains(&folder)) {
            continue;
        }
        for (number, line) in file.lines_without_tests() {
            let code = line.split("//").next().unwrap_or_default();
            if let Some(word) = IMPURE.iter().find(|word| has_word(code, word)) {
                found.push(format!("{}:{number}: {word}", file.name));
            }
        }
    }
    assert_eq!(found, [""; 0]);
}

#[test]
fn pure_crates_need_no_runtime_store_or_socket() {
    for folder in PURE {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        assert!(manifest.contains("[dependencies]"), "{manifest}");
        let names = manifest
            .lines()
            .filter_map(|line| line.split(['.', '=', ' ']).next());
        let worldly: Vec<&str> = names.filter(|name| WORLDLY.contains(name)).collect();
        assert_eq!(worldly, [""; 0], "in {folder}/Cargo.toml");
    }
}

#[test]
fn every_folder_says_what_it_is_for() {
    let silent: Vec<&str> = FOLDERS
        .into_iter()
        .filter(|folder| !root().join(folder).join("README.md").is_file())
        .collect();
    assert_eq!(silent, [""; 0], "without README.md");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let documents = files_with("md");
    assert!(
        documents.len() >= FOLDERS.len(),
        "only {} documents",
        documents.len()
    );
    let mut broken = Vec::new();
    for document in &documents {
        let text = fs::read_to_string(document).unwrap();
        let folder = document.parent().expect("a file is in a folder");
        for target in links(&text) {
            if !folder.join(target).exists() {
                broken.push(format!("{}: {target}", relative(document)));
            }
        }
    }
    assert_eq!(broken, [""; 0]);
}

#[test]
fn links_are_read_as_meant() {
    let text = "[a](b.md) [c](d/e.md#f) [g](https://h.i) [j](#k) ![l](m.svg \"n\")";
    assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "d/e.md", "m.svg"]);
}

#[test]
fn tests_of_a_file_are_told_from_the_rest() {
    let file = |text: &str| Source {
        name: "a.rs".into(),
        text: text.into(),
    };
    let inline = file("a\nb\n#[cfg(test)]\nmod tests {\n    c\n}\n");
    assert_eq!(inline.lines_without_tests().count(), 2);
    let beside = file("a\n#[cfg(test)]\n#[path = \"b.rs\"]\nmod tests;\nc\n");
    assert_eq!(beside.lines_without_tests().count(), 5);
    assert!(has_word("let x: Instant = y;", "Instant"));
    assert!(!has_word("Instantly", "Instant"));
}

/// The relative targets of `[text](target)`, without fragments.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let target = rest.split([')', '#', ' ']).next().unwrap_or_default();
        let relative = !target.is_empty() && !target.contains(':');
        relative.then_some(target)
    })
}

/// Whether `code` has `word` where it is not the beginning of a longer name.
fn has_word(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let after = code[at + word.len()..].chars().next();
        word.ends_with('(') || !after.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

/// A Rust file of the repository.
struct Source {
    /// Path from the top, with `/`.
    name: String,
    text: String,
}

impl Source {
    /// Whether the file is a test as a whole.
    fn is_test(&self) -> bool {
        let (folders, file) = self.name.rsplit_once('/').unwrap_or(("", &self.name));
        file == "tests.rs"
            || file.ends_with("_test.rs")
            || folders.split('/').any(|folder| folder == "tests")
    }

    /// Lines with their numbers, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// The lines before an inline module of tests.
    fn lines_without_tests(&self) -> impl Iterator<Item = (usize, &str)> {
        let tests = self.text.find("\n#[cfg(test)]\nmod tests {");
        let end = tests.map_or(self.text.len(), |newline| newline + 1);
        (1..).zip(self.text[..end].lines())
    }
}

/// All Rust files; never none.
fn rust_files() -> Vec<Source> {
    let read = |path: &PathBuf| Source {
        name: relative(path),
        text: fs::read_to_string(path).unwrap(),
    };
    let files: Vec<Source> = files_with("rs").iter().map(read).collect();
    assert!(files.len() > 100, "only {} files", files.len());
    files
}

/// The files with an extension, sorted; not those that a build or a run made.
fn files_with(extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().expect("an entry has a name");
            let name = name.to_string_lossy();
            let ours = !name.starts_with('.')
                && !["target", "resilin-runs", "shared"].contains(&name.as_ref());
            if ours && path.is_dir() {
                folders.push(path);
            } else if ours && path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent()
        .expect("the crate is in the workspace")
        .to_owned()
}

fn relative(path: &Path) -> String {
    let path = path.strip_prefix(root()).expect("found below the root");
    path.to_string_lossy().replace('\\', "/")
}
