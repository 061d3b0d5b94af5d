//! Replays expert requests against a cache of a given size under several policies. Counts; nothing is read.

mod belady;
mod lfu;
mod lru;
mod ours;
mod random;
mod s3fifo;

use super::trace::{Call, Step};

/// The policies that can be compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// The least recently used goes.
    Lru,
    /// The least frequently used goes, of equals the least recently used.
    Lfu,
    /// A small queue on probation before the main one, and a memory of what left it.
    S3Fifo,
    /// Any goes; the draws are the same every time.
    Random,
    /// The engine's own [`super::Policy`].
    Ours,
    /// The one needed last goes: knows the future, so no policy keeps more.
    Belady,
}

/// What one step asked for and what it read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Experts asked for. All are of one size, so shares of experts are shares of bytes.
    pub requests: u64,
    /// Experts read.
    pub reads: u64,
}

impl Replayed {
    /// The share of requested bytes that was not read, 0 to 1.
    pub fn retained(&self) -> f64 {
        1.0 - self.reads as f64 / self.requests.max(1) as f64
    }
}

/// A cache that is asked layer by layer.
trait Cache {
    /// Serves all requests of a call; gives the number of reads.
    fn call(&mut self, call: &Call) -> u64;
}

/// An expert of a layer.
type Key = (usize, usize);

/// A cache that is asked expert by expert.
trait Single {
    /// Serves a request; whether the expert was there.
    fn hit(&mut self, key: Key) -> bool;
}

impl<T: Single> Cache for T {
    fn call(&mut self, call: &Call) -> u64 {
        let layer = call.layer;
        let misses = call.wanted.iter().filter(|w| !self.hit((layer, w.expert)));
        misses.count() as u64
    }
}

/// Replays the steps against an empty cache of `slots` experts, at least one, and gives the counts of every step.
pub fn replay(steps: &[Step], replacement: Replacement, slots: usize) -> Vec<Replayed> {
    let slots = slots.max(1);
    let mut cache: Box<dyn Cache> = match replacement {
        Replacement::Lru => Box::new(lru::Lru::new(slots)),
        Replacement::Lfu => Box::new(lfu::Lfu::new(slots)),
        Replacement::S3Fifo => Box::new(s3fifo::S3Fifo::new(slots)),
        Replacement::Random => Box::new(random::Random::new(slots)),
        Replacement::Ours => Box::new(ours::Ours::new(slots)),
        Replacement::Belady => Box::new(belady::Belady::new(slots, steps)),
    };
    let step = |step: &Step| Replayed {
        requests: step.iter().map(|call| call.wanted.len() as u64).sum(),
        reads: step.iter().map(|call| cache.call(call)).sum(),
    };
    steps.iter().map(step).collect()
}
