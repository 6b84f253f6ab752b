//! Images and labels in IDX files, as MNIST and its family come.

mod array;

use std::path::{Path, PathBuf};

use resilin_learn::dataset::{DataError, SourceFile, Split, TargetKind};

use crate::input::Input;
use crate::labels::{Reader, Target, with_classes};
use crate::rows::Rows;
use crate::split::{Holdout, cut, pair};
use crate::table::Origin;
use array::{Array, Element};

/// Bytes are brights from 0 to 255: divided by it, features lie in [0, 1].
const BYTE_SCALE: f32 = 255.0;

/// Two files that belong together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// One item a row.
    pub images: PathBuf,
    /// One target a row.
    pub labels: PathBuf,
}

/// Which rows to read, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Rows that are trained on.
    pub train: Files,
    /// Test rows; `None`: held out from `train`.
    pub test: Option<Files>,
    /// What the labels file holds.
    pub target: Target,
    /// Every feature is divided by it; `None`: 255 for unsigned bytes, 1 for the other types.
    pub scale: Option<f32>,
    /// The held-out rows, without `test`.
    pub holdout: Holdout,
}

/// Finds the usual four names in a directory, with or without `.gz`: `train-images-idx3-ubyte`,
/// `train-labels-idx1-ubyte`, and both with `t10k` for test rows, which may be absent.
///
/// # Errors
/// No training images or labels, or only half of the test files.
pub fn usual_files(directory: &Path) -> Result<(Files, Option<Files>), DataError> {
    let file = |name: &str| {
        [
            name.to_owned(),
            format!("{name}.gz"),
            name.replacen("-idx", ".idx", 1),
        ]
        .iter()
        .map(|name| directory.join(name))
        .find(|path| path.is_file())
    };
    let required = |name: &str| {
        file(name).ok_or_else(|| {
            DataError(format!(
                "{} holds no {name} or {name}.gz: correct path, or name the files with \
                 train_images and train_labels",
                directory.display()
            ))
        })
    };
    let train = Files {
        images: required("train-images-idx3-ubyte")?,
        labels: required("train-labels-idx1-ubyte")?,
    };
    let names = ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"];
    if names.iter().all(|name| file(name).is_none()) {
        return Ok((train, None));
    }
    let test = Files {
        images: required(names[0])?,
        labels: required(names[1])?,
    };
    Ok((train, Some(test)))
}

/// Reads training and test rows.
///
/// # Errors
/// A file that is missing, damaged or of another size than its header says, or a label that is no
/// class.
pub fn load(config: &Config) -> Result<Split, DataError> {
    let train = read(&config.train, config, &config.target)?;
    let origin = |files| Origin {
        source: "idx".into(),
        files,
        missing: "refuse".into(),
    };
    let Some(test_files) = &config.test else {
        let ids = config.holdout.ids(train.rows.count());
        return cut(origin(train.files), train.rows, train.kind, ids);
    };
    let test = read(
        test_files,
        config,
        &with_classes(&config.target, train.kind),
    )?;
    if test.rows.width != train.rows.width {
        return Err(DataError(format!(
            "{} has items of {} values, {} of {}: give files of the same shape",
            config.train.images.display(),
            train.rows.width,
            test_files.images.display(),
            test.rows.width
        )));
    }
    let kind = train.kind;
    pair(
        (origin(train.files), train.rows),
        (origin(test.files), test.rows),
        kind,
    )
}

struct Loaded {
    rows: Rows,
    kind: TargetKind,
    files: Vec<SourceFile>,
}

fn read(files: &Files, config: &Config, target: &Target) -> Result<Loaded, DataError> {
    let (images, images_file) = Array::read(Input::open(&files.images)?)?;
    let (labels, labels_file) = Array::read(Input::open(&files.labels)?)?;
    if labels.width != 1 || images.items != labels.items {
        return Err(DataError(format!(
            "{} has {} items, {} has {} items of {} values: give one label for each image",
            images.path, images.items, labels.path, labels.items, labels.width
        )));
    }
    let mut targets = Reader::new(target)?;
    for (item, label) in labels.values().enumerate() {
        targets.push(&label.to_string(), || {
            format!("{}, item {item}", labels.path)
        })?;
    }
    let (targets, kind) = targets.finish(&files.labels)?;
    let mut rows = Rows {
        width: images.width,
        values: features(&images)?,
        targets,
    };
    let usual = match images.element {
        Element::U8 => BYTE_SCALE,
        Element::I8 | Element::I16 | Element::I32 | Element::F32 | Element::F64 => 1.0,
    };
    rows.divide(config.scale.unwrap_or(usual), &files.images)?;
    tracing::info!(
        path = images.path,
        rows = images.items,
        width = images.width,
        element = ?images.element,
        "idx read"
    );
    Ok(Loaded {
        rows,
        kind,
        files: vec![images_file, labels_file],
    })
}

fn features(images: &Array) -> Result<Vec<f32>, DataError> {
    let mut values = Vec::with_capacity(images.items * images.width);
    for (index, exact) in images.values().enumerate() {
        let value = exact as f32;
        if !value.is_finite() {
            return Err(DataError(format!(
                "{}, item {}, value {}: {exact} is not finite or beyond f32 (3.4e38): correct it",
                images.path,
                index / images.width,
                index % images.width
            )));
        }
        values.push(value);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(bytes: &'static [u8]) -> Result<Array, DataError> {
        Array::read(Input::embedded("a.idx", bytes)?).map(|(array, _)| array)
    }

    #[test]
    fn every_element_type_is_read_exactly() {
        let cases: [(&'static [u8], &[f64]); 6] = [
            (b"\0\0\x08\x01\0\0\0\x02\x00\xff", &[0.0, 255.0]),
            (b"\0\0\x09\x01\0\0\0\x02\x7f\xff", &[127.0, -1.0]),
            (b"\0\0\x0b\x01\0\0\0\x02\x01\x00\xff\xfe", &[256.0, -2.0]),
            (b"\0\0\x0c\x01\0\0\0\x01\xff\xff\xff\xfd", &[-3.0]),
            (b"\0\0\x0d\x01\0\0\0\x01\x3f\xc0\0\0", &[1.5]),
            (b"\0\0\x0e\x01\0\0\0\x01\xc0\x04\0\0\0\0\0\0", &[-2.5]),
        ];
        for (bytes, expected) in cases {
            let array = array(bytes).unwrap();
            assert_eq!(
                array.values().collect::<Vec<f64>>(),
                expected,
                "{bytes:02x?}"
            );
        }
    }

    #[test]
    fn values_that_do_not_fit_f32_are_refused_with_their_place() {
        let nan = array(b"\0\0\x0d\x02\0\0\0\x01\0\0\0\x02\0\0\0\0\x7f\xc0\0\0").unwrap();
        let huge = array(b"\0\0\x0e\x01\0\0\0\x01\x7f\xe0\0\0\0\0\0\0").unwrap();
        assert_eq!(
            features(&nan).unwrap_err().to_string(),
            "a.idx, item 0, value 1: NaN is not finite or beyond f32 (3.4e38): correct it"
        );
        let error = features(&huge).unwrap_err().to_string();
        assert!(error.starts_with("a.idx, item 0, value 0: 8988"), "{error}");
    }
}
