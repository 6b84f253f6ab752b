//! What rows a model takes, checked before any arithmetic.

use crate::dataset::{Batch, Manifest, TargetKind, Targets};
use crate::model::ModelError;

/// The rows that a model takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Values in a row.
    pub width: usize,
    /// Classes, or values a row.
    pub targets: TargetKind,
}

impl From<&Manifest> for Rows {
    /// The rows of a data set.
    fn from(data: &Manifest) -> Self {
        Self {
            width: data.width as usize,
            targets: data.targets,
        }
    }
}

impl Rows {
    /// Rows of so many values, with one of so many classes each.
    #[must_use]
    pub fn of_classes(width: usize, classes: u32) -> Self {
        Self {
            width,
            targets: TargetKind::Classes(classes),
        }
    }

    /// Values that a model gives for a row: one a class, or one a target value.
    #[must_use]
    pub fn outputs(self) -> usize {
        match self.targets {
            TargetKind::Classes(count) | TargetKind::Values(count) => count as usize,
        }
    }

    /// Whether a batch has such rows.
    ///
    /// # Errors
    /// No row, another width, another kind or number of targets, or a class out of range.
    pub fn check(self, batch: &Batch) -> Result<(), ModelError> {
        self.check_features(batch)?;
        self.check_targets(batch)
    }

    /// The same without a look at the targets: for rows that are only predicted.
    ///
    /// # Errors
    /// No row, or another width.
    pub fn check_features(self, batch: &Batch) -> Result<(), ModelError> {
        let Batch {
            rows,
            width,
            features,
            ..
        } = batch;
        if *rows == 0 {
            return refuse("a batch without rows; leave empty microbatches out".into());
        }
        if *width != self.width || features.len() != rows * width {
            return refuse(format!(
                "{rows} rows of {width} values ({} in all) for a model of {} inputs; give the model the data's width",
                features.len(),
                self.width
            ));
        }
        Ok(())
    }

    fn check_targets(self, batch: &Batch) -> Result<(), ModelError> {
        let Batch { rows, targets, .. } = batch;
        match (targets, self.targets) {
            (Targets::Classes(classes), TargetKind::Classes(count)) => {
                if classes.len() != *rows {
                    return refuse(format!("{} classes for {rows} rows", classes.len()));
                }
                match classes.iter().find(|class| **class >= count) {
                    Some(class) => refuse(format!(
                        "class {class} for a model of {count} classes; classes count from 0"
                    )),
                    None => Ok(()),
                }
            }
            (Targets::Values { width, values }, TargetKind::Values(count)) => {
                if *width != count as usize || values.len() != rows * width {
                    return refuse(format!(
                        "{} target values ({width} a row) for {rows} rows and a model of {count} outputs",
                        values.len()
                    ));
                }
                Ok(())
            }
            (Targets::Classes(_), TargetKind::Values(_)) => {
                refuse("classes for a model of values; use `softmax` or `mlp`".into())
            }
            (Targets::Values { .. }, TargetKind::Classes(_)) => {
                refuse("values for a model of classes; use `linear` or `mlp`".into())
            }
        }
    }
}

/// Whether every value is a whole number below the count of its column.
///
/// # Errors
/// The first that is not, by column.
pub(super) fn check_numbers(
    batch: &Batch,
    count: impl Fn(usize) -> usize,
) -> Result<(), ModelError> {
    for (place, value) in batch.features.iter().enumerate() {
        let column = place % batch.width;
        let count = count(column);
        // A whole number beyond 2^24 has neighbours that are none: ids there are not exact.
        let fits = *value >= 0.0 && *value < count.min(1 << 24) as f32 && value.fract() == 0.0;
        if !fits {
            return refuse(format!(
                "{value} in column {column} is none of {count} ids, which are whole numbers from 0"
            ));
        }
    }
    Ok(())
}

fn refuse(message: String) -> Result<(), ModelError> {
    Err(ModelError(message))
}
