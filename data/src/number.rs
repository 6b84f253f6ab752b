//! One cell to one finite f32, or why not.

/// What a cell holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Cell {
    /// A finite number, rounded to the nearest f32.
    Number(f32),
    /// Nothing, or one of the usual markers for it.
    Missing,
    /// Infinity as such, or beyond the range of f32.
    TooLarge,
    /// Text.
    Text,
}

/// Markers of R, pandas, SQL, spreadsheets and ML.NET besides NaN, compared without regard to case.
const MISSING: [&str; 8] = ["", "na", "n/a", "#n/a", "?", "null", "none", "-"];

/// Reads a cell; blanks around it do not count.
pub(crate) fn cell(text: &str) -> Cell {
    let text = text.trim();
    match text.parse::<f32>() {
        Ok(value) if value.is_finite() => Cell::Number(value),
        Ok(value) if value.is_nan() => Cell::Missing,
        Ok(_) => Cell::TooLarge,
        Err(_)
            if MISSING
                .iter()
                .any(|marker| text.eq_ignore_ascii_case(marker)) =>
        {
            Cell::Missing
        }
        Err(_) => Cell::Text,
    }
}

/// Why a cell that must hold a number does not, with what to do.
pub(crate) fn complaint(text: &str, cell: Cell) -> String {
    let text = quoted(text);
    match cell {
        Cell::Number(_) => format!("{text} is a number"),
        Cell::Missing => format!("{text} is a missing value: correct it"),
        Cell::TooLarge => format!("{text} is infinite or beyond f32 (3.4e38): correct the value"),
        Cell::Text => format!("{text} is no number: correct it"),
    }
}

/// A value as errors show it: bounded, on one line.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 40;
    let shown: String = text.chars().take(SHOWN).collect();
    if shown.len() < text.len() {
        format!("{shown:?}...")
    } else {
        format!("{shown:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_exact_missing_or_refused() {
        let cases = [
            ("1.5", Cell::Number(1.5)),
            (" +4.0\t", Cell::Number(4.0)),
            ("1e-3", Cell::Number(0.001)),
            ("-0", Cell::Number(-0.0)),
            ("", Cell::Missing),
            (" N/A ", Cell::Missing),
            ("-nan", Cell::Missing),
            ("inf", Cell::TooLarge),
            ("-Infinity", Cell::TooLarge),
            ("1e39", Cell::TooLarge),
            ("9a", Cell::Text),
            ("1,5", Cell::Text),
        ];
        for (text, expected) in cases {
            assert_eq!(cell(text), expected, "{text:?}");
        }
    }

    #[test]
    fn long_values_are_cut_in_errors() {
        assert_eq!(quoted("a\nb"), "\"a\\nb\"");
        assert_eq!(
            quoted(&"x".repeat(50)),
            format!("\"{}\"...", "x".repeat(40))
        );
    }
}
