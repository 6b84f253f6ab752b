//! Rows on their way in: before the split, and before missing cells are filled.

use resilin_learn::dataset::Targets;

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

    /// Divides every value by the job file's `scale`.
    pub(crate) fn divide(&mut self, scale: f32) {
        if scale != 1.0 {
            self.values.iter_mut().for_each(|value| *value /= scale);
        }
    }
}
