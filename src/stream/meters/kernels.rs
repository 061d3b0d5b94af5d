//! What computing is spent on, by kind. The threads that compute measure; reading and waiting are not in it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::nanos;

/// A kind of computing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Products with matrices of trunk and head.
    Trunk,
    /// Products with experts, their activation among them.
    Experts,
    /// Attention over the cache, and the recurrence with its convolution.
    Attention,
}

/// Time that was computed, by kind. Norms, residuals, routing and all else is in none of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kernels {
    /// In [`Kernel::Trunk`].
    pub trunk: Duration,
    /// In [`Kernel::Experts`].
    pub experts: Duration,
    /// In [`Kernel::Attention`].
    pub attention: Duration,
}

impl Kernels {
    /// All of it.
    pub fn total(&self) -> Duration {
        self.trunk + self.experts + self.attention
    }

    /// What came since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            trunk: self.trunk.saturating_sub(before.trunk),
            experts: self.experts.saturating_sub(before.experts),
            attention: self.attention.saturating_sub(before.attention),
        }
    }

    /// Both together.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            trunk: self.trunk + other.trunk,
            experts: self.experts + other.experts,
            attention: self.attention + other.attention,
        }
    }
}

/// Adds up what was computed.
#[derive(Debug, Default)]
pub struct KernelMeter {
    /// Nanoseconds, in the order of [`Kernel`].
    times: [AtomicU64; 3],
    /// Multiply-adds of products.
    fused: AtomicU64,
}

impl KernelMeter {
    /// Runs work of a kind. One thread at a time does so; others may help it with the work.
    pub fn time<R>(&self, kind: Kernel, work: impl FnOnce() -> R) -> R {
        let start = Instant::now();
        let done = work();
        self.times[kind as usize].fetch_add(nanos(start.elapsed()), Relaxed);
        done
    }

    /// So many multiply-adds of products are made.
    pub fn fused(&self, count: u64) {
        self.fused.fetch_add(count, Relaxed);
    }

    /// Multiply-adds of products so far.
    pub fn fused_so_far(&self) -> u64 {
        self.fused.load(Relaxed)
    }

    /// All so far.
    pub fn so_far(&self) -> Kernels {
        let [trunk, experts, attention] = self
            .times
            .each_ref()
            .map(|n| Duration::from_nanos(n.load(Relaxed)));
        Kernels {
            trunk,
            experts,
            attention,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_added_up_by_itself() {
        let meter = KernelMeter::default();
        let pause = Duration::from_nanos(1);
        let spin = |least: Duration| {
            let start = Instant::now();
            while start.elapsed() < least {}
        };
        assert_eq!(meter.time(Kernel::Experts, || 7), 7);
        let before = meter.so_far();
        meter.time(Kernel::Trunk, || spin(pause));
        meter.time(Kernel::Trunk, || spin(pause));
        let after = meter.so_far();
        let since = after.since(&before);
        assert!(since.trunk >= 2 * pause);
        assert_eq!((since.experts, since.attention), Default::default());
        assert_eq!(before.plus(&since), after);
        assert_eq!(since.total(), since.trunk);
    }
}
