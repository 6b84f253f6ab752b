//! CSV as people really have it: exact values, or one line that says where and what to do.

mod common;

use std::fs;

use common::{WHOLE, all, classes, counts, fixture, labels, refusal};
use resilin_data::csv::{Column, Config, Header, Missing, load};
use resilin_data::{Holdout, Target};
use resilin_learn::dataset::{Batch, DataError, Split, TargetKind, Targets};

fn quirk(name: &str) -> Config {
    Config {
        holdout: WHOLE,
        ..Config::new(fixture("quirks").join(name))
    }
}

fn column(name: &str) -> Column {
    Column::Named(name.into())
}

fn rows(config: &Config) -> Batch {
    all(&*load(config).unwrap().train)
}

/// Loads a file with this content.
fn written(
    content: impl AsRef<[u8]>,
    change: impl FnOnce(&mut Config),
) -> Result<Split, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.csv");
    fs::write(&path, content).unwrap();
    let mut config = Config {
        holdout: WHOLE,
        ..Config::new(&path)
    };
    change(&mut config);
    let shown = path.display().to_string();
    load(&config).map_err(|error| DataError(error.0.replace(&shown, "rows.csv")))
}

fn sum(batch: &Batch) -> f64 {
    batch.features.iter().map(|value| f64::from(*value)).sum()
}

#[test]
fn all_members_of_a_gzip_file() {
    let batch = rows(&quirk("q01_multi_member.csv.gz"));
    assert_eq!((batch.rows, batch.width), (6, 2));
    assert_eq!(counts(&batch, 2), [3, 3]);
    let x0: f32 = batch.features.iter().step_by(2).sum();
    assert_eq!(x0, 36.0);
}

#[test]
fn byte_order_mark_and_crlf() {
    let by_name = Config {
        columns: Some(vec![column("height"), column("weight")]),
        target_column: column("y"),
        ..quirk("q02_bom_quoted_header.csv")
    };
    let batch = rows(&by_name);
    assert_eq!(batch.features, [1.5, 60.0, 1.8, 80.0]);
    assert_eq!(batch.targets, Targets::Classes(vec![0, 1]));
}

#[test]
fn quoted_newlines() {
    let config = Config {
        columns: Some(vec![column("id")]),
        ..quirk("q03_quoted_newlines.csv.gz")
    };
    let batch = rows(&config);
    assert_eq!((batch.rows, sum(&batch)), (1041, 541_320.0));
    assert_eq!(counts(&batch, 2), [521, 520]);
}

#[test]
fn a_late_fraction_is_exact_and_late_garbage_is_refused() {
    let batch = rows(&quirk("q04_late_float.csv.gz"));
    assert_eq!((batch.rows, sum(&batch)), (5001, 14_995.5));
    assert_eq!(
        refusal(load(&quirk("q04_late_garbage.csv.gz"))),
        "q04_late_garbage.csv.gz, line 5003 (row 5002), column a: \"9a\" is no number: correct it, \
         or choose other columns"
    );
}

#[test]
fn missing_cells_are_refused_dropped_or_filled_but_never_zero() {
    let with = |missing| Config {
        missing,
        ..quirk("q05_missing.csv")
    };
    assert_eq!(
        refusal(load(&with(Missing::Refuse))),
        "q05_missing.csv, line 3 (row 2), column x: \"\" is a missing value: correct it, or set \
         missing = \"drop\" or \"mean\""
    );
    let dropped = rows(&with(Missing::Drop));
    assert_eq!(dropped.features, [1.0, 2.5]);
    assert_eq!(dropped.targets, Targets::Classes(vec![0, 1]));
    let split = load(&with(Missing::Mean)).unwrap();
    assert_eq!(split.train.manifest().missing, "mean");
    let filled = all(&*split.train);
    assert_eq!(filled.features, [1.0, 1.75, 1.75, 1.75, 1.75, 2.5]);
    assert_eq!(filled.targets, Targets::Classes(vec![0, 1, 0, 1, 0, 1]));
}

#[test]
fn means_come_from_training_rows_only() {
    let folder = tempfile::tempdir().unwrap();
    let (train, test) = (
        folder.path().join("train.csv"),
        folder.path().join("test.csv"),
    );
    fs::write(&train, "x,y\n1,0\n3,1\n,1\n").unwrap();
    fs::write(&test, "x,y\n,0\n100,1\n").unwrap();
    let config = Config {
        missing: Missing::Mean,
        test_path: Some(test),
        ..Config::new(&train)
    };
    let split = load(&config).unwrap();
    assert_eq!(all(&*split.train).features, [1.0, 3.0, 2.0]);
    assert_eq!(all(&*split.test.unwrap()).features, [2.0, 100.0]);
}

