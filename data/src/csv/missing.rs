//! Missing cells filled by their column's mean over the training rows, so that no test row is seen.

use std::path::Path;

use resilin_learn::dataset::DataError;

use crate::rows::Rows;

/// One mean a column; `None` where no training row has a value.
pub(crate) struct Means(Vec<Option<f32>>);

impl Means {
    /// Means over these rows: sums in f64 in row order, rounded once.
    pub(crate) fn of(rows: &Rows, ids: &[u32]) -> Self {
        let mut sums = vec![(0.0f64, 0u64); rows.width];
        for id in ids {
            let start = *id as usize * rows.width;
            for (sum, value) in sums.iter_mut().zip(&rows.values[start..]) {
                if !value.is_nan() {
                    sum.0 += f64::from(*value);
                    sum.1 += 1;
                }
            }
        }
        let mean = |(sum, count): (f64, u64)| (count > 0).then(|| (sum / count as f64) as f32);
        Self(sums.into_iter().map(mean).collect())
    }

    /// Fills every NaN; `names` are those of the columns, `path` is where they are from.
    pub(crate) fn fill(
        &self,
        rows: &mut Rows,
        names: &[String],
        path: &Path,
    ) -> Result<(), DataError> {
        let width = rows.width;
        for (index, value) in rows.values.iter_mut().enumerate() {
            if value.is_nan() {
                let column = index % width;
                *value = self.0[column].ok_or_else(|| {
                    DataError(format!(
                        "{}: column {} has no value in any training row: leave it out with columns",
                        path.display(),
                        names[column]
                    ))
                })?;
            }
        }
        Ok(())
    }
}
