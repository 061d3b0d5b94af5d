//! What streaming and computing count as they go: plain atomics, written where the work happens, read by whoever watches.
//! Writing never waits for a reader. Rates and windows are the reader's business.
//!
//! One set of meters goes with a network for its life; a change of the plan only registers other slots.

mod kernels;
mod layers;
mod slots;
mod token;
mod waits;

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use kernels::{Kernel, KernelMeter, Kernels};
pub use layers::LayerFigures;
use layers::LayerMeter;
pub(super) use slots::SlotMeter;
pub use slots::SlotState;
pub(crate) use token::Clock;
pub use token::Split;
use token::TokenMeter;
use waits::WaitMeter;
pub use waits::{WaitFor, Waits};

use super::recent::Recent;
use super::{ExpertCounters, TrunkCounters};

/// The meters of one network.
#[derive(Debug)]
pub struct Meters {
    /// Times are kept as nanoseconds since this moment.
    start: Instant,
    trunk: TrunkMeter,
    /// Changed with the plan only; whoever works on a slot has the slots themselves.
    slots: Mutex<Arc<[SlotMeter]>>,
    waits: WaitMeter,
    kernels: Arc<KernelMeter>,
    layers: Box<[LayerMeter]>,
    /// Bytes of one expert.
    expert_bytes: AtomicU64,
    token: TokenMeter,
    /// The predicted peak of the whole process, in bytes; zero while no plan was told.
    planned: AtomicU64,
    recent: Recent,
}

#[derive(Debug, Default)]
struct TrunkMeter {
    read: AtomicU64,
    owed: AtomicU64,
    pinned: AtomicU64,
    head: AtomicU64,
    embedding: AtomicU64,
}

/// All meters at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Bytes of trunk, head and embedding.
    pub trunk: TrunkCounters,
    /// Bytes that the walk owes so far: pinned segments once a plan, streamed ones once for every time they were computed
    /// with. What was read beyond it is what the readers are ahead, or was thrown away with a pass that was left.
    pub trunk_bytes_owed: u64,
    /// What every slot of the ring is at; none where the trunk is wholly in memory.
    pub slots: Vec<SlotState>,
    /// Time that the computation has waited, the wait that is going on included.
    pub waits: Waits,
    /// Experts of all layers.
    pub experts: ExpertCounters,
    /// Experts that did not have to be read.
    pub experts_retained: u64,
    /// Experts that were read.
    pub experts_read: u64,
    /// Layer by layer.
    pub layers: Vec<LayerFigures>,
    /// Layers of the running or last pass that are through; none before the first.
    pub layer: Option<usize>,
    /// Time since the running pass began.
    pub elapsed: Option<Duration>,
    /// Where the time of the last token went.
    pub last_token: Option<Split>,
    /// Time that passes have computed: neither waiting nor left between two layers.
    pub computed: Duration,
    /// What of it was spent on which kind of kernel.
    pub kernels: Kernels,
    /// The predicted peak of the whole process in bytes, where a plan was told.
    pub planned_bytes: Option<u64>,
}

impl Meters {
    /// Meters of a network of `layers` layers, all at zero.
    pub fn new(layers: usize) -> Arc<Self> {
        Arc::new(Self {
            start: Instant::now(),
            trunk: TrunkMeter::default(),
            slots: Mutex::new(Arc::new([])),
            waits: WaitMeter::default(),
            kernels: Arc::default(),
            layers: (0..layers).map(|_| LayerMeter::default()).collect(),
            expert_bytes: AtomicU64::new(0),
            token: TokenMeter::default(),
            planned: AtomicU64::new(0),
            recent: Recent::default(),
        })
    }

    /// The experts that the last tokens chose.
    pub fn recent(&self) -> &Recent {
        &self.recent
    }

    /// Everything as it is now. Each figure is right by itself; two of them may be a moment apart.
    pub fn read(&self, now: Instant) -> Reading {
        let at = self.nanos(now);
        let layers: Vec<LayerFigures> = self.layers.iter().map(LayerMeter::read).collect();
        let sum = |figure: fn(&LayerFigures) -> u64| layers.iter().map(figure).sum();
        Reading {
            // What is owed was read before, so it is looked at first.
            trunk_bytes_owed: self.trunk.owed.load(Acquire),
            trunk: self.trunk(),
            slots: self.slots(),
            waits: self.waits.read(at),
            experts: self.experts(),
            experts_retained: sum(|layer| layer.retained),
            experts_read: sum(|layer| layer.read),
            layer: self.token.layer(),
            elapsed: self.token.elapsed(at),
            last_token: self.token.last(),
            computed: self.token.computed(),
            kernels: self.kernels(),
            planned_bytes: Some(self.planned.load(Relaxed)).filter(|bytes| *bytes > 0),
            layers,
        }
    }

