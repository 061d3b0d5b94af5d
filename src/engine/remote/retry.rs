//! When a request is sent again, and after how long. Only one of which nothing was answered yet ever is.

use std::time::{Duration, SystemTime};

use super::Fault;

/// How often, and after how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often at most.
    pub times: u32,
    /// Before the first time; twice as long before each next one.
    pub first: Duration,
    /// The longest wait. A server that asks for more is not waited for.
    pub longest: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            times: 4,
            first: Duration::from_secs(1),
            longest: Duration::from_secs(60),
        }
    }
}

impl Retry {
    /// How long to wait after this fault, if it is to be tried again after it was tried again `before` times already.
    pub(super) fn wait(&self, fault: &Fault, before: u32) -> Option<Duration> {
        if !fault.may_pass() || before >= self.times {
            return None;
        }
        match fault.retry_after() {
            Some(asked) => (asked <= self.longest).then_some(asked),
            None => Some(
                self.first
                    .saturating_mul(1 << before.min(16))
                    .min(self.longest),
            ),
        }
    }
}

/// What `Retry-After` says: seconds, or a date.
pub(super) fn retry_after(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    if let Ok(seconds) = value.parse::<u32>() {
        return Some(Duration::from_secs(seconds.into()));
    }
    let date = httpdate::parse_http_date(value).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, retry_after: Option<u64>) -> Fault {
        Fault::Status {
            host: "box".into(),
            status,
            message: String::new(),
            retry_after: retry_after.map(Duration::from_secs),
        }
    }

    #[test]
    fn waits_grow_end_and_are_the_servers_where_it_asks() {
        let retry = Retry::default();
        let waits: Vec<_> = (0..6)
            .map(|before| retry.wait(&status(503, None), before))
            .map(|wait| wait.map(|wait| wait.as_secs()))
            .collect();
        assert_eq!(waits, [Some(1), Some(2), Some(4), Some(8), None, None]);
        let asked = |seconds| retry.wait(&status(429, Some(seconds)), 0);
        assert_eq!(asked(7), Some(Duration::from_secs(7)));
        assert_eq!(asked(0), Some(Duration::ZERO));
        assert_eq!(asked(61), None, "nobody waits so long");
        assert_eq!(retry.wait(&status(400, Some(1)), 0), None);
    }

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let wait = |text| retry_after(text, now).map(|wait| wait.as_secs());
        assert_eq!(wait(" 120 "), Some(120));
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:07 GMT"), Some(30));
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
        assert_eq!((wait("-1"), wait("soon"), wait("")), (None, None, None));
    }
}