#[test]
fn missing_targets_are_dropped_or_refused() {
    let dropped = written("x,y\n1,0\n2,\n3,1\n", |c| c.missing = Missing::Drop).unwrap();
    assert_eq!(all(&*dropped.train).features, [1.0, 3.0]);
    assert_eq!(
        refusal(written("x,y\n1,0\n2,\n", |c| c.missing = Missing::Mean)),
        "rows.csv, line 3 (row 2), column y: the target \"\" is missing: correct it, or set \
         missing = \"drop\""
    );
    assert_eq!(
        refusal(written("x,z,y\n1,,0\n2,?,1\n", |c| c.missing = Missing::Mean)),
        "rows.csv: column z has no value in any training row: leave it out with columns"
    );
}

#[test]
fn labels_that_are_no_class() {
    let with = |name, target| Config {
        target,
        ..quirk(name)
    };
    assert_eq!(
        refusal(load(&with("q07_label_fraction.csv", classes(2)))),
        "q07_label_fraction.csv, line 3 (row 2), column y: label \"1.5\" is no whole number: list \
         all labels in labels = [...], or set target = \"value\""
    );
    assert_eq!(
        refusal(load(&with("q07_label_minus_one.csv", classes(2)))),
        "q07_label_minus_one.csv, line 3 (row 2), column y: label -1 is outside 0..2 (labels run \
         from -1 to 1): correct classes, or list all labels in labels = [...]"
    );
    assert_eq!(
        refusal(load(&with("q07_labels_1_to_10.csv", classes(10)))),
        "q07_labels_1_to_10.csv, line 11 (row 10), column y: label 10 is outside 0..10 (labels \
         run from 1 to 10): correct classes, or list all labels in labels = [...]"
    );
    assert_eq!(
        refusal(load(&quirk("q07_labels_1_to_10.csv"))),
        "q07_labels_1_to_10.csv: labels run from 1 to 10 and none is 0: list them in labels = [...], or set classes = 11 \
         if the lower classes really exist"
    );
}

#[test]
fn listed_labels_are_renumbered() {
    let names: Vec<String> = (1..=10).map(|label| label.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let split = load(&Config {
        target: labels(&names),
        ..quirk("q07_labels_1_to_10.csv")
    })
    .unwrap();
    assert_eq!(split.train.manifest().targets, TargetKind::Classes(10));
    assert_eq!(counts(&all(&*split.train), 10), [5; 10]);
    let text = written("2,b\n1,a\n3,b\n", |c| c.target = labels(&["a", "b"])).unwrap();
    assert_eq!(all(&*text.train).targets, Targets::Classes(vec![1, 0, 1]));
    assert_eq!(
        refusal(written("2,c\n", |c| c.target = labels(&["a", "b"]))),
        "rows.csv, line 1 (row 1), column 1: label \"c\" is not in labels = [\"a\", \"b\"]: add it \
         or correct the value"
    );
    assert_eq!(
        refusal(written("2,1\n", |c| c.target = labels(&["1", "+1"]))),
        "labels lists \"+1\" twice"
    );
}

#[test]
fn values_that_are_not_finite() {
    assert_eq!(
        refusal(load(&quirk("q08_nan_inf.csv"))),
        "q08_nan_inf.csv, line 3 (row 2), column x1: \"inf\" is infinite or beyond f32 (3.4e38): \
         correct the value"
    );
    for (row, shown) in [("-Infinity,4,0", "-Infinity"), ("1e39,6,0", "1e39")] {
        assert_eq!(
            refusal(written(format!("x0,x1,y\n{row}\n"), |c| c.missing = Missing::Drop)),
            format!(
                "rows.csv, line 2 (row 1), column x0: \"{shown}\" is infinite or beyond f32 \
                 (3.4e38): correct the value"
            )
        );
    }
    assert_eq!(
        refusal(written("x0,x1,y\n5,NaN,1\n", |_| {})),
        "rows.csv, line 2 (row 1), column x1: \"NaN\" is a missing value: correct it, or set \
         missing = \"drop\" or \"mean\""
    );
}

#[test]
fn directories_are_read_in_the_order_of_their_names() {
    let split = load(&quirk("q10_dir")).unwrap();
    assert_eq!(all(&*split.train).features, [1.0, 10.0, 2.0]);
    let names: Vec<&str> = split
        .train
        .manifest()
        .files
        .iter()
        .map(|file| file.name.as_str())
        .collect();
    assert_eq!(
        names,
        [
            "part-1.csv",
            "part-10.csv",
            "part-2.csv",
            "part-3.csv",
            "part-4.csv"
        ]
    );
    // Printed by sha256sum.
    let empty = &split.train.manifest().files[4];
    assert_eq!(
        (empty.bytes, empty.sha256.as_str()),
        (
            0,
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        )
    );
}

#[test]
fn parts_with_other_headers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.csv"), "x,z,y\n1,2,0\n").unwrap();
    fs::write(folder.path().join("b.csv"), "z,x,y\n2,1,0\n").unwrap();
    assert_eq!(
        refusal(load(&Config::new(folder.path()))),
        format!(
            "{}/b.csv, line 1: the header differs from that of the first file: give all parts the \
             same one",
            folder.path().display()
        )
    );
}

