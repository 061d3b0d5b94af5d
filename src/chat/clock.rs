//! The time of day as files hold it: RFC 3339 in UTC, to the second.

use std::time::{SystemTime, UNIX_EPOCH};

/// Now, as `2026-01-31T23:59:59Z`.
pub fn now() -> String {
    // A clock that stands before 1970 is wrong in any case.
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    utc(since.map_or(0, |since| since.as_secs()))
}

/// The moment so many seconds after the beginning of 1970.
pub fn utc(seconds: u64) -> String {
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Whole cycles of 400 years first, so that the loops below are short whatever the clock says.
    let mut year = 1970 + days / 146_097 * 400;
    days %= 146_097;
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let day = days + 1;
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_have_their_dates() {
        // From `date -u -d @N`.
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (12_622_780_800, "2370-01-01T00:00:00Z"),
        ] {
            assert_eq!(utc(seconds), text);
        }
        assert!(now().as_str() > "2024" && now().len() == 20);
    }
}
