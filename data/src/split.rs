//! Training and test rows: cut from one source by keyed randomness, or two sources side by side.

use std::sync::Arc;

use resilin_core::random::{Key, Purpose};
use resilin_learn::dataset::{DataError, Split, TargetKind};

use crate::rows::Rows;
use crate::table::{Origin, Subset, Table};

/// Which rows of a single source are only evaluated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Holdout {
    /// Share of the rows, in [0, 1); the count is rounded, and one row always stays for training.
    pub fraction: f64,
    /// Key of the draw: its own, so that another run seed keeps the same test rows.
    pub seed: u64,
}

impl Default for Holdout {
    fn default() -> Self {
        Self {
            fraction: 0.2,
            seed: 1,
        }
    }
}

/// Row ids of both sides, each ascending, so that `shuffle = "none"` still means file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids {
    /// Rows that are trained on.
    pub train: Vec<u32>,
    /// Rows that are only evaluated.
    pub test: Vec<u32>,
}

impl Holdout {
    /// Draws the test rows of a source with `rows` rows.
    #[must_use]
    pub fn ids(self, rows: usize) -> Ids {
        let rows = u32::try_from(rows).expect("readers refuse 2^32 rows");
        let wanted = (f64::from(rows) * self.fraction).round() as u32;
        let count = wanted.min(rows.saturating_sub(1)) as usize;
        let mut ids: Vec<u32> = (0..rows).collect();
        Key::new(self.seed, Purpose::Split)
            .stream()
            .shuffle(&mut ids);
        let mut train = ids.split_off(count);
        train.sort_unstable();
        ids.sort_unstable();
        Ids { train, test: ids }
    }
}

/// One source cut in two; without test rows the table itself is trained on.
pub(crate) fn cut(
    origin: Origin,
    rows: Rows,
    kind: TargetKind,
    ids: Ids,
) -> Result<Split, DataError> {
    let table = Arc::new(Table::new(origin, rows, kind)?);
    if ids.test.is_empty() {
        return Ok(Split {
            train: table,
            test: None,
        });
    }
    Ok(Split {
        train: Arc::new(Subset::new(Arc::clone(&table), ids.train)?),
        test: Some(Arc::new(Subset::new(table, ids.test)?)),
    })
}

/// Two sources side by side.
pub(crate) fn pair(
    train: (Origin, Rows),
    test: (Origin, Rows),
    kind: TargetKind,
) -> Result<Split, DataError> {
    Ok(Split {
        train: Arc::new(Table::new(train.0, train.1, kind)?),
        test: Some(Arc::new(Table::new(test.0, test.1, kind)?)),
    })
}