#[test]
fn widths_quotes_and_lines() {
    assert_eq!(
        refusal(written("x,y\r\n\r\n1,0\r\n1,2,0\r\n", |_| {})),
        "rows.csv, line 4 (row 2): 3 columns, but 2 before: make all rows equally wide"
    );
    assert_eq!(
        refusal(written("x,y\n1,0\n\"2,1\n3,1\n", |_| {})),
        "rows.csv, line 3: a quote is never closed: close it"
    );
    assert_eq!(
        refusal(written("x,y\n\"1\"5,0\n", |_| {})),
        "rows.csv, line 2: text follows a closing quote: remove it"
    );
    let batch = all(&*written("\r1;\"0\"\r\"2\";1", |c| c.delimiter = b';')
        .unwrap()
        .train);
    assert_eq!(batch.features, [1.0, 2.0]);
    assert_eq!(batch.targets, Targets::Classes(vec![0, 1]));
}

#[test]
fn lines_are_counted_exactly() {
    for (content, line, row) in [
        ("x,y\r\n\r\n\r\n1,0\r\na,1\r\n", 5, 2),
        ("\n\nx,y\n\n1,0\na,1", 6, 2),
        ("x,y\r1,0\r\ra,1\r", 4, 2),
        ("x,y\n\"1\n\",0\n\"\r\n2\r\n\",1\r\na,1\n", 7, 3),
        ("\u{feff}x,\"y\r\n\"\r\na,1\r\n", 3, 1),
    ] {
        assert_eq!(
            refusal(written(content, |_| {})),
            format!(
                "rows.csv, line {line} (row {row}), column x: \"a\" is no number: correct it, or \
                 choose other columns"
            ),
            "{content:?}"
        );
    }
}

#[test]
fn quotes_are_closed_and_rows_bounded() {
    let open = "rows.csv, line 2: a quote is never closed: close it";
    let text = "rows.csv, line 3: text follows a closing quote: remove it";
    for (row, expected) in [
        ("1,\"", open),
        ("1,\"0\n", open),
        ("1,\"0\"\"\n2,1\n", open),
        ("\"\"\"1\n\" ,0\n", text),
        ("1,\"\n0\"0\"", text),
        ("1,\"\n0\"0,\"1", text),
    ] {
        let content = format!("x,y\n{row}");
        assert_eq!(refusal(written(&content, |_| {})), expected, "{content:?}");
    }
    assert_eq!(
        refusal(written(
            format!("x,y\n\n\"{}", "1\n".repeat(9 << 20)),
            |_| {}
        )),
        "rows.csv, line 3: a row is longer than 16 MiB: close its quote"
    );
    let allowed = written("x,t,y\n1,a\"b,0\n2,\"\"\"\n\"\"\",\"1\"", |c| {
        c.columns = Some(vec![column("x")]);
    });
    let batch = all(&*allowed.unwrap().train);
    assert_eq!(batch.features, [1.0, 2.0]);
    assert_eq!(batch.targets, Targets::Classes(vec![0, 1]));
}

#[test]
fn a_line_of_counts_is_skipped() {
    for (name, width, firsts) in [
        ("q12_counts_iris.csv", 4, [5.25, 7.5, 6.25]),
        ("q12_counts_cancer.csv", 3, [18.5, 13.25, 12.0]),
    ] {
        let skipped = Config {
            skip_rows: 1,
            ..quirk(name)
        };
        let batch = rows(&skipped);
        assert_eq!((batch.rows, batch.width), (3, width), "{name}");
        let first: Vec<f32> = batch.features.iter().step_by(width).copied().collect();
        assert_eq!(first, firsts, "{name}");
    }
    assert_eq!(
        refusal(load(&quirk("q12_counts_cancer.csv"))),
        "q12_counts_cancer.csv, line 1 (row 1), column 2: \"malignant\" is no number: correct it; \
         if the line holds names, set header = \"yes\""
    );
}

