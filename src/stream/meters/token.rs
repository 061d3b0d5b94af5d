//! The running pass and where the time of the last token went.

use std::sync::atomic::{AtomicU64, Ordering, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};

use super::{Kernels, Meters, Waits, nanos};

/// Where the time of a pass that made a token went. The parts add up to its wall time, to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Positions of the pass: one, or the end of a prompt.
    pub positions: usize,
    /// The computation waited for the drive.
    pub waited: Waits,
    /// It computed.
    pub computed: Duration,
    /// What of that was spent on which kind of kernel.
    pub kernels: Kernels,
    /// Neither: between two layers, and as long as it was left there.
    pub rest: Duration,
}

impl Split {
    /// From the beginning of the pass to its end.
    pub fn wall(&self) -> Duration {
        self.waited.total() + self.computed + self.rest
    }

    /// Computed, but in no kernel that is told apart.
    pub fn other_kernels(&self) -> Duration {
        self.computed.saturating_sub(self.kernels.total())
    }
}

/// Follows one pass. The thread that computes it is the only one that waits, so what was waited meanwhile is its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    began: Instant,
    waited: Waits,
    computed: Duration,
    kernels: Kernels,
    /// A stretch of work that is going on: since when, and what had been waited and computed then.
    lap: (Instant, Waits, Kernels),
}

impl Clock {
    /// Starts, with a first stretch of work.
    pub fn start(now: Instant, meters: &Meters) -> Self {
        Self {
            began: now,
            waited: Waits::default(),
            computed: Duration::ZERO,
            kernels: Kernels::default(),
            lap: (now, meters.waits(), meters.kernels()),
        }
    }

    /// When it started.
    pub fn began(&self) -> Instant {
        self.began
    }

    /// A stretch of work begins.
    pub fn work(&mut self, now: Instant, meters: &Meters) {
        self.lap = (now, meters.waits(), meters.kernels());
    }

    /// It ends. Gives its time, and what was waited of it.
    pub fn rest(&mut self, now: Instant, meters: &Meters) -> (Duration, Duration) {
        let time = now.saturating_duration_since(self.lap.0);
        let waited = meters.waits().since(&self.lap.1);
        self.waited = self.waited.plus(&waited);
        let computed = time.saturating_sub(waited.total());
        self.computed += computed;
        self.kernels = self.kernels.plus(&meters.kernels().since(&self.lap.2));
        meters.computed(computed);
        (time, waited.total())
    }

    /// The whole of it.
    pub fn split(&self, now: Instant, positions: usize) -> Split {
        let wall = now.saturating_duration_since(self.began);
        Split {
            positions,
            waited: self.waited,
            computed: self.computed,
            kernels: self.kernels,
            rest: wall.saturating_sub(self.waited.total() + self.computed),
        }
    }
}

/// The running pass and the last token. One thread writes.
#[derive(Debug, Default)]
pub(super) struct TokenMeter {
    /// When the running pass began, in nanoseconds, and one; zero between passes.
    began: AtomicU64,
    /// Layers that are through, and one; zero before the first pass.
    layer: AtomicU64,
    computed: AtomicU64,
    /// Counts the writing of `last` up: odd while it goes on.
    version: AtomicU64,
    last: [AtomicU64; 9],
}

impl TokenMeter {
    pub fn begin(&self, at: u64) {
        self.layer.store(1, Relaxed);
        self.began.store(at + 1, Ordering::Release);
    }

    pub fn through(&self, layer: usize) {
        self.layer.store(layer as u64 + 1, Relaxed);
    }

    pub fn compute(&self, time: Duration) {
        self.computed.fetch_add(nanos(time), Relaxed);
    }

    pub fn end(&self, token: Option<Split>) {
        if let Some(split) = token {
            let Waits {
                trunk,
                experts,
                embedding,
            } = split.waited;
            let version = self.version.load(Relaxed);
            self.version.store(version + 1, SeqCst);
            let Kernels {
                trunk: products,
                experts: expert_products,
                attention,
            } = split.kernels;
            let times = [
                trunk,
                experts,
                embedding,
                split.computed,
                split.rest,
                products,
                expert_products,
                attention,
            ]
            .map(nanos);
            let values = times.into_iter().chain([split.positions as u64]);
            for (place, value) in self.last.iter().zip(values) {
                place.store(value, SeqCst);
            }
            self.version.store(version + 2, SeqCst);
        }
        self.began.store(0, Ordering::Release);
    }

