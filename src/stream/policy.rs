//! Which experts stay in memory: the replacement policy of the expert cache. Decisions only; it reads and holds no bytes.
//!
//! An expert's worth is what its past uses promise for the next request of its layer: every use counts for
//! [`weight`] of the rank the router gave it, and [`DECAY`] times as much with every later token of the layer.
//! Experts are compared at their own next opportunity. Layers come in a fixed order, so one of a layer still ahead is
//! asked in this token and one of a layer just passed in the next; counting each layer's tokens for itself says
//! exactly that, and needs no common clock. Where two promise the same, the one whose layer comes later goes.
//!
//! There is no admission step and no second set of buffers. A missing expert is read into the slot of the least
//! valuable one that is not in use; once released it competes like all others, and if it promises less than they do,
//! its slot is the next to go. So whatever the layer at work needs is always inside the budget, down to one slot.
//!
//! Within a layer the order of worth changes only by use: all decay alike. Each layer therefore keeps its idle
//! experts sorted by the logarithm of an undecayed sum, and a victim is found by comparing the layers' least ones.

use std::collections::BTreeSet;

use super::Wanted;

/// What a use still counts for one token later. This and [`HALF_RANK`] were chosen on the first four
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
    /// The tokens of this layer so far, as the log growth of a use's worth against older ones.
    clock: i64,
    /// Log worth without decay, and place in the tables: the least valuable first.
    idle: BTreeSet<(i64, usize)>,
}

/// The policy of one cache of equal slots.
#[derive(Clone, Debug)]
pub struct Policy {
    experts: usize,
    /// The growth of a clock with one token: minus the log of [`DECAY`].
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

