//! What is said of many measurements of one thing.

use serde::Serialize;

/// The middle of some measurements; of an even number, the mean of the two.
///
/// # Panics
/// Without any.
pub(crate) fn median(values: &[f64]) -> f64 {
    assert!(!values.is_empty(), "nothing was measured");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// Times in milliseconds: the middle, what nine of ten do not exceed, and the longest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    /// The median.
    pub(crate) p50_ms: f64,
    /// The smallest that at least nine of ten do not exceed.
    pub(crate) p90_ms: f64,
    /// The longest.
    pub(crate) max_ms: f64,
}

impl Spread {
    /// The spread of some times; `None` without any.
    pub(crate) fn of(times_ms: &[f64]) -> Option<Self> {
        let mut sorted = times_ms.to_vec();
        sorted.sort_by(f64::total_cmp);
        let max_ms = *sorted.last()?;
        Some(Self {
            p50_ms: median(&sorted),
            p90_ms: sorted[(sorted.len() * 9).div_ceil(10) - 1],
            max_ms,
        })
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            p50_ms,
            p90_ms,
            max_ms,
        } = self;
        write!(
            f,
            "p50 {p50_ms:.1} ms, p90 {p90_ms:.1} ms, max {max_ms:.1} ms"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn nine_of_ten_do_not_exceed_the_p90() {
        let spread = |count: u32| Spread::of(&(1..=count).map(f64::from).collect::<Vec<_>>());
        let expected = |p50_ms, p90_ms, max_ms| {
            Some(Spread {
                p50_ms,
                p90_ms,
                max_ms,
            })
        };
        assert_eq!(spread(0), None);
        assert_eq!(spread(1), expected(1.0, 1.0, 1.0));
        assert_eq!(spread(10), expected(5.5, 9.0, 10.0));
        assert_eq!(spread(11), expected(6.0, 10.0, 11.0));
    }
}
