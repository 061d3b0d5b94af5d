//! Figures as words: counts, times, rates, shares. A figure that is not known is a dash, never a zero.

use std::time::Duration;

/// What stands for a figure that is not known.
pub const UNKNOWN: &str = "–";

/// A count with its thousands set apart.
pub fn count(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count and its noun.
pub fn counted(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(n))
}

/// A time in whole seconds, minutes or hours.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} min"),
    }
}

/// A time of which the tenths count while it is short.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if !s.is_finite() || s < 0.0 => UNKNOWN.to_owned(),
        s if s < 10.0 => format!("{s:.1} s"),
        s => time(Duration::from_secs_f64(s.min(1e9).round())),
    }
}

/// A time that may be far below a second.
pub fn brief(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s < 0.1 => format!("{:.1} ms", s * 1e3),
        s if s < 1.0 => format!("{:.0} ms", s * 1e3),
        s => seconds(s),
    }
}

/// [`brief`] of a time that was computed, which may be anything.
pub fn taking(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| UNKNOWN.to_owned(), brief)
}

/// A size in GB.
pub fn gigabytes(bytes: Option<u64>) -> String {
    decimal(bytes.map(|bytes| bytes as f64 / 1e9))
}

/// A size in the unit that suits it.
pub fn size(bytes: u64) -> String {
    match bytes as f64 {
        small if small < 1e9 => format!("{:.1} MB", small / 1e6),
        large => format!("{:.2} GB", large / 1e9),
    }
}

/// A share of one, in per cent.
pub fn share(share: Option<f64>) -> String {
    known(share).map_or_else(
        || UNKNOWN.to_owned(),
        |share| format!("{:.1} %", share * 100.0),
    )
}

/// A rate or size with two decimals.
pub fn decimal(value: Option<f64>) -> String {
    known(value).map_or_else(|| UNKNOWN.to_owned(), |value| format!("{value:.2}"))
}

/// A number of things in some time: as many digits as can be told apart, thousands marked.
pub fn pace(value: Option<f64>) -> String {
    match known(value) {
        None => UNKNOWN.to_owned(),
        Some(value) if value < 10.0 => format!("{value:.1}"),
        Some(value) => count(value as usize),
    }
}

fn known(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(
            [0, 999, 1000, 163_840].map(count),
            ["0", "999", "1,000", "163,840"]
        );
        assert_eq!(
            [2.345, 12.9, 2900.8].map(|v| pace(Some(v))),
            ["2.3", "12", "2,900"]
        );
        assert_eq!(pace(None), UNKNOWN);
        assert_eq!(counted(1, "token"), "1 token");
        assert_eq!(counted(1234, "token"), "1,234 tokens");
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let text = |s| time(Duration::from_secs(s));
        assert_eq!(
            [0, 59, 61, 3725].map(text),
            ["0 s", "59 s", "1 min 01 s", "1 h 02 min"]
        );
        assert_eq!([0.25, 12.4, f64::NAN].map(seconds), ["0.2 s", "12 s", "–"]);
    }

    #[test]
    fn brief_times_and_sizes() {
        let text = |us| brief(Duration::from_micros(us));
        assert_eq!(
            [0, 1_540, 250_400, 1_500_000, 75_000_000].map(text),
            ["0.0 ms", "1.5 ms", "250 ms", "1.5 s", "1 min 15 s"]
        );
        assert_eq!(
            [999_000_000, 1_234_567_890].map(size),
            ["999.0 MB", "1.23 GB"]
        );
        assert_eq!(gigabytes(None), "–");
        assert_eq!(gigabytes(Some(12_345_678_901)), "12.35");
    }

    #[test]
    fn what_is_not_known_is_a_dash() {
        assert_eq!(share(None), "–");
        assert_eq!(share(Some(0.4321)), "43.2 %");
        assert_eq!(decimal(Some(f64::INFINITY)), "–");
        assert_eq!(decimal(Some(3.214)), "3.21");
    }
}