    /// Notes that a layer needs these experts, each named once: one call for a token, or for a chunk of tokens. Gives
    /// the slot of each that is resident; it is in use from now on. Those that are not are to be placed with
    /// [`Self::admit`].
    ///
    /// Of a chunk only the last use of an expert counts, by the tokens since: with so fast a decay it is nearly all of
    /// the sum. Somebody chose last in the chunk's first token or soon after, so the largest distance is its length.
    pub fn request(&mut self, layer: usize, wanted: &[Wanted]) -> Vec<Option<usize>> {
        self.at = layer;
        let tokens = 1 + wanted.iter().map(|wanted| wanted.ago).max().unwrap_or(0);
        self.layers[layer].clock += self.tick * tokens as i64;
        let clock = self.layers[layer].clock;
        let slots = wanted
            .iter()
            .map(|wanted| {
                let expert = layer * self.experts + wanted.expert;
                let before = self.worth[expert];
                // Both as they stood at the token of this use.
                let then = clock - self.tick * wanted.ago as i64;
                let past = ((before - then) as f64 / PER_OCTAVE).exp2();
                self.worth[expert] = then + log(past + weight(wanted.rank));
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

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn wanted(expert: usize, rank: usize) -> Wanted {
        Wanted {
            expert,
            rank,
            ago: 0,
        }
    }

    /// One token of one layer, experts best first, everything released at the end; the experts that had to be read.
    fn token(policy: &mut Policy, layer: usize, experts: &[usize]) -> Vec<usize> {
        let wanted: Vec<Wanted> = experts
            .iter()
            .enumerate()
            .map(|(rank, &expert)| wanted(expert, rank))
            .collect();
        let mut slots = policy.request(layer, &wanted);
        let mut read = Vec::new();
        for (slot, wanted) in slots.iter_mut().zip(&wanted) {
            if slot.is_none() {
                *slot = policy.admit(layer, wanted.expert);
                read.push(wanted.expert);
            }
        }
        for slot in slots.into_iter().flatten() {
            policy.release(slot);
        }
        read
    }

    #[test]
    fn what_fits_is_read_once() {
        let mut policy = Policy::new(4, 2, 8);
        assert_eq!(token(&mut policy, 0, &[5, 1]), [5, 1]);
        assert_eq!(token(&mut policy, 1, &[5, 2]), [5, 2]);
        assert_eq!(token(&mut policy, 0, &[1, 5]), NONE);
        assert_eq!(token(&mut policy, 1, &[2, 5]), NONE);
    }

    #[test]
    fn of_one_token_the_lowest_rank_goes_first() {
        let mut policy = Policy::new(3, 1, 8);
        token(&mut policy, 0, &[4, 2, 7]);
        assert_eq!(token(&mut policy, 0, &[0]), [0]);
        assert_eq!(
            token(&mut policy, 0, &[4, 2]),
            NONE,
            "7, the last choice, made room"
        );
    }

    /// LRU would evict expert 3, which was used longest ago and is asked next.
    #[test]
    fn of_equals_the_one_whose_layer_comes_last_goes() {
        let mut policy = Policy::new(3, 4, 8);
        for layer in [1, 2, 3] {
            token(&mut policy, layer, &[3]);
        }
        assert_eq!(token(&mut policy, 0, &[3]), [3], "in place of layer 3's");
        assert_eq!(token(&mut policy, 1, &[3]), NONE);
        assert_eq!(token(&mut policy, 2, &[3]), NONE);
        assert_eq!(token(&mut policy, 3, &[3]), [3]);
    }

    #[test]
    fn a_newcomer_that_promises_little_is_the_next_to_go() {
        let mut policy = Policy::new(2, 2, 32);
        token(&mut policy, 0, &[1]);
        for expert in 0..20 {
            assert_eq!(policy.request(1, &[wanted(expert, 15)]), [None]);
            let slot = policy.admit(1, expert).unwrap();
            policy.release(slot);
        }
        assert_eq!(token(&mut policy, 0, &[1]), NONE);
    }

    #[test]
    fn what_is_in_use_is_not_evicted() {
        let mut policy = Policy::new(2, 1, 8);
        let all: Vec<Wanted> = (0..4).map(|e| wanted(e, e)).collect();
        assert_eq!(policy.request(0, &all), [None; 4]);
        let (a, b) = (policy.admit(0, 0).unwrap(), policy.admit(0, 1).unwrap());
        assert_ne!(a, b);
        assert_eq!(policy.admit(0, 2), None);
        policy.release(b);
        assert_eq!(policy.admit(0, 2), Some(b));
        assert_eq!(policy.admit(0, 3), None);
        assert_eq!(policy.request(0, &all[..2]), [Some(a), None]);
    }

    #[test]
    fn a_failed_read_leaves_nothing_behind() {
        let mut policy = Policy::new(2, 1, 8);
        policy.request(0, &[wanted(3, 0)]);
        let slot = policy.admit(0, 3).unwrap();
        policy.discard(slot);
        assert_eq!(policy.request(0, &[wanted(3, 0)]), [None]);
        assert_eq!(policy.admit(0, 3), Some(slot));
    }

    #[test]
    fn without_slots_nothing_is_admitted() {
        let mut policy = Policy::new(0, 1, 4);
        assert_eq!(policy.request(0, &[wanted(1, 0)]), [None]);
        assert_eq!(policy.admit(0, 1), None);
    }

    #[test]
    fn of_a_chunk_the_last_choices_stay() {
        let mut policy = Policy::new(2, 1, 8);
        let chunk: Vec<Wanted> = (0..4)
            .map(|ago| Wanted {
                expert: ago,
                rank: 3 - ago,
                ago,
            })
            .collect();
        policy.request(0, &chunk);
        for wanted in chunk.iter().rev() {
            let slot = policy.admit(0, wanted.expert).unwrap();
            policy.release(slot);
        }
        let there = policy.request(0, &chunk);
        assert_eq!(
            there.iter().map(Option::is_some).collect::<Vec<_>>(),
            [true, true, false, false]
        );
    }

    /// The formula itself, summed over all uses of every expert and compared over all slots.
    struct Formula {
        /// Tokens of each layer.
        tokens: Vec<i32>,
        /// Layer, expert, token, weight.
        uses: Vec<(usize, usize, i32, f64)>,
    }

    impl Formula {
        fn promise(&self, layer: usize, expert: usize) -> f64 {
            let next = self.tokens[layer] + 1;
            let of_it = |u: &&(usize, usize, i32, f64)| (u.0, u.1) == (layer, expert);
            let uses = self.uses.iter().filter(of_it);
            uses.map(|&(_, _, token, weight)| weight * DECAY.powi(next - token))
                .sum()
        }
    }

    #[test]
    fn victims_are_those_of_the_formula() {
        const LAYERS: usize = 3;
        const EXPERTS: usize = 12;
        for (slots, seed) in [(1, 1), (2, 2), (5, 3), (9, 4), (20, 5), (36, 6)] {
            let mut random: u64 = seed;
            let mut draw = |limit: usize| {
                random = random
                    .wrapping_mul(6364136223846793005)
                    .wrapping_add(1442695040888963407);
                (random >> 33) as usize % limit
            };
            let mut policy = Policy::new(slots, LAYERS, EXPERTS);
            let mut formula = Formula {
                tokens: vec![0; LAYERS],
                uses: Vec::new(),
            };
            let mut holds: Vec<Option<(usize, usize)>> = vec![None; slots];
            let mut evictions = 0;
            for call in 0..180 {
                let layer = call % LAYERS;
                let ago = draw(4) / 3;
                let mut request: Vec<Wanted> = Vec::new();
                for rank in 0..4 {
                    let expert = draw(EXPERTS);
                    if request.iter().all(|w| w.expert != expert) {
                        let ago = if rank == 0 { ago } else { 0 };
                        request.push(Wanted { expert, rank, ago });
                    }
                }
                formula.tokens[layer] += 1 + ago as i32;
                for w in &request {
                    let token = formula.tokens[layer] - w.ago as i32;
                    formula.uses.push((layer, w.expert, token, weight(w.rank)));
                }
                let there = policy.request(layer, &request);
                let mut in_use = Vec::new();
                for (w, slot) in request.iter().zip(&there) {
                    let known = holds.iter().position(|&h| h == Some((layer, w.expert)));
                    assert_eq!(*slot, known);
                    in_use.extend(*slot);
                }
                for (w, _) in request.iter().zip(&there).filter(|(_, s)| s.is_none()) {
                    let slot = match policy.admit(layer, w.expert) {
                        Some(slot) => slot,
                        None => {
                            assert_eq!(in_use.len(), slots, "refused while a slot was free");
                            policy.release(in_use.remove(0));
                            policy.admit(layer, w.expert).unwrap()
                        }
                    };
                    assert!(!in_use.contains(&slot), "evicted in use");
                    if let Some((l, e)) = holds[slot] {
                        evictions += 1;
                        assert!(!holds.contains(&None), "evicted while a slot was empty");
                        let gone = formula.promise(l, e);
                        for (other, _) in holds
                            .iter()
                            .enumerate()
                            .filter(|(s, _)| !in_use.contains(s))
                        {
                            let (l, e) = holds[other].unwrap();
                            let stays = formula.promise(l, e);
                            assert!(gone <= stays * 1.0001, "{gone} went, {stays} stayed");
                        }
                    }
                    holds[slot] = Some((layer, w.expert));
                    in_use.push(slot);
                }
                for slot in in_use {
                    policy.release(slot);
                }
            }
            assert_eq!(evictions > 0, slots < LAYERS * EXPERTS, "{slots} slots");
        }
    }
}
