//! Which experts stay in memory: the replacement policy of the expert cache. Decisions only; it reads and holds no bytes.
//!
//! An expert's worth is what its past uses promise for the next request of its layer: every use counts for
//! [`weight`] of the rank the router gave it, and [`DECAY`] times as much with every later request of the layer.
//! Experts are compared at their own next opportunity. Layers come in a fixed order, so one of a layer still ahead is
//! asked in this token and one of a layer just passed in the next; counting each layer's time by its own requests
//! says exactly that, and needs no common clock. Where two promise the same, the one whose layer comes later goes.
//!
//! There is no admission step and no second set of buffers. A missing expert is read into the slot of the least
//! valuable one that is not in use; once released it competes like all others, and if it promises less than they do,
//! its slot is the next to go. So whatever the layer at work needs is always inside the budget, down to one slot.
//!
//! Within a layer the order of worth changes only by use: all decay alike. Each layer therefore keeps its idle
//! experts sorted by the logarithm of an undecayed sum, and a victim is found by comparing the layers' least ones.

use std::collections::BTreeSet;

use super::Wanted;

/// What a use still counts for at the next request of its layer. This and [`HALF_RANK`] were chosen on the first four
/// decode steps of the only real routing trace; `docs/expert-cache.md` says how, and that hardly anything depends on
/// them.
const DECAY: f64 = 0.3;
/// The rank at which a use counts half of one at rank 0.
const HALF_RANK: f64 = 6.0;
/// Logarithms are whole numbers of this part of an octave, so that they compare exactly.
const PER_OCTAVE: f64 = (1 << 20) as f64;
/// Log worth of an expert that was never used. Far below any other, and far from overflow.
const NEVER: i64 = i64::MIN / 2;
/// In place of a slot number: not resident.
const NOWHERE: u32 = u32::MAX;

/// What a use at this rank counts for. The chance that an expert is asked again by its layer's next token falls like
/// this with its rank in the router's order.
fn weight(rank: usize) -> f64 {
    1.0 / (1.0 + rank as f64 / HALF_RANK)
}

/// The logarithm in the unit of [`PER_OCTAVE`].
fn log(value: f64) -> i64 {
    (value.log2() * PER_OCTAVE).round() as i64
}

/// What a slot holds: an expert by its place in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Empty,
    /// Being read or computed with: not to be evicted.
    InUse(usize),
    /// Kept for later.
    Idle(usize),
}

/// The experts of one layer that can be evicted.
#[derive(Clone, Debug, Default)]
struct Layer {
    /// The requests of this layer so far, as the log growth of a use's worth against older ones.
    clock: i64,
    /// Log worth without decay, and place in the tables: the least valuable first.
    idle: BTreeSet<(i64, usize)>,
}

/// The policy of one cache of equal slots.
#[derive(Clone, Debug)]
pub struct Policy {
    experts: usize,
    /// The growth of a clock with one request: minus the log of [`DECAY`].
    tick: i64,
    /// The last layer asked.
    at: usize,
    layers: Vec<Layer>,
    /// Of each layer the least log worth of an idle expert at its next request; `i64::MAX` where there is none.
    least: Vec<i64>,
    /// Log of the sum of all uses of every expert, without decay: `[layer][expert]`.
    worth: Vec<i64>,
    /// Slot of every expert or [`NOWHERE`]: `[layer][expert]`.
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    empty: Vec<usize>,
}

impl Policy {
    /// An empty cache of `slots` experts, for a model of `layers` layers (numbers count from zero, with or without
    /// experts) and `experts` routed experts a layer.
    ///
    /// It takes 12 bytes for every expert of the model and less than 64 for every slot.
    pub fn new(slots: usize, layers: usize, experts: usize) -> Self {
        // More slots than experts could never fill.
        let slots = slots.min(layers * experts).min(NOWHERE as usize);
        Self {
            experts,
            tick: -log(DECAY),
            at: 0,
            layers: vec![Layer::default(); layers],
            least: vec![i64::MAX; layers],
            worth: vec![NEVER; layers * experts],
            slot_of: vec![NOWHERE; layers * experts],
            slots: vec![Slot::Empty; slots],
            empty: (0..slots).rev().collect(),
        }
    }

    /// Notes that a layer needs these experts, each named once: one call for a token, or for a chunk of tokens, where
    /// the rank is the best that any of them gave. Gives the slot of each that is resident; it is in use from now on.
    /// Those that are not are to be placed with [`Self::admit`].
    pub fn request(&mut self, layer: usize, wanted: &[Wanted]) -> Vec<Option<usize>> {
        self.at = layer;
        self.layers[layer].clock += self.tick;
        let clock = self.layers[layer].clock;
        let slots = wanted
            .iter()
            .map(|wanted| {
                let expert = layer * self.experts + wanted.expert;
                let before = self.worth[expert];
                let past = ((before - clock) as f64 / PER_OCTAVE).exp2();
                self.worth[expert] = clock + log(past + weight(wanted.rank));
                let slot = self.resident(expert)?;
                self.layers[layer].idle.remove(&(before, expert));
                self.slots[slot] = Slot::InUse(expert);
                Some(slot)
            })
            .collect();
        self.refresh(layer);
        slots
    }

    /// A slot for an expert that is not resident. What the slot held is no longer resident; the expert is, and is in
    /// use. Nothing when every slot is in use: then one must be released first.
    pub fn admit(&mut self, layer: usize, expert: usize) -> Option<usize> {
        let expert = layer * self.experts + expert;
        debug_assert_eq!(self.resident(expert), None);
        let slot = self.empty.pop().or_else(|| self.evict())?;
        self.slots[slot] = Slot::InUse(expert);
        self.slot_of[expert] = slot as u32;
        Some(slot)
    }

    /// The computation is done with a slot; its expert may be evicted from now on.
    pub fn release(&mut self, slot: usize) {
        if let Slot::InUse(expert) = self.slots[slot] {
            self.slots[slot] = Slot::Idle(expert);
            let layer = expert / self.experts;
            self.layers[layer].idle.insert((self.worth[expert], expert));
            self.refresh(layer);
        }
    }

    /// A slot in use holds nothing that can be used: its read failed or was given up.
    pub fn discard(&mut self, slot: usize) {
        if let Slot::InUse(expert) = self.slots[slot] {
            self.slots[slot] = Slot::Empty;
            self.slot_of[expert] = NOWHERE;
            self.empty.push(slot);
        }
    }

    /// Takes the least valuable idle expert out of its slot.
    fn evict(&mut self) -> Option<usize> {
        // From the layer at work backwards around the model: the first of equals is the one asked last.
        let (after, before) = (self.at + 1..self.layers.len(), 0..=self.at);
        let layer = before
            .rev()
            .chain(after.rev())
            .min_by_key(|&l| self.least[l])?;
        let (_, expert) = self.layers[layer].idle.pop_first()?;
        self.refresh(layer);
        let slot = self.resident(expert)?;
        self.slot_of[expert] = NOWHERE;
        Some(slot)
    }

    /// The slot of an expert by its place in the tables.
    fn resident(&self, expert: usize) -> Option<usize> {
        let slot = self.slot_of[expert];
        (slot != NOWHERE).then_some(slot as usize)
    }

    /// Sets a layer's least worth anew.
    fn refresh(&mut self, layer: usize) {
        let Layer { clock, idle } = &self.layers[layer];
        self.least[layer] = idle.first().map_or(i64::MAX, |(worth, _)| worth - clock);
    }
}
