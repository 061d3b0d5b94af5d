//! How long the computation has waited, and for what. It does one thing at a time, so at most one wait goes on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What the computation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitFor {
    /// A segment of the trunk.
    Trunk,
    /// An expert.
    Experts,
    /// A row of the embedding.
    Embedding,
}

/// Time that the computation waited, by what it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// For segments of the trunk.
    pub trunk: Duration,
    /// For experts.
    pub experts: Duration,
    /// For rows of the embedding.
    pub embedding: Duration,
}

impl Waits {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.trunk + self.experts + self.embedding
    }

    /// What came since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            trunk: self.trunk.saturating_sub(before.trunk),
            experts: self.experts.saturating_sub(before.experts),
            embedding: self.embedding.saturating_sub(before.embedding),
        }
    }

    /// Both together.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            trunk: self.trunk + other.trunk,
            experts: self.experts + other.experts,
            embedding: self.embedding + other.embedding,
        }
    }
}

/// Adds up waits.
#[derive(Debug, Default)]
pub(super) struct WaitMeter {
    /// Nanoseconds of waits that are over, in the order of [`WaitFor`].
    over: [AtomicU64; 3],
    /// The wait that is going on: when it began, in nanoseconds, shifted by two bits, and in those what for, from 1 on.
    now: AtomicU64,
}

impl WaitMeter {
    /// A wait begins.
    pub fn begin(&self, what: WaitFor, at: u64) {
        self.now
            .store(at << 2 | (what as u64 + 1), Ordering::Release);
    }

    /// It is over.
    pub fn end(&self, at: u64) {
        let Some((what, began)) = unpack(self.now.load(Ordering::Relaxed)) else {
            return;
        };
        // A reader looks at what is over first and then at what goes on, so it never counts a wait twice; for a moment it
        // may miss one.
        self.now.store(0, Ordering::Release);
        self.over[what].fetch_add(at.saturating_sub(began), Ordering::Release);
    }

    /// Waits that are over.
    pub fn so_far(&self) -> Waits {
        let [trunk, experts, embedding] = self
            .over
            .each_ref()
            .map(|over| Duration::from_nanos(over.load(Ordering::Acquire)));
        Waits {
            trunk,
            experts,
            embedding,
        }
    }

    /// With the one that is going on.
    pub fn read(&self, at: u64) -> Waits {
        let mut waits = self.so_far();
        if let Some((what, began)) = unpack(self.now.load(Ordering::Acquire)) {
            let waited = Duration::from_nanos(at.saturating_sub(began));
            match what {
                0 => waits.trunk += waited,
                1 => waits.experts += waited,
                _ => waits.embedding += waited,
            }
        }
        waits
    }
}

/// Index of what is waited for, and since when.
fn unpack(now: u64) -> Option<(usize, u64)> {
    let what = (now & 3).checked_sub(1)?;
    Some((what as usize, now >> 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn waits_are_told_by_kind_and_while_they_go_on() {
        let meter = WaitMeter::default();
        let seconds = |trunk, experts, embedding| Waits {
            trunk: Duration::from_secs(trunk),
            experts: Duration::from_secs(experts),
            embedding: Duration::from_secs(embedding),
        };
        assert_eq!(meter.read(9 * SECOND), Waits::default());
        for (what, over, going_on) in [
            (WaitFor::Trunk, seconds(2, 0, 0), seconds(1, 0, 0)),
            (WaitFor::Experts, seconds(2, 2, 0), seconds(2, 1, 0)),
            (WaitFor::Embedding, seconds(2, 2, 2), seconds(2, 2, 1)),
        ] {
            meter.begin(what, 10 * SECOND);
            assert_eq!(meter.read(11 * SECOND), going_on);
            meter.end(12 * SECOND);
            assert_eq!(meter.read(99 * SECOND), over);
            assert_eq!(meter.so_far(), over);
        }
        assert_eq!(meter.so_far().total(), Duration::from_secs(6));
        // The end of no wait is nothing.
        meter.end(99 * SECOND);
        assert_eq!(meter.so_far(), seconds(2, 2, 2));
    }
}
