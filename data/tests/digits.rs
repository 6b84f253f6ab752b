//! The embedded digits: what they hold, and that their split is the same for ever.

use resilin_data::{Holdout, digits};
use resilin_learn::dataset::{Batch, Dataset, TargetKind, Targets};

fn all(set: &dyn Dataset) -> Batch {
    let rows: Vec<u32> = (0..set.manifest().rows as u32).collect();
    let mut batch = Batch::default();
    set.read(&rows, &mut batch).unwrap();
    batch
}

fn counts(targets: &Targets) -> Vec<usize> {
    let Targets::Classes(classes) = targets else {
        panic!("values")
    };
    let mut counts = vec![0; 10];
    classes
        .iter()
        .for_each(|class| counts[*class as usize] += 1);
    counts
}

#[test]
fn whole_set() {
    let split = digits::load(Holdout {
        fraction: 0.0,
        seed: 1,
    })
    .unwrap();
    assert!(split.test.is_none());
    let manifest = split.train.manifest();
    assert_eq!(
        (
            manifest.source.as_str(),
            manifest.rows,
            manifest.width,
            manifest.targets
        ),
        ("digits", 1797, 64, TargetKind::Classes(10))
    );
    // The same bytes hashed by Python's hashlib.
    assert_eq!(
        manifest.digest,
        "bad4b530d214f42a6fde0d41ed917ae44b701209695cdebe9c9eca33b9d09498"
    );
    assert_eq!(manifest.files.len(), 1);
    assert_eq!(manifest.files[0].name, "digits.csv.gz");
    let batch = all(&*split.train);
    assert_eq!(
        (batch.rows, batch.width, batch.features.len()),
        (1797, 64, 1797 * 64)
    );
    assert_eq!(
        counts(&batch.targets),
        [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    );
    assert_eq!(
        batch.features[..6],
        [0.0, 0.0, 0.3125, 0.8125, 0.5625, 0.0625]
    );
}

#[test]
fn the_default_split_covers_every_row_once_and_keeps_its_digests() {
    let split = digits::load(Holdout::default()).unwrap();
    let test = split.test.unwrap();
    assert_eq!(
        (split.train.manifest().rows, test.manifest().rows),
        (1438, 359)
    );
    let (train_rows, test_rows) = (all(&*split.train), all(&*test));
    let mut both = counts(&train_rows.targets);
    for (count, more) in both.iter_mut().zip(counts(&test_rows.targets)) {
        *count += more;
    }
    assert_eq!(both, [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]);
    assert_eq!(
        (
            split.train.manifest().digest.as_str(),
            test.manifest().digest.as_str()
        ),
        (
            "6ec5cfcdc25f799e51c54930c350599413ec5e4fb83f2fc29a42c95d619716ce",
            "1bc2460e2545f2e1d358a23d336dda5359d623c9ab1fc4153fde4af11bb3694c"
        )
    );
}

#[test]
fn reads_are_by_id_in_the_asked_order_and_refuse_others() {
    let split = digits::load(Holdout::default()).unwrap();
    let whole = all(&*split.train);
    let mut batch = whole.clone();
    split.train.read(&[5, 0, 5], &mut batch).unwrap();
    assert_eq!((batch.rows, batch.width), (3, 64));
    for (place, id) in [5, 0, 5].into_iter().enumerate() {
        assert_eq!(
            batch.features[place * 64..(place + 1) * 64],
            whole.features[id * 64..(id + 1) * 64]
        );
    }
    let error = split.train.read(&[1438], &mut batch).unwrap_err();
    assert_eq!(
        error.to_string(),
        "row 1438 was asked for, but there are 1438 rows"
    );
}
