//! IDX files: the header is a claim, and the labels are held against the images.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{WHOLE, all, classes, counts, fixture, refusal};
use resilin_data::idx::{Config, Files, load, usual_files};
use resilin_learn::dataset::{Batch, Targets};

fn config(images: PathBuf, labels: PathBuf) -> Config {
    Config {
        train: Files { images, labels },
        test: None,
        target: classes(10),
        scale: None,
        holdout: WHOLE,
    }
}

fn quirk(name: &str) -> PathBuf {
    fixture("quirks").join(name)
}

/// Bytes counting up from 0, one an item.
fn images(folder: &Path, items: u32) -> PathBuf {
    let mut bytes = vec![0, 0, 8, 2];
    bytes.extend_from_slice(&items.to_be_bytes());
    bytes.extend_from_slice(&1u32.to_be_bytes());
    bytes.extend((0..items).map(|item| item as u8));
    let path = folder.join(format!("images-{items}"));
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn all_members_of_a_gzip_file() {
    let folder = tempfile::tempdir().unwrap();
    let labels = quirk("q01_multi_member-labels.idx1-ubyte.gz");
    let split = load(&config(images(folder.path(), 100), labels)).unwrap();
    let batch = all(&*split.train);
    assert_eq!(counts(&batch, 10), [10; 10]);
    assert_eq!(batch.features[..3], [0.0, 1.0 / 255.0, 2.0 / 255.0]);
}

#[test]
fn floats_are_not_scaled() {
    let folder = tempfile::tempdir().unwrap();
    let labels = folder.path().join("labels");
    fs::write(&labels, b"\0\0\x08\x01\0\0\0\x02\x07\x02").unwrap();
    let split = load(&config(quirk("q09_float32.idx2"), labels)).unwrap();
    let expected = Batch {
        rows: 2,
        width: 3,
        features: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        targets: Targets::Classes(vec![7, 2]),
    };
    assert_eq!(all(&*split.train), expected);
}

#[test]
fn sizes_that_differ_from_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let with = |name: &str| refusal(load(&config(images(folder.path(), 10), quirk(name))));
    assert_eq!(
        with("q09_trailing.idx1-ubyte"),
        "q09_trailing.idx1-ubyte: 16 bytes follow the 10 that the header promises (10 elements): \
         cut them off, or correct the header"
    );
    assert_eq!(
        with("q09_truncated.idx1-ubyte"),
        "q09_truncated.idx1-ubyte: the header promises 10 elements (10 bytes), but 9 bytes are \
         there: the file is cut short, fetch it again"
    );
    let huge = quirk("q09_huge_dims.idx3-ubyte");
    assert_eq!(
        refusal(load(&config(huge, quirk("q09_zero_items.idx1-ubyte")))),
        "q09_huge_dims.idx3-ubyte: the header promises 4294967295 x 4294967295 x 4294967295 \
         elements, more than a file can hold: it is damaged, fetch it again"
    );
    let none = images(folder.path(), 0);
    assert_eq!(
        refusal(load(&config(none, quirk("q09_zero_items.idx1-ubyte")))),
        "images-0, q09_zero_items.idx1-ubyte holds 0 rows of 1 values: give at least one of each"
    );
}

#[test]
fn labels_and_images_must_agree() {
    let folder = tempfile::tempdir().unwrap();
    let short = images(folder.path(), 3);
    let labels = quirk("q01_multi_member-labels.idx1-ubyte.gz");
    assert_eq!(
        refusal(load(&config(short.clone(), labels.clone()))),
        format!(
            "{} has 3 items, q01_multi_member-labels.idx1-ubyte.gz has 100 items of 1 values: give \
             one label for each image",
            short.display()
        )
    );
    let too_few = Config {
        target: classes(5),
        ..config(images(folder.path(), 100), labels)
    };
    let error = refusal(load(&too_few));
    assert!(
        error.contains("item 5: label 5 is outside 0..5 (labels run from 0 to 9)"),
        "{error}"
    );
    let text = config(quirk("q02_bom_quoted_header.csv"), short);
    assert_eq!(
        refusal(load(&text)),
        "q02_bom_quoted_header.csv begins with [ef, bb, bf, 22], which is no IDX header (00 00, \
         type 08 09 0b 0c 0d or 0e, dimensions): give an IDX file"
    );
}

#[test]
fn fashion_mnist_as_it_comes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/data/fashion-mnist-7k");
    let (train, test) = usual_files(&folder).unwrap();
    let split = load(&Config {
        test,
        ..config(train.images, train.labels)
    })
    .unwrap();
    let (train, test) = (all(&*split.train), all(&*split.test.unwrap()));
    assert_eq!(
        (train.rows, train.width, test.rows, test.width),
        (6000, 784, 1000, 784)
    );
    assert_eq!(
        counts(&train, 10),
        [560, 643, 608, 612, 584, 594, 590, 617, 590, 602]
    );
    assert_eq!(
        counts(&test, 10),
        [107, 105, 111, 93, 115, 87, 97, 95, 95, 95]
    );
    assert!(
        train
            .features
            .iter()
            .all(|value| (0.0..=1.0).contains(value))
    );
    assert!(train.features.contains(&1.0));
}

#[test]
fn a_directory_without_the_usual_names() {
    let error = usual_files(&fixture("quirks")).unwrap_err().to_string();
    assert!(
        error.ends_with(
            "quirks holds no train-images-idx3-ubyte or train-images-idx3-ubyte.gz: correct path, \
             or name the files with train_images and train_labels"
        ),
        "{error}"
    );
}
