//! What the engine is doing right now. The engine tells what only it knows, a token at a time; everything else its reader
//! takes from the network's meters when it looks. Neither waits for the other.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

pub use super::remote::figures::{Counted, Metrics, RemoteFigures, ServerFigures};
use super::window::Window;
use crate::model::Network;
pub use crate::stream::{LayerFigures, SlotState, Split, Waits};
use crate::stream::{Machine, Meters, Reading};

/// What the engine is at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activity {
    /// The model is being opened.
    #[default]
    Loading,
    /// Waiting for a command.
    Idle,
    /// A server was asked, and has not said anything yet.
    Waiting,
    /// Feeding a prompt.
    Prefill {
        /// Positions that are through.
        done: usize,
        /// Positions in all.
        of: usize,
    },
    /// Making tokens.
    Decode,
    /// Halted between two layers of a turn.
    Paused,
    /// The thread has ended.
    Stopped,
}

impl Activity {
    /// Whether a turn runs.
    pub fn computes(self) -> bool {
        matches!(self, Self::Waiting | Self::Prefill { .. } | Self::Decode)
    }
}

/// A rate in GB/s over two windows; none while a window has not seen half of its length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Over the last second.
    pub second: Option<f64>,
    /// Over the last ten.
    pub ten: Option<f64>,
}

/// Experts of all layers, since the model was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpertFigures {
    /// Experts asked for, and their bytes.
    pub requested: (u64, u64),
    /// Of them, those that did not have to be read, and their bytes.
    pub retained: (u64, u64),
    /// Experts that were read, and their bytes.
    pub read: (u64, u64),
}

/// Bytes of the trunk, since the model was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrunkBytes {
    /// Read.
    pub read: u64,
    /// Owed: what is pinned once, what is streamed once for every time it was computed with. What was read beyond that
    /// is what the readers are ahead.
    pub owed: u64,
    /// Pinned under the present plan.
    pub pinned: u64,
}

/// What there is room for of the experts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cache {
    /// Experts that there is room for.
    pub slots: u64,
    /// Experts that a layer asks for.
    pub layer: u64,
    /// All experts.
    pub all: u64,
}

impl Cache {
    /// That of a network, if its weights are a checkpoint's.
    pub(super) fn of(network: &Network) -> Option<Self> {
        let (shape, slots) = (network.shape()?, network.expert_slots()?);
        Some(Self {
            slots: slots as u64,
            layer: shape.top_k,
            all: shape.experts,
        })
    }
}

/// A snapshot. A figure that is not known is `None`, or an empty list; never a zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Telemetry {
    /// What the engine is at.
    pub activity: Activity,
    /// Positions in use, and planned.
    pub positions: (usize, usize),
    /// Tokens a minute over the running or the last turn.
    pub tokens_per_minute: Option<f64>,
    /// Positions that the next answer has to read beside its message; none while a turn runs.
    pub unread: Option<usize>,
    /// Tokens that the running answer may still have.
    pub left: Option<usize>,
    /// Layers of the running pass that are through, and of how many.
    pub layer: Option<(usize, usize)>,
    /// Time since the running pass began.
    pub elapsed: Option<Duration>,
    /// Trunk bytes read a second; none while nothing streams.
    pub trunk: Rates,
    /// Expert bytes read a second; none while no turn runs.
    pub experts: Rates,
    /// What every slot of the ring is at; empty where the trunk is wholly in memory.
    pub slots: Vec<SlotState>,
    /// Time that the computation has waited since the model was opened.
    pub waits: Option<Waits>,
    /// Where the time of the last token went.
    pub last_token: Option<Split>,
    /// Experts asked for, retained and read; none before the first request.
    pub expert_figures: Option<ExpertFigures>,
    /// Experts that could not be read.
    pub drops: u64,
    /// Layer by layer.
    pub layers: Vec<LayerFigures>,
    /// Bytes of the trunk, read against owed.
    pub trunk_bytes: Option<TrunkBytes>,
    /// Resident bytes of the process.
    pub rss_bytes: Option<u64>,
    /// The most that was resident so far.
    pub peak_rss_bytes: Option<u64>,
    /// The peak that the memory plan predicts.
    pub planned_bytes: Option<u64>,
    /// Memory that the process could still take, in steps of 16 MiB.
    pub free_bytes: Option<u64>,
    /// Memory of the process that the system has put into swap.
    pub swapped_bytes: Option<u64>,
    /// What there is room for of the experts.
    pub cache: Option<Cache>,
    /// What is known of a model that runs on a server; none of one that runs here.
    pub remote: Option<RemoteFigures>,
}

