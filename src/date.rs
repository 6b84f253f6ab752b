//! Dates for people, in UTC.

/// A moment as `2026-01-31 23:59:59.999`, from milliseconds since 1970.
pub(crate) fn utc(unix_ms: u64) -> String {
    let (days, in_day) = (unix_ms / 86_400_000, unix_ms % 86_400_000);
    let (year, month, day) = civil(days);
    let (seconds, ms) = (in_day / 1000, in_day % 1000);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{ms:03}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Year, month and day of a day since 1970 in the Gregorian calendar, counted in eras of 400 years
/// that begin with a March, so that leap days end years.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::utc;

    #[test]
    fn leap_days_and_ends_of_years() {
        let cases = [
            (0, "1970-01-01 00:00:00.000"),
            (951_782_400_000, "2000-02-29 00:00:00.000"),
            (1_709_251_199_999, "2024-02-29 23:59:59.999"),
            (1_735_689_600_001, "2025-01-01 00:00:00.001"),
            (4_107_542_400_000, "2100-03-01 00:00:00.000"),
        ];
        for (ms, text) in cases {
            assert_eq!(utc(ms), text);
        }
    }
}
