//! What a layer cost: experts, time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// One layer in figures, since the network was opened.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerFigures {
    /// Experts asked for.
    pub requested: u64,
    /// Of them, those that did not have to be read.
    pub retained: u64,
    /// Experts that were read.
    pub read: u64,
    /// Experts that could not be read.
    pub drops: u64,
    /// Requested and retained when a pass came through last; none of a layer without experts.
    pub last: Option<(u64, u64)>,
    /// Time that the last pass took in it, and waited of it.
    pub time: Option<(Duration, Duration)>,
    /// Share of its weights outside the experts that is pinned; none where that is not known.
    pub pinned: Option<f64>,
}

/// Counts for one layer. One thread writes.
#[derive(Debug, Default)]
pub(super) struct LayerMeter {
    requested: AtomicU64,
    retained: AtomicU64,
    read: AtomicU64,
    drops: AtomicU64,
    /// The last request: its experts in the upper half, those that were there in the lower.
    last: AtomicU64,
    /// Nanoseconds of the last pass, and of them those that it waited.
    time: AtomicU64,
    waited: AtomicU64,
    /// Millionths that are pinned, and one; zero when not known.
    pinned: AtomicU64,
}

const MILLION: f64 = 1e6;

impl LayerMeter {
    pub fn requested(&self, count: u64, retained: u64) {
        self.requested.fetch_add(count, Relaxed);
        self.retained.fetch_add(retained, Relaxed);
        self.last.store(count << 32 | retained, Relaxed);
    }

    pub fn was_read(&self) {
        self.read.fetch_add(1, Relaxed);
    }

    pub fn dropped(&self) {
        self.drops.fetch_add(1, Relaxed);
    }

    pub fn took(&self, time: Duration, waited: Duration) {
        self.waited.store(super::nanos(waited), Relaxed);
        self.time.store(super::nanos(time).max(1), Relaxed);
    }

    pub fn pinned(&self, share: f64) {
        self.pinned.store((share * MILLION) as u64 + 1, Relaxed);
    }

    pub fn read(&self) -> LayerFigures {
        let last = self.last.load(Relaxed);
        let time = self.time.load(Relaxed);
        let pinned = self.pinned.load(Relaxed).checked_sub(1);
        LayerFigures {
            requested: self.requested.load(Relaxed),
            retained: self.retained.load(Relaxed),
            read: self.read.load(Relaxed),
            drops: self.drops.load(Relaxed),
            last: (last > 0).then_some((last >> 32, last & u64::from(u32::MAX))),
            time: (time > 0).then(|| {
                let waited = self.waited.load(Relaxed).min(time);
                (Duration::from_nanos(time), Duration::from_nanos(waited))
            }),
            pinned: pinned.map(|millionths| millionths as f64 / MILLION),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_that_nothing_went_through_knows_nothing() {
        let meter = LayerMeter::default();
        assert_eq!(meter.read(), LayerFigures::default());
    }

    #[test]
    fn counts_add_up_and_the_last_pass_stands_by_itself() {
        let meter = LayerMeter::default();
        meter.requested(16, 3);
        meter.requested(16, 5);
        meter.was_read();
        meter.dropped();
        meter.took(Duration::from_secs(2), Duration::from_secs(1));
        meter.pinned(0.25);
        let want = LayerFigures {
            requested: 32,
            retained: 8,
            read: 1,
            drops: 1,
            last: Some((16, 5)),
            time: Some((Duration::from_secs(2), Duration::from_secs(1))),
            pinned: Some(0.25),
        };
        assert_eq!(meter.read(), want);
        // Nothing pinned is known to be nothing.
        meter.pinned(0.0);
        assert_eq!(meter.read().pinned, Some(0.0));
    }
}
