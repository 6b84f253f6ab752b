//! Times on the command line, as `500ms`, `60s` or `5m`.

use resilin_chaos::process::plan::LONGEST;
use resilin_core::Span;

/// Whole milliseconds.
pub(super) fn ms(span: Span) -> u64 {
    span.0 / 1_000_000
}

/// A span of at least a millisecond, as `500ms`, `60s` or `5m`.
pub(super) fn span(text: &str) -> Result<Span, String> {
    let expected = || "expected a time such as 500ms, 60s or 5m".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let per_unit = match &text[digits.len()..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(expected()),
    };
    let number: f64 = digits.parse().map_err(|_| expected())?;
    let seconds = number * per_unit;
    match (0.001..=LONGEST.as_secs_f64()).contains(&seconds) {
        true => Ok(Span::from_millis((seconds * 1e3).round() as u64)),
        false => Err(format!("expected 1ms to {}", LONGEST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit() {
        let millis = |text| span(text).map(ms);
        let times = ["500ms", "60s", "1.5s", "2m"].map(millis);
        assert_eq!(times, [Ok(500), Ok(60_000), Ok(1500), Ok(120_000)]);
        for text in ["", "5", "s", "-1s", "0s", "nans", "5h", "1 s", "9999999m"] {
            let error = millis(text).expect_err(text);
            assert!(error.starts_with("expected"), "{text}: {error}");
        }
    }
}
