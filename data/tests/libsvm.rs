//! Sparse text: indices land where they belong, whichever number they begin with.

mod common;

use std::fs;

use common::{WHOLE, all, counts, fixture, labels, refusal};
use resilin_data::Target;
use resilin_data::libsvm::{Base, Config, load};
use resilin_learn::dataset::{Batch, DataError, Split, TargetKind, Targets};

fn quirk(name: &str) -> Config {
    Config {
        holdout: WHOLE,
        target: labels(&["-1", "1"]),
        ..Config::new(fixture("quirks").join(name))
    }
}

fn written(content: &str, change: impl FnOnce(&mut Config)) -> Result<Split, DataError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.svm");
    fs::write(&path, content).unwrap();
    let mut config = Config {
        holdout: WHOLE,
        ..Config::new(&path)
    };
    change(&mut config);
    let shown = path.display().to_string();
    load(&config).map_err(|error| DataError(error.0.replace(&shown, "rows.svm")))
}

#[test]
fn comments_query_ids_blanks_and_bare_labels() {
    let split = load(&quirk("q11_one_based.svm")).unwrap();
    assert_eq!(
        split.train.manifest().missing,
        "absent is 0, indices from 1"
    );
    let expected = Batch {
        rows: 4,
        width: 3,
        features: vec![
            0.5, 0.0, 2.0, 0.0, 0.001, 0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 4.0,
        ],
        targets: Targets::Classes(vec![1, 0, 1, 0]),
    };
    assert_eq!(all(&*split.train), expected);
}

#[test]
fn the_base_is_settled_once_and_stated() {
    let zero = Config {
        target: Config::new("").target,
        ..quirk("q11_zero_based.svm")
    };
    let split = load(&zero).unwrap();
    assert_eq!(
        split.train.manifest().missing,
        "absent is 0, indices from 0"
    );
    assert_eq!(all(&*split.train).features, [1.0, 0.0, 3.0, 0.0, 2.0, 0.0]);
    assert_eq!(
        refusal(load(&Config {
            base: Base::One,
            ..zero
        })),
        "q11_zero_based.svm, line 1: index 0 with base = 1: set base = 0, or remove base"
    );
    let stated = written("0 1:5\n", |c| c.base = Base::Zero).unwrap();
    assert_eq!(all(&*stated.train).features, [0.0, 5.0]);
}

#[test]
fn training_and_test_files_share_base_and_width() {
    let folder = tempfile::tempdir().unwrap();
    let (train, test) = (folder.path().join("train"), folder.path().join("test"));
    fs::write(&train, "0 1:1\n1 2:2\n").unwrap();
    fs::write(&test, "1 0:7 3:3\n").unwrap();
    let split = load(&Config {
        test_path: Some(test),
        ..Config::new(train)
    })
    .unwrap();
    assert_eq!(
        all(&*split.train).features,
        [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0]
    );
    assert_eq!(all(&*split.test.unwrap()).features, [7.0, 0.0, 0.0, 3.0]);
}

#[test]
fn unsorted_is_sorted_and_doubled_is_refused() {
    let split = load(&quirk("q11_unsorted.svm")).unwrap();
    assert_eq!(all(&*split.train).features, [2.0, 0.0, 1.0]);
    assert_eq!(
        refusal(load(&quirk("q11_duplicate.svm"))),
        "q11_duplicate.svm, line 1: index 2 occurs twice: remove one of them"
    );
}

#[test]
fn refusals_name_the_place() {
    let cases = [
        (
            "0 1:1\n0 1:x\n",
            "rows.svm, line 2, index 1: \"x\" is no number: correct it",
        ),
        (
            "0 1:inf\n",
            "rows.svm, line 1, index 1: \"inf\" is infinite or beyond f32 (3.4e38): correct the value",
        ),
        (
            "0 1:nan\n",
            "rows.svm, line 1, index 1: \"nan\" is no value: leave the entry out where it shall be 0",
        ),
        (
            "0 1=1\n",
            "rows.svm, line 1: \"1=1\" is no index:value: correct it",
        ),
        (
            "0 4294967295:1\n",
            "rows.svm, line 1: \"4294967295:1\" is no index:value: correct it",
        ),
        ("0\n1\n", "rows.svm has no index:value at all: set width"),
        ("", "rows.svm has no index:value at all: set width"),
    ];
    for (content, expected) in cases {
        assert_eq!(refusal(written(content, |_| {})), expected, "{content:?}");
    }
    assert_eq!(
        refusal(written("0 1:1\n1 4:1\n", |c| c.width = Some(3))),
        "rows.svm, line 2: index 4 lies outside width = 3 with indices from 1: correct width or base"
    );
    let large = "0 1:1\n".repeat(3) + "0 4000000000:1\n";
    assert_eq!(
        refusal(written(&large, |_| {})),
        "rows.svm: 4 rows of 4000000000 values do not fit in memory when kept densely: remove \
         large indices, or hash them into fewer"
    );
}

#[test]
fn heart_scale_as_it_comes() {
    let path = fixture("libsvm-heart/heart_scale");
    let config = Config {
        holdout: WHOLE,
        target: labels(&["-1", "1"]),
        ..Config::new(&path)
    };
    let split = load(&config).unwrap();
    let manifest = split.train.manifest();
    assert_eq!(
        (manifest.rows, manifest.width, manifest.targets),
        (270, 13, TargetKind::Classes(2))
    );
    let batch = all(&*split.train);
    assert_eq!(counts(&batch, 2), [150, 120]);
    assert_eq!(
        batch.features[9..14],
        [-0.225_806, 0.0, 1.0, -1.0, 0.583_333]
    );
    let values = load(&Config {
        target: Target::Value,
        ..config
    })
    .unwrap();
    assert_eq!(values.train.manifest().targets, TargetKind::Values(1));
    let Targets::Values { values, .. } = all(&*values.train).targets else {
        panic!("classes")
    };
    assert_eq!(values[..3], [1.0, -1.0, 1.0]);
}
