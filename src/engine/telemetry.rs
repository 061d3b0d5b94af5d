//! What the engine is doing right now: one snapshot, the latest value. Writing it never waits for a reader.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the engine is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// The model is being opened.
    #[default]
    Loading,
    /// Waiting for a command.
    Idle,
    /// Feeding a prompt.
    Prefill {
        /// Positions that are through.
        done: usize,
        /// Positions in all.
        of: usize,
    },
    /// Making tokens.
    Decode,
    /// The thread has ended.
    Stopped,
}

/// A snapshot. A figure that is not known is `None`, never a zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// What the engine is at.
    pub activity: Activity,
    /// Layers of the running pass that are through, and of how many.
    pub layer: Option<(usize, usize)>,
    /// Trunk bytes read a second, in GB, over the last second; none while nothing streams.
    pub trunk_gb_per_s: Option<f64>,
    /// Ring slots with a read in flight, and slots in all; none where the trunk is wholly in memory.
    pub ring: Option<(usize, usize)>,
    /// Share of the requested expert bytes that did not have to be read; none before the first request.
    pub experts_retained: Option<f64>,
    /// Experts that could not be read.
    pub drops: u64,
    /// Positions in use, and planned.
    pub positions: (usize, usize),
    /// Tokens a second over the running or the last turn.
    pub tokens_per_s: Option<f64>,
    /// Resident bytes of the process.
    pub rss_bytes: Option<u64>,
}

/// The one place where the latest snapshot stands.
#[derive(Clone, Debug, Default)]
pub struct TelemetryCell(Arc<Mutex<Telemetry>>);

impl TelemetryCell {
    /// The latest snapshot.
    pub fn read(&self) -> Telemetry {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes the snapshot. If a reader holds it at this moment the change is left out: the next one will tell.
    pub fn update(&self, change: impl FnOnce(&mut Telemetry)) {
        if let Ok(mut telemetry) = self.0.try_lock() {
            change(&mut telemetry);
        }
    }

    /// Changes the snapshot, waiting for a reader if need be: for changes that no later one repeats.
    pub fn set(&self, change: impl FnOnce(&mut Telemetry)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Bytes over the last second.
#[derive(Clone, Debug, Default)]
pub(super) struct Window {
    samples: VecDeque<(Instant, u64)>,
}

impl Window {
    /// Takes a running total in and gives the rate in GB/s since the oldest sample of the last second, or since the one
    /// before it where a second has seen only one. Nothing at the first.
    pub fn rate(&mut self, now: Instant, total: u64) -> Option<f64> {
        const LENGTH: Duration = Duration::from_secs(1);
        self.samples.push_back((now, total));
        while self.samples.len() > 2 && now.duration_since(self.samples[1].0) >= LENGTH {
            self.samples.pop_front();
        }
        let (then, before) = *self.samples.front()?;
        let seconds = now.duration_since(then).as_secs_f64();
        (seconds > 0.0).then(|| (total - before) as f64 / 1e9 / seconds)
    }
}

/// Resident bytes of this process, where the system tells.
pub(super) fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

/// A size from the system's account of this process: `VmRSS:` is resident now, `VmHWM:` the most so far.
pub fn status_bytes(field: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_the_latest_value_and_never_holds_up_the_writer() {
        let cell = TelemetryCell::default();
        cell.update(|t| t.drops = 1);
        assert_eq!(cell.read().drops, 1);
        let held = cell.0.lock().unwrap();
        cell.update(|t| t.drops = 2);
        drop(held);
        assert_eq!(cell.read().drops, 1);
        cell.set(|t| t.drops = 3);
        assert_eq!(cell.read().drops, 3);
    }

    #[test]
    fn a_rate_is_that_of_the_last_second() {
        let (mut window, start) = (Window::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(window.rate(at(0), 0), None);
        assert_eq!(window.rate(at(500), 1_000_000_000), Some(2.0));
        assert_eq!(window.rate(at(1000), 1_000_000_000), Some(1.0));
        // The first half second has left the window.
        assert_eq!(window.rate(at(1500), 1_000_000_000), Some(0.0));
        // A minute without news: the rate since the last one.
        assert_eq!(window.rate(at(61_500), 61_000_000_000), Some(1.0));
    }
}
