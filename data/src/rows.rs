//! Rows on their way in: before the split, and before missing cells are filled.

use std::path::Path;

use resilin_learn::dataset::{DataError, Targets};

/// Dense rows with targets. A cell that is missing is NaN until it is filled; readers refuse every
/// other value that is not finite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// Values in a row.
    pub width: usize,
    /// `rows * width` values, row-major.
    pub values: Vec<f32>,
    /// One target a row.
    pub targets: Targets,
}

impl Rows {
    /// Number of rows.
    #[must_use]
    pub fn count(&self) -> usize {
        match &self.targets {
            Targets::Classes(classes) => classes.len(),
            Targets::Values { width: 0, .. } => 0,
            Targets::Values { width, values } => values.len() / width,
        }
    }

    /// Divides every value by the job file's `scale`; `path` is where the rows are from.
    pub(crate) fn divide(&mut self, scale: f32, path: &Path) -> Result<(), DataError> {
        if scale == 1.0 {
            return Ok(());
        }
        for value in &mut self.values {
            let scaled = *value / scale;
            if !scaled.is_finite() {
                return Err(DataError(format!(
                    "{}: {value} / {scale} is beyond f32 (3.4e38): choose a larger scale",
                    path.display()
                )));
            }
            *value = scaled;
        }
        Ok(())
    }
}
