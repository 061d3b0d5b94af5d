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

/// The least that is replayed, in steps.
const ENOUGH: usize = 8;

/// The share of requested bytes that the engine's own policy retains in caches of these sizes, in experts: over the second
/// half of the steps, since the first fills the cache. Nothing where there are too few.
pub fn curve(steps: &[Step], sizes: &[usize]) -> Vec<(usize, f64)> {
    if steps.len() < ENOUGH {
        return Vec::new();
    }
    let retained = |&slots: &usize| {
        let replayed = replay(steps, Replacement::Ours, slots);
        let mut sum = Replayed::default();
        for step in &replayed[steps.len() / 2..] {
            sum.requests += step.requests;
            sum.reads += step.reads;
        }
        (slots, sum.retained())
    };
    sizes.iter().map(retained).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Wanted;
    use super::*;

    const ALL: [Replacement; 6] = [
        Replacement::Lru,
        Replacement::Lfu,
        Replacement::S3Fifo,
        Replacement::Random,
        Replacement::Ours,
        Replacement::Belady,
    ];

    /// A step of one layer that asks for these experts.
    fn step(experts: &[usize]) -> Step {
        let wanted = experts
            .iter()
            .enumerate()
            .map(|(rank, &expert)| Wanted {
                expert,
                rank,
                ago: 0,
            })
            .collect();
        vec![Call { layer: 1, wanted }]
    }

    /// The reads of single requests, one after the other.
    fn reads(replacement: Replacement, slots: usize, experts: &[usize]) -> Vec<u64> {
        let steps: Vec<Step> = experts.iter().map(|&e| step(&[e])).collect();
        let replayed = replay(&steps, replacement, slots);
        replayed.iter().map(|r| r.reads).collect()
    }

    #[test]
    fn a_curve_is_of_caches_that_are_filled() {
        // Four experts in turns: room for all of them retains all, room for one none.
        let steps: Vec<Step> = (0..16).map(|n| step(&[n % 4])).collect();
        assert_eq!(curve(&steps, &[1, 4]), [(1, 0.0), (4, 1.0)]);
        assert_eq!(curve(&steps[..7], &[4]), []);
    }

    #[test]
    fn lru_evicts_what_was_used_longest_ago() {
        let want = [1, 1, 0, 1, 0, 1];
        assert_eq!(reads(Replacement::Lru, 2, &[1, 2, 1, 3, 1, 2]), want);
        let scan = [1, 1, 1, 1, 1, 1];
        assert_eq!(reads(Replacement::Lru, 2, &[1, 2, 3, 1, 2, 3]), scan);
    }

    #[test]
    fn lfu_evicts_what_was_used_least_and_remembers_counts() {
        let want = [1, 0, 1, 1, 0, 1, 0];
        assert_eq!(reads(Replacement::Lfu, 2, &[1, 1, 2, 3, 1, 2, 2]), want);
        // Now 2 has three uses and 1 has two: 1 makes room, and 2 stays.
        let more = [1, 0, 1, 0, 0, 1, 0];
        assert_eq!(reads(Replacement::Lfu, 2, &[1, 1, 2, 2, 2, 3, 2]), more);
    }

    #[test]
    fn s3fifo_moves_on_what_was_used_and_remembers_what_was_not() {
        // 1 was used on probation and moves to the main queue; 2 leaves unused, and is remembered.
        let want = [1, 0, 1, 1, 0, 1];
        assert_eq!(reads(Replacement::S3Fifo, 2, &[1, 1, 2, 3, 1, 2]), want);
        // The remembered one comes back into the main queue, where passing newcomers do not reach it.
        let back = [1, 1, 1, 1, 1, 1, 0];
        assert_eq!(reads(Replacement::S3Fifo, 2, &[1, 2, 3, 1, 4, 5, 1]), back);
    }

    #[test]
    fn random_draws_are_the_same_every_time() {
        let experts: Vec<usize> = (0..400).map(|i| i * i % 23).collect();
        let once = reads(Replacement::Random, 8, &experts);
        assert_eq!(once, reads(Replacement::Random, 8, &experts));
        let sum: u64 = once.iter().sum();
        assert!((23..400).contains(&sum), "{sum}");
    }

    #[test]
    fn belady_keeps_what_comes_soonest_and_lets_the_rest_pass() {
        let want = [1, 1, 1, 0, 0, 1];
        assert_eq!(reads(Replacement::Belady, 2, &[1, 2, 3, 1, 2, 3]), want);
        let one = [1, 1, 0, 1, 0];
        assert_eq!(reads(Replacement::Belady, 1, &[1, 2, 2, 1, 1]), one);
    }

    #[test]
    fn ours_keeps_the_first_choice() {
        let steps = [step(&[1, 2, 3]), step(&[4]), step(&[1, 2]), step(&[3])];
        let replayed = replay(&steps, Replacement::Ours, 3);
        let reads: Vec<u64> = replayed.iter().map(|r| r.reads).collect();
        assert_eq!(reads, [3, 1, 0, 1]);
    }

    /// Tokens of skewed choices that often repeat, after a chunk.
    fn made_up(seed: u64) -> Vec<Step> {
        let mut random = seed;
        let mut draw = |limit: usize| {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (random >> 33) as usize % limit
        };
        let mut call = |layer: usize, count: usize| {
            let mut wanted: Vec<Wanted> = Vec::new();
            while wanted.len() < count {
                let expert = (draw(24) * draw(24)) / 24;
                if wanted.iter().all(|w| w.expert != expert) {
                    let rank = wanted.len() % 4;
                    wanted.push(Wanted {
                        expert,
                        rank,
                        ago: 0,
                    });
                }
            }
            Call { layer, wanted }
        };
        (0..40)
            .map(|step| {
                (1..6)
                    .map(|layer| call(layer, if step == 0 { 9 } else { 4 }))
                    .collect()
            })
            .collect()
    }

    #[test]
    fn nothing_keeps_more_than_belady_and_nothing_reads_more_than_was_asked() {
        for seed in 1..6 {
            let steps = made_up(seed);
            let distinct: std::collections::HashSet<Key> = steps
                .iter()
                .flatten()
                .flat_map(|c| c.wanted.iter().map(|w| (c.layer, w.expert)))
                .collect();
            for slots in [1, 2, 3, 7, 16, 30, 60, 120] {
                let total = |replacement| {
                    let replayed = replay(&steps, replacement, slots);
                    for (replayed, step) in replayed.iter().zip(&steps) {
                        let asked: usize = step.iter().map(|c| c.wanted.len()).sum();
                        assert_eq!(replayed.requests, asked as u64);
                        assert!(replayed.reads <= replayed.requests);
                    }
                    replayed.iter().map(|r| r.reads).sum::<u64>()
                };
                let least = total(Replacement::Belady);
                for replacement in ALL {
                    let reads = total(replacement);
                    assert!(reads >= least, "{replacement:?}, {slots} slots");
                    assert!(reads >= distinct.len() as u64, "{replacement:?}");
                    if slots >= distinct.len() {
                        assert_eq!(reads, distinct.len() as u64, "{replacement:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn retained_is_a_share() {
        let share = |requests, reads| Replayed { requests, reads }.retained();
        assert_eq!((share(4, 1), share(4, 4), share(4, 0)), (0.75, 0.0, 1.0));
    }
}