#[test]
fn skipped_lines_may_hold_anything_and_are_counted() {
    let skip = |count| move |c: &mut Config| c.skip_rows = count;
    // A quote that is never closed, a blank line, a byte-order mark; and each kind of line end.
    let content = "\u{feff}\"of 1998\r\n\r\nx,y\r1,0\n2,1,3\n";
    assert_eq!(
        refusal(written(content, skip(2))),
        "rows.csv, line 5 (row 2): 3 columns, but 2 before: make all rows equally wide"
    );
    let named = written("1\r\u{feff}x,y\r1,0\r", |c| {
        c.skip_rows = 1;
        c.target_column = column("y");
        c.columns = Some(vec![column("x")]);
    });
    assert_eq!(all(&*named.unwrap().train).features, [1.0]);
    let error = refusal(written("x,y\n1,0\n", skip(9)));
    assert!(error.starts_with("rows.csv holds 0 rows of "), "{error}");
}

#[test]
fn columns_by_name_and_number() {
    let chosen = |config: &mut Config| {
        config.columns = Some(vec![column("2"), column("0")]);
        config.target_column = column("1");
        config.target = Target::Value;
        config.scale = 2.0;
    };
    let split = written("1,0.25,3\n4,-1,6\n", chosen).unwrap();
    assert_eq!(split.train.manifest().targets, TargetKind::Values(1));
    assert_eq!(
        refusal(written("1e38,0\n", |c| c.scale = 0.1)),
        "rows.csv: 100000000000000000000000000000000000000 / 0.1 is beyond f32 (3.4e38): choose a \
         larger scale"
    );
    let batch = all(&*split.train);
    assert_eq!(batch.features, [1.5, 0.5, 3.0, 2.0]);
    assert_eq!(
        batch.targets,
        Targets::Values {
            width: 1,
            values: vec![0.25, -1.0]
        }
    );
    assert_eq!(
        refusal(written("a,b\n1,0\n", |c| c.target_column = column("c"))),
        "rows.csv, line 1: no column is called \"c\": there are a, b"
    );
    assert_eq!(
        refusal(written("a;b\n1;0\n", |_| {})),
        "rows.csv, line 1: only the target column is left: rows need at least one feature; is the \
         delimiter right?"
    );
    assert_eq!(
        refusal(written("7,b,1\n1,2,0\n", |_| {})),
        "rows.csv, line 1 (row 1), column 1: \"b\" is no number: correct it; if the line holds names, set header = \"yes\""
    );
    let numbers_as_names = written("7,b,y\n1,2,0\n", |c| c.header = Header::Yes).unwrap();
    assert_eq!(all(&*numbers_as_names.train).features, [1.0, 2.0]);
}

#[test]
fn nothing_to_read() {
    for content in ["", "x,y\n", "\n\n"] {
        let error = refusal(written(content, |_| {}));
        assert!(
            error.starts_with("rows.csv holds 0 rows of "),
            "{content:?}: {error}"
        );
    }
    let absent = fixture("quirks/absent.csv");
    assert_eq!(
        refusal(load(&Config::new(absent))),
        "absent.csv does not exist: correct the path in [data], or say --data DIR"
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("_SUCCESS"), "").unwrap();
    let error = refusal(load(&Config::new(folder.path())));
    assert!(error.ends_with("holds no data file (hidden, `_` and .crc names do not count)"));
}

#[test]
fn held_out_rows_follow_their_own_seed() {
    let content: String = (0..50).map(|row| format!("{row},0\n")).collect();
    let test_rows = |seed| {
        let split = written(&content, |c| {
            c.holdout = Holdout {
                fraction: 0.3,
                seed,
            }
        })
        .unwrap();
        let (train, test) = (
            all(&*split.train).features,
            all(&*split.test.unwrap()).features,
        );
        assert_eq!((train.len(), test.len()), (35, 15), "seed {seed}");
        assert!(train.is_sorted() && test.is_sorted(), "seed {seed}");
        let mut both = [train, test.clone()].concat();
        both.sort_by(f32::total_cmp);
        assert_eq!(
            both,
            (0..50).map(|row| row as f32).collect::<Vec<f32>>(),
            "seed {seed}"
        );
        test
    };
    assert_eq!(test_rows(1), test_rows(1));
    assert_ne!(test_rows(1), test_rows(2));
    let single = written("1,0\n", |c| c.holdout.fraction = 0.9).unwrap();
    assert!(single.test.is_none(), "one row stays for training");
}

#[test]
fn a_wide_table_is_read_in_time_that_follows_its_width() {
    const WIDTH: usize = 200_000;
    let row = vec!["1"; WIDTH].join(",");
    let split = written(format!("{row}\n{row}\n"), |config| {
        config.target = Target::Value;
    });
    assert_eq!(split.unwrap().train.manifest().width as usize, WIDTH - 1);
}
