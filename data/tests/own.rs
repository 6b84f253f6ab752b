//! Rows that a program has made itself.

use resilin_data::Table;
use resilin_learn::dataset::{Batch, Dataset, TargetKind, Targets};

fn classes(classes: &[u32]) -> Targets {
    Targets::Classes(classes.to_vec())
}

fn values(width: usize, values: &[f32]) -> Targets {
    let values = values.to_vec();
    Targets::Values { width, values }
}

#[test]
fn a_table_of_rows_counts_them_and_tells_others_apart() {
    let table = |last: f32| {
        let rows = vec![0.0, 1.0, 2.0, last];
        Table::of_rows("mine", 2, rows, classes(&[1, 0]), TargetKind::Classes(3)).unwrap()
    };
    let first = table(3.0);
    let manifest = first.manifest();
    assert_eq!((manifest.rows, manifest.width), (2, 2));
    assert_eq!(manifest.targets, TargetKind::Classes(3));
    assert_eq!(manifest, table(3.0).manifest());
    assert_ne!(manifest.digest, table(4.0).manifest().digest);
    let mut batch = Batch::default();
    first.read(&[1], &mut batch).unwrap();
    assert_eq!(batch.features, [2.0, 3.0]);
    assert_eq!(batch.targets, classes(&[0]));
}

#[test]
fn rows_that_do_not_fit_are_refused_by_name() {
    let two = TargetKind::Classes(2);
    let one = TargetKind::Values(1);
    for (rows, targets, kind, why) in [
        (
            vec![1.0; 3],
            classes(&[0, 1]),
            two,
            "2 targets with 2 values each need 4 values, not 3",
        ),
        (
            vec![1.0, f32::NAN],
            classes(&[0]),
            two,
            "row 0 has NaN in column 1",
        ),
        (
            vec![1.0; 4],
            classes(&[0, 2]),
            two,
            "row 1 is of class 2, of 0..2",
        ),
        (
            vec![1.0; 4],
            classes(&[0, 1]),
            one,
            "classes where values are due",
        ),
        (
            vec![1.0; 4],
            values(1, &[0.0, 1.0]),
            two,
            "values where classes are due",
        ),
        (
            vec![1.0; 2],
            values(2, &[0.0, 1.0]),
            one,
            "give 1 target values a row",
        ),
        (
            vec![1.0; 4],
            values(2, &[0.0; 3]),
            TargetKind::Values(2),
            "need 2 values, not 4",
        ),
        (
            vec![1.0; 4],
            values(1, &[0.0, f32::INFINITY]),
            one,
            "the target of row 1 is not finite",
        ),
        (vec![], classes(&[]), two, "holds 0 rows"),
    ] {
        let refused = Table::of_rows("mine", 2, rows, targets, kind).unwrap_err();
        assert!(refused.0.contains(why), "{refused} lacks {why:?}");
        assert!(refused.0.contains("mine"), "{refused}");
    }
}
