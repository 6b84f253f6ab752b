//! The sources as `[data] name = "..."` of a job file names them: keys to a configuration, and then
//! the rows. The keys and their defaults are described in `docs/data.md`.

use std::path::Path;

use resilin_core::job::{JobError, Section};
use resilin_learn::dataset::Split;

use crate::{
    csv as csv_files, digits as embedded, idx as idx_files, keys, libsvm as sparse_files,
    numbers as elsewhere, synthetic as computed, text as bytes,
};

/// `name = "digits"`.
///
/// # Errors
/// A key that is wrong.
pub fn digits(section: &mut Section<'_>, _directory: Option<&Path>) -> Result<Split, JobError> {
    let holdout = keys::holdout(section)?;
    embedded::load(holdout).map_err(|error| section.error("name", error))
}

/// `name = "csv"`.
///
/// # Errors
/// A key that is wrong, or files that are refused.
pub fn csv(section: &mut Section<'_>, directory: Option<&Path>) -> Result<Split, JobError> {
    let (path, test_path) = keys::paths(section, directory)?;
    let (target_column, columns) = keys::columns(section)?;
    let config = csv_files::Config {
        path,
        test_path,
        skip_rows: keys::skip_rows(section)?,
        header: keys::header(section)?,
        delimiter: keys::delimiter(section)?,
        target_column,
        columns,
        target: keys::target(section)?,
        missing: keys::missing(section)?,
        scale: keys::scale(section)?,
        holdout: keys::holdout(section)?,
    };
    csv_files::load(&config).map_err(|error| section.error(keys::PATH.name, error))
}

/// `name = "idx"`: a directory with the usual four names, or the files one by one.
///
/// # Errors
/// A key that is wrong or absent, or files that are refused.
pub fn idx(section: &mut Section<'_>, directory: Option<&Path>) -> Result<Split, JobError> {
    let path = section.optional_text(&keys::PATH)?;
    let mut file = |key| {
        let path = section.optional_text(key)?;
        Ok::<_, JobError>(path.map(|path| keys::resolve(directory, path)))
    };
    let train = (file(&keys::TRAIN_IMAGES)?, file(&keys::TRAIN_LABELS)?);
    let test = (file(&keys::TEST_IMAGES)?, file(&keys::TEST_LABELS)?);
    let pair = |(images, labels)| match (images, labels) {
        (Some(images), Some(labels)) => Some(idx_files::Files { images, labels }),
        (None, None) | (Some(_), None) | (None, Some(_)) => None,
    };
    let halves = [&train, &test].map(|(images, labels)| images.is_some() != labels.is_some());
    let refused = |message: &str| Err(section.error(keys::PATH.name, message));
    let (train, test) = match (path, pair(train), pair(test)) {
        _ if halves.contains(&true) => {
            return refused("images and labels go together: set both of train_ or of test_");
        }
        (None, Some(train), test) => (train, test),
        (Some(path), None, None) => idx_files::usual_files(&keys::resolve(directory, path))
            .map_err(|error| section.error(keys::PATH.name, error))?,
        (None, None, _) => return refused("set path, or train_images and train_labels"),
        (Some(_), _, _) => return refused("set either path or the files one by one"),
    };
    let config = idx_files::Config {
        train,
        test,
        target: keys::target(section)?,
        scale: keys::optional_scale(section)?,
        holdout: keys::holdout(section)?,
    };
    idx_files::load(&config).map_err(|error| section.error(keys::PATH.name, error))
}

/// `name = "libsvm"`.
///
/// # Errors
/// A key that is wrong, or files that are refused.
pub fn libsvm(section: &mut Section<'_>, directory: Option<&Path>) -> Result<Split, JobError> {
    let (path, test_path) = keys::paths(section, directory)?;
    let (base, width) = keys::indices(section)?;
    let config = sparse_files::Config {
        path,
        test_path,
        base,
        width,
        target: keys::target(section)?,
        scale: keys::scale(section)?,
        holdout: keys::holdout(section)?,
    };
    sparse_files::load(&config).map_err(|error| section.error(keys::PATH.name, error))
}

/// `name = "numbers"`: the rows are the model's own.
///
/// # Errors
/// A key that is wrong or absent.
pub fn numbers(section: &mut Section<'_>, _directory: Option<&Path>) -> Result<Split, JobError> {
    let (rows, test_rows) = keys::counts(section)?;
    Ok(elsewhere::load(&elsewhere::Config {
        rows,
        test_rows,
        version: keys::version(section)?,
    }))
}

/// `name = "synthetic"`: rows that are computed.
///
/// # Errors
/// A key that is wrong.
pub fn synthetic(section: &mut Section<'_>, _directory: Option<&Path>) -> Result<Split, JobError> {
    Ok(computed::load(&keys::synthetic(section)?))
}

/// `name = "text"`.
///
/// # Errors
/// A key that is wrong, or a file that is refused.
pub fn text(section: &mut Section<'_>, directory: Option<&Path>) -> Result<Split, JobError> {
    let (path, test_path) = keys::paths(section, directory)?;
    let (context, stride) = keys::runs(section)?;
    let config = bytes::Config {
        path,
        test_path,
        context,
        stride,
        test_fraction: keys::end_fraction(section)?,
    };
    bytes::load(&config).map_err(|error| section.error(keys::PATH.name, error))
}