    /// Bytes of the trunk, under every plan so far; pins and slots are those of the present one.
    pub fn trunk(&self) -> TrunkCounters {
        let slots = self.slots();
        TrunkCounters {
            bytes_read: self.trunk.read.load(Relaxed),
            bytes_pinned: self.trunk.pinned.load(Relaxed),
            head_bytes_read: self.trunk.head.load(Relaxed),
            embedding_bytes_read: self.trunk.embedding.load(Relaxed),
            ring_slots: slots.len(),
            ring_in_flight: slots
                .iter()
                .filter(|slot| matches!(slot, SlotState::Reading { .. }))
                .count(),
            stalled: self.waits.so_far().trunk,
        }
    }

    /// Experts of all layers, under every plan so far.
    pub fn experts(&self) -> ExpertCounters {
        let bytes = self.expert_bytes.load(Relaxed);
        let mut all = ExpertCounters::default();
        for layer in self.layers.iter().map(LayerMeter::read) {
            all.requests += layer.requested;
            all.bytes_requested += layer.requested * bytes;
            all.bytes_read += layer.read * bytes;
            all.drops += layer.drops;
        }
        all
    }

    /// Time that the computation has waited; a wait counts when it is over.
    pub fn waits(&self) -> Waits {
        self.waits.so_far()
    }

    /// What was computed so far, by kind.
    pub fn kernels(&self) -> Kernels {
        self.kernels.so_far()
    }

    /// Where what computes measures it.
    pub(crate) fn kernel_meter(&self) -> Arc<KernelMeter> {
        self.kernels.clone()
    }

    /// Tells the predicted peak of the whole process, in bytes.
    pub fn plan(&self, total: u64) {
        self.planned.store(total, Relaxed);
    }

    /// Runs what the computation waits for.
    pub(super) fn waiting<R>(&self, what: WaitFor, wait: impl FnOnce() -> R) -> R {
        self.waits.begin(what, self.nanos(Instant::now()));
        let came = wait();
        self.waits.end(self.nanos(Instant::now()));
        came
    }

    /// Registers a ring's slots in place of the ones before, all empty.
    pub(super) fn register_slots(&self, count: usize) -> Arc<[SlotMeter]> {
        let slots: Arc<[SlotMeter]> = (0..count).map(|_| SlotMeter::default()).collect();
        *self.slots.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&slots);
        slots
    }

    /// Bytes of the trunk were read.
    pub(super) fn trunk_read(&self, bytes: u64) {
        self.trunk.read.fetch_add(bytes, Relaxed);
    }

    /// The computation takes a segment; in the end it is what had to be read for it.
    pub(super) fn trunk_owed(&self, bytes: u64) {
        self.trunk.owed.fetch_add(bytes, Release);
    }

    /// So many bytes are pinned now.
    pub(super) fn pinned(&self, bytes: u64) {
        self.trunk.pinned.store(bytes, Relaxed);
    }

    /// Of the bytes that were read, these were the head's.
    pub(super) fn head_read(&self, bytes: u64) {
        self.trunk.head.fetch_add(bytes, Relaxed);
    }

    /// Embedding rows were read.
    pub(super) fn embedding_read(&self, bytes: u64) {
        self.trunk.embedding.fetch_add(bytes, Relaxed);
    }

    /// The share of a layer that is pinned now.
    pub(super) fn layer_pinned(&self, layer: usize, share: f64) {
        if let Some(layer) = self.layers.get(layer) {
            layer.pinned(share);
        }
    }

    /// The size of an expert, in bytes.
    pub(super) fn expert_bytes(&self, bytes: u64) {
        self.expert_bytes.store(bytes, Relaxed);
    }

    /// A layer asked for experts, of which so many were there.
    pub(super) fn experts_requested(&self, layer: usize, count: usize, retained: usize) {
        if let Some(layer) = self.layers.get(layer) {
            layer.requested(count as u64, retained as u64);
        }
    }

    /// An expert of a layer was read.
    pub(super) fn expert_read(&self, layer: usize) {
        if let Some(layer) = self.layers.get(layer) {
            layer.was_read();
        }
    }

    /// An expert of a layer could not be read.
    pub(super) fn expert_dropped(&self, layer: usize) {
        if let Some(layer) = self.layers.get(layer) {
            layer.dropped();
        }
    }

    /// A pass begins.
    pub(crate) fn pass_begins(&self, clock: &Clock) {
        self.token.begin(self.nanos(clock.began()));
    }

    /// A pass is through `layer` layers; the last of them took so long, and waited so long in it.
    pub(crate) fn layer_through(&self, layer: usize, time: Duration, waited: Duration) {
        if let Some(meter) = layer.checked_sub(1).and_then(|last| self.layers.get(last)) {
            meter.took(time, waited);
        }
        self.token.through(layer);
    }

    /// Passes computed for so long.
    pub(crate) fn computed(&self, time: Duration) {
        self.token.compute(time);
    }

    /// The running pass is over. If it made a token, this is where its time went.
    pub(crate) fn pass_ends(&self, token: Option<Split>) {
        self.token.end(token);
    }

    fn slots(&self) -> Vec<SlotState> {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        let slots = Arc::clone(&slots);
        slots.iter().map(SlotMeter::read).collect()
    }

    fn nanos(&self, at: Instant) -> u64 {
        nanos(at.saturating_duration_since(self.start))
    }
}

/// As it is kept in an atomic: 584 years are enough.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