impl Telemetry {
    /// Share of the requested expert bytes that did not have to be read.
    pub fn retained(&self) -> Option<f64> {
        let ExpertFigures {
            requested: (_, requested),
            read: (_, read),
            ..
        } = self.expert_figures?;
        (requested > 0).then(|| 1.0 - read as f64 / requested as f64)
    }

    /// Slots of the ring with a read in flight, and slots in all; none without a ring.
    pub fn in_flight(&self) -> Option<(usize, usize)> {
        let reading = |slot: &&SlotState| matches!(slot, SlotState::Reading { .. });
        let count = self.slots.iter().filter(reading).count();
        (!self.slots.is_empty()).then_some((count, self.slots.len()))
    }
}

/// What the engine tells, and where the rest is found.
#[derive(Clone, Debug, Default)]
pub struct TelemetryCell {
    told: Arc<Mutex<Telemetry>>,
    meters: Arc<OnceLock<Arc<Meters>>>,
}

impl TelemetryCell {
    /// Says once whose meters are to be read.
    pub fn watch(&self, meters: &Arc<Meters>) {
        // A second network would be another engine's.
        let _ = self.meters.set(Arc::clone(meters));
    }

    /// Changes what is told. If a reader holds it at this moment the change is left out: the next one will tell.
    pub fn update(&self, change: impl FnOnce(&mut Telemetry)) {
        if let Ok(mut told) = self.told.try_lock() {
            change(&mut told);
        }
    }

    /// Changes what is told, waiting for a reader if need be: for changes that no later one repeats.
    pub fn set(&self, change: impl FnOnce(&mut Telemetry)) {
        change(&mut self.lock());
    }

    /// One who looks again and again, and so knows rates.
    pub fn reader(&self) -> TelemetryReader {
        TelemetryReader {
            cell: self.clone(),
            trunk: Windows::default(),
            experts: Windows::default(),
        }
    }

    /// One look, without rates.
    pub fn read(&self) -> Telemetry {
        self.reader().read(Instant::now())
    }

    fn lock(&self) -> MutexGuard<'_, Telemetry> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at an engine, and remembers for its rates what it saw.
#[derive(Debug)]
pub struct TelemetryReader {
    cell: TelemetryCell,
    trunk: Windows,
    experts: Windows,
}

impl TelemetryReader {
    /// What is going on now. `now` does not go back from one look to the next.
    pub fn read(&mut self, now: Instant) -> Telemetry {
        let mut telemetry = self.cell.lock().clone();
        if let Some(meters) = self.cell.meters.get() {
            self.fill(&mut telemetry, meters.read(now), now);
        }
        if telemetry.rss_bytes.is_none() {
            let status = status();
            telemetry.rss_bytes = field(&status, "VmRSS:");
            telemetry.peak_rss_bytes = field(&status, "VmHWM:");
            telemetry.swapped_bytes = field(&status, "VmSwap:");
            telemetry.free_bytes = free(telemetry.rss_bytes);
        }
        telemetry
    }

