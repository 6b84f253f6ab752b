//! Tables of rows that a program has in memory.

use resilin_learn::dataset::{DataError, TargetKind, Targets};

use crate::rows::Rows;
use crate::table::{Origin, Table};

impl Table {
    /// Rows of a program with a class each; as many classes as the largest says. `source` names them
    /// in messages and checkpoints.
    ///
    /// # Errors
    /// Values that are not finite or not whole rows of `width`, or no rows.
    pub fn of_classes(
        source: &str,
        width: usize,
        values: Vec<f32>,
        classes: Vec<u32>,
    ) -> Result<Self, DataError> {
        let count = classes
            .iter()
            .max()
            .map_or(1, |last| last.saturating_add(1));
        let targets = Targets::Classes(classes);
        Self::of_program(source, width, values, targets, TargetKind::Classes(count))
    }

    /// Rows of a program with `target_width` values each to predict.
    ///
    /// # Errors
    /// Values that are not finite or not whole rows, or no rows.
    pub fn of_values(
        source: &str,
        width: usize,
        values: Vec<f32>,
        target_width: usize,
        targets: Vec<f32>,
    ) -> Result<Self, DataError> {
        let kind = u32::try_from(target_width);
        let kind = kind.map_err(|_| DataError(format!("{source}: too many target values")))?;
        let targets = Targets::Values {
            width: target_width,
            values: targets,
        };
        Self::of_program(source, width, values, targets, TargetKind::Values(kind))
    }

    fn of_program(
        source: &str,
        width: usize,
        values: Vec<f32>,
        targets: Targets,
        kind: TargetKind,
    ) -> Result<Self, DataError> {
        let rows = Rows {
            width,
            values,
            targets,
        };
        let (count, whole) = match &rows.targets {
            Targets::Classes(classes) => (classes.len(), true),
            Targets::Values { width, values } => {
                let count = values.len() / (*width).max(1);
                (count, count * width == values.len())
            }
        };
        if rows.values.len() != count * width || !whole {
            return Err(DataError(format!(
                "{source}: {} values are not rows of {width} for {count} targets; give each row both",
                rows.values.len()
            )));
        }
        let targets: &[f32] = match &rows.targets {
            Targets::Classes(_) => &[],
            Targets::Values { values, .. } => values,
        };
        let odd = |values: &[f32]| values.iter().position(|value| !value.is_finite());
        if let Some(place) = odd(&rows.values).or_else(|| odd(targets)) {
            return Err(DataError(format!(
                "{source}: value {place} is not finite; fill or drop its row first"
            )));
        }
        let origin = Origin {
            source: source.into(),
            files: Vec::new(),
            missing: "refuse".into(),
        };
        Self::new(origin, rows, kind)
    }
}

#[cfg(test)]
mod tests {
    use resilin_learn::dataset::{Batch, Dataset};

    use super::*;

    #[test]
    fn rows_come_back_as_they_were_given() {
        let table = Table::of_classes("t", 2, vec![1.0, 2.0, 3.0, 4.0], vec![2, 0]).unwrap();
        assert_eq!(table.manifest().targets, TargetKind::Classes(3));
        let mut batch = Batch::default();
        table.read(&[1, 0], &mut batch).unwrap();
        assert_eq!(batch.features, [3.0, 4.0, 1.0, 2.0]);
        assert_eq!(batch.targets, Targets::Classes(vec![0, 2]));
        let table = Table::of_values("t", 1, vec![1.0, 2.0], 2, vec![5.0, 6.0, 7.0, 8.0]);
        table.unwrap().read(&[1], &mut batch).unwrap();
        let values = vec![7.0, 8.0];
        assert_eq!(batch.targets, Targets::Values { width: 2, values });
    }

    #[test]
    fn what_is_no_row_is_refused_by_its_place() {
        let said = |table: Result<Table, DataError>| table.expect_err("no table").to_string();
        let short = said(Table::of_classes("t", 2, vec![1.0, 2.0, 3.0], vec![0, 1]));
        assert!(
            short.contains("3 values are not rows of 2 for 2 targets"),
            "{short}"
        );
        let torn = said(Table::of_values("t", 1, vec![1.0], 2, vec![1.0, 2.0, 3.0]));
        assert!(torn.contains("are not rows"), "{torn}");
        let odd = said(Table::of_classes("t", 1, vec![1.0, f32::NAN], vec![0, 1]));
        assert!(odd.contains("value 1 is not finite"), "{odd}");
        let odd = said(Table::of_values("t", 1, vec![1.0], 1, vec![f32::INFINITY]));
        assert!(odd.contains("value 0 is not finite"), "{odd}");
        let none = said(Table::of_classes("t", 1, Vec::new(), Vec::new()));
        assert!(none.contains("0 rows"), "{none}");
    }
}