    pub fn layer(&self) -> Option<usize> {
        self.layer.load(Relaxed).checked_sub(1).map(|n| n as usize)
    }

    pub fn elapsed(&self, at: u64) -> Option<Duration> {
        let began = self.began.load(Ordering::Acquire).checked_sub(1)?;
        Some(Duration::from_nanos(at.saturating_sub(began)))
    }

    pub fn computed(&self) -> Duration {
        Duration::from_nanos(self.computed.load(Relaxed))
    }

    /// The last token whole: a reader that meets the writer looks again, the writer waits for nobody.
    pub fn last(&self) -> Option<Split> {
        loop {
            let version = self.version.load(SeqCst);
            if version == 0 {
                return None;
            }
            let values = self.last.each_ref().map(|value| value.load(SeqCst));
            if version.is_multiple_of(2) && self.version.load(SeqCst) == version {
                let [
                    trunk,
                    experts,
                    embedding,
                    computed,
                    rest,
                    products,
                    expert_products,
                    attention,
                ] = std::array::from_fn(|i| Duration::from_nanos(values[i]));
                return Some(Split {
                    positions: values[8] as usize,
                    waited: Waits {
                        trunk,
                        experts,
                        embedding,
                    },
                    computed,
                    kernels: Kernels {
                        trunk: products,
                        experts: expert_products,
                        attention,
                    },
                    rest,
                });
            }
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::WaitFor;

    #[test]
    fn a_pass_is_told_while_it_runs_and_its_split_adds_up() {
        let meters = Meters::new(2);
        let at = |ms| meters.start + Duration::from_millis(ms);
        let ms = Duration::from_millis;
        assert_eq!(meters.read(at(5)).layer, None);
        assert_eq!(meters.read(at(5)).elapsed, None);

        let mut clock = Clock::start(at(10), &meters);
        meters.pass_begins(&clock);
        let wait = |what, from, to| {
            meters.waits.begin(what, meters.nanos(at(from)));
            meters.waits.end(meters.nanos(at(to)));
        };
        wait(WaitFor::Embedding, 10, 12);
        clock.rest(at(13), &meters);
        clock.work(at(15), &meters);
        wait(WaitFor::Trunk, 16, 20);
        wait(WaitFor::Experts, 21, 24);
        assert_eq!(clock.rest(at(30), &meters), (ms(15), ms(7)));
        meters.layer_through(1, ms(15), ms(7));
        let reading = meters.read(at(40));
        assert_eq!((reading.layer, reading.elapsed), (Some(1), Some(ms(30))));
        assert_eq!(reading.layers[0].time, Some((ms(15), ms(7))));
        assert_eq!(reading.layers[1].time, None);
        assert_eq!(reading.last_token, None);

        let split = clock.split(at(50), 1);
        meters.pass_ends(Some(split));
        let waited = Waits {
            trunk: ms(4),
            experts: ms(3),
            embedding: ms(2),
        };
        let want = Split {
            positions: 1,
            waited,
            computed: ms(1 + 8),
            kernels: Kernels::default(),
            rest: ms(2 + 20),
        };
        let reading = meters.read(at(60));
        assert_eq!(reading.last_token, Some(want));
        assert_eq!(want.wall(), ms(40));
        assert_eq!((reading.waits, reading.computed), (waited, ms(9)));
        assert_eq!(reading.elapsed, None);
        // A pass that made no token leaves the last one as it was.
        meters.pass_begins(&Clock::start(at(70), &meters));
        meters.pass_ends(None);
        assert_eq!(meters.read(at(80)).last_token, Some(want));
    }

    #[test]
    fn a_reader_never_sees_half_a_split() {
        let meter = TokenMeter::default();
        let split = |n: u64| Split {
            positions: n as usize,
            waited: Waits {
                trunk: Duration::from_nanos(n),
                experts: Duration::from_nanos(n),
                embedding: Duration::from_nanos(n),
            },
            computed: Duration::from_nanos(n),
            kernels: Kernels {
                trunk: Duration::from_nanos(n),
                experts: Duration::from_nanos(n),
                attention: Duration::from_nanos(n),
            },
            rest: Duration::from_nanos(n),
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 1..=20_000 {
                    meter.end(Some(split(n)));
                }
            });
            let mut last = 0;
            while last < 20_000 {
                if let Some(read) = meter.last() {
                    assert_eq!(read, split(read.positions as u64));
                    assert!(read.positions >= last, "it goes on");
                    last = read.positions;
                }
            }
        });
    }
}