    fn fill(&mut self, telemetry: &mut Telemetry, reading: Reading, now: Instant) {
        let Reading {
            trunk,
            trunk_bytes_owed,
            slots,
            waits,
            experts,
            experts_retained,
            experts_read,
            layers,
            layer,
            elapsed,
            last_token,
            computed: _,
            kernels: _,
            planned_bytes,
        } = reading;
        let computes = telemetry.activity.computes();
        // Nothing streams, which is not the same as streaming nothing.
        let streams = computes && !slots.is_empty();
        telemetry.trunk = self.trunk.rates(now, trunk.bytes_read, streams);
        let requested = experts.requests > 0;
        telemetry.experts = self
            .experts
            .rates(now, experts.bytes_read, computes && requested);
        telemetry.layer = layer
            .filter(|_| computes)
            .map(|layer| (layer, layers.len()));
        telemetry.elapsed = elapsed.filter(|_| computes);
        telemetry.slots = slots;
        telemetry.waits = Some(waits);
        telemetry.last_token = last_token;
        let each = experts.bytes_requested.checked_div(experts.requests);
        telemetry.expert_figures = each.map(|each| ExpertFigures {
            requested: (experts.requests, experts.bytes_requested),
            retained: (experts_retained, experts_retained * each),
            read: (experts_read, experts.bytes_read),
        });
        telemetry.drops = experts.drops;
        telemetry.layers = layers;
        telemetry.trunk_bytes = Some(TrunkBytes {
            read: trunk.bytes_read,
            owed: trunk_bytes_owed,
            pinned: trunk.bytes_pinned,
        });
        telemetry.planned_bytes = planned_bytes;
    }
}

/// The two windows of a rate.
#[derive(Debug)]
struct Windows {
    second: Window,
    ten: Window,
}

impl Default for Windows {
    fn default() -> Self {
        Self {
            second: Window::new(Duration::from_secs(1)),
            ten: Window::new(Duration::from_secs(10)),
        }
    }
}

impl Windows {
    /// The rates of a running total, in GB/s; none, and forgotten, where there is nothing to be measured.
    fn rates(&mut self, now: Instant, total: u64, measured: bool) -> Rates {
        if !measured {
            *self = Self::default();
            return Rates::default();
        }
        let gb = |rate: Option<f64>| rate.map(|rate| rate / 1e9);
        Rates {
            second: gb(self.second.rate(now, total)),
            ten: gb(self.ten.rate(now, total)),
        }
    }
}

/// The system's account of this process, where it gives one.
fn status() -> String {
    std::fs::read_to_string("/proc/self/status").unwrap_or_default()
}

/// What there is still to have, beside what is resident.
fn free(resident: Option<u64>) -> Option<u64> {
    /// It changes all the time; not every change is worth a look.
    const STEP: u64 = 16 << 20;
    let (available, _) = Machine::detect().ok()?.available()?;
    Some(available.saturating_sub(resident?) / STEP * STEP)
}

/// A size in it.
fn field(status: &str, field: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// A size from the system's account of this process: `VmRSS:` is resident now, `VmHWM:` the most so far.
pub fn status_bytes(name: &str) -> Option<u64> {
    field(&status(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_the_latest_value_and_never_holds_up_the_writer() {
        let cell = TelemetryCell::default();
        cell.update(|t| t.positions.0 = 1);
        assert_eq!(cell.read().positions.0, 1);
        let held = cell.told.lock().unwrap();
        cell.update(|t| t.positions.0 = 2);
        drop(held);
        assert_eq!(cell.read().positions.0, 1);
        cell.set(|t| t.positions.0 = 3);
        assert_eq!(cell.read().positions.0, 3);
    }

    #[test]
    fn before_a_model_is_open_nothing_is_known() {
        let telemetry = TelemetryCell::default().reader().read(Instant::now());
        let want = Telemetry {
            rss_bytes: telemetry.rss_bytes,
            peak_rss_bytes: telemetry.peak_rss_bytes,
            free_bytes: telemetry.free_bytes,
            swapped_bytes: telemetry.swapped_bytes,
            ..Telemetry::default()
        };
        assert_eq!(telemetry, want);
        assert!(telemetry.peak_rss_bytes >= telemetry.rss_bytes);
    }

    #[test]
    fn a_model_that_has_computed_nothing_has_no_rates_and_no_zeros() {
        let cell = TelemetryCell::default();
        cell.watch(&Meters::new(3));
        cell.set(|t| t.activity = Activity::Decode);
        let mut reader = cell.reader();
        let now = Instant::now();
        reader.read(now);
        let telemetry = reader.read(now + Duration::from_secs(60));
        assert_eq!((telemetry.trunk, telemetry.experts), Default::default());
        assert_eq!((telemetry.layer, telemetry.elapsed), (None, None));
        assert_eq!((telemetry.retained(), telemetry.in_flight()), (None, None));
        assert_eq!(
            (telemetry.last_token, telemetry.planned_bytes),
            (None, None)
        );
        assert_eq!(telemetry.layers, vec![LayerFigures::default(); 3]);
    }

    #[test]
    fn a_size_is_read_as_the_system_writes_it() {
        let status = "Name:\tk3\nVmHWM:\t    2048 kB\nVmRSS:\t 17 kB\nThreads:\t3\n";
        assert_eq!(field(status, "VmHWM:"), Some(2 << 20));
        assert_eq!(field(status, "VmRSS:"), Some(17 << 10));
        assert_eq!(
            (field(status, "Threads:"), field("", "VmRSS:")),
            (None, None)
        );
    }

    #[test]
    fn rates_are_forgotten_while_nothing_is_measured() {
        let (mut windows, start) = (Windows::default(), Instant::now());
        let at = |s| start + Duration::from_secs(s);
        windows.rates(at(0), 0, true);
        let both = windows.rates(at(5), 10_000_000_000, true);
        assert_eq!(both.ten, Some(2.0));
        // Between two looks so far apart the last second is not known.
        assert_eq!(both.second, None);
        assert_eq!(
            windows.rates(at(6), 20_000_000_000, false),
            Rates::default()
        );
        assert_eq!(windows.rates(at(7), 20_000_000_000, true), Rates::default());
    }
}
