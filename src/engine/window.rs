//! A rate over the last so many seconds, from looks at a running total. Time is given, never taken.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Looks that are kept in one length: more say nothing new.
const LOOKS: u32 = 64;

/// What was seen of a running total.
#[derive(Clone, Debug)]
pub(super) struct Window {
    length: Duration,
    /// The oldest is just outside of the window, or the first that there was.
    looks: VecDeque<(Instant, u64)>,
}

impl Window {
    /// A window of this length that has seen nothing.
    pub fn new(length: Duration) -> Self {
        Self {
            length,
            looks: VecDeque::new(),
        }
    }

    /// Takes a look at the running total, and gives its growth a second over the window. Nothing while the looks of the
    /// window span less than half of its length, or more than twice: that would be the rate of another window.
    pub fn rate(&mut self, now: Instant, total: u64) -> Option<f64> {
        let since = |then: Instant| now.saturating_duration_since(then);
        // The oldest is of no use when the next one spans the window, or when nobody looked for too long after it.
        while self.looks.len() > 1
            && (since(self.looks[1].0) >= self.length || since(self.looks[0].0) > self.length * 2)
        {
            self.looks.pop_front();
        }
        let oldest = self.looks.front().copied();
        if self
            .looks
            .back()
            .is_none_or(|(last, _)| since(*last) >= self.length / LOOKS)
        {
            self.looks.push_back((now, total));
        }
        let (then, before) = oldest?;
        let span = since(then);
        let known = span >= self.length / 2 && span <= self.length * 2;
        known.then(|| total.saturating_sub(before) as f64 / span.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks(length: u64, looks: &[(u64, u64)]) -> Vec<Option<f64>> {
        let (mut window, start) = (Window::new(Duration::from_secs(length)), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let rates = looks.iter().map(|(ms, total)| window.rate(at(*ms), *total));
        rates.collect()
    }

    #[test]
    fn a_rate_is_that_of_the_window() {
        let rates = looks(
            1,
            &[
                (0, 0),
                (250, 10),
                (500, 10),
                (1000, 20),
                (1500, 20),
                (2500, 21),
            ],
        );
        assert_eq!(
            rates,
            [None, None, Some(20.0), Some(20.0), Some(10.0), Some(1.0)]
        );
        let rates = looks(
            10,
            &[(0, 0), (4000, 40), (5000, 50), (10_000, 200), (15_000, 250)],
        );
        assert_eq!(rates, [None, None, Some(10.0), Some(20.0), Some(20.0)]);
    }

    #[test]
    fn after_a_gap_nothing_is_known_until_the_window_has_seen_enough() {
        let rates = looks(
            1,
            &[
                (0, 0),
                (1000, 5),
                (61_000, 500),
                (61_500, 510),
                (62_000, 520),
            ],
        );
        assert_eq!(rates, [None, Some(5.0), None, Some(20.0), Some(20.0)]);
    }

    #[test]
    fn looks_without_end_take_no_memory_without_end() {
        let (mut window, start) = (Window::new(Duration::from_secs(10)), Instant::now());
        let mut rate = None;
        for ms in 0..60_000 {
            rate = window.rate(start + Duration::from_millis(ms), 7 * ms);
        }
        assert!(window.looks.len() <= LOOKS as usize + 2);
        assert_eq!(rate, Some(7000.0));
    }
}
