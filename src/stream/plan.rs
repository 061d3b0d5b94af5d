//! The memory plan: what a model takes of a machine, before anything is taken. Arithmetic on sizes; nothing is allocated
//! and nothing measured here.

use super::auto;
use super::machine::{Limit, Machine};
use super::pins::pins;
use super::preset::{Budgets, Preset};
use super::refusal::{self, Refusal};
use super::shape::Shape;

/// What is asked of a plan. Budgets and ring that are not given come from the preset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Where budgets come from that are not given.
    pub preset: Preset,
    /// Bytes for pins and ring together.
    pub trunk: Option<u64>,
    /// Bytes for expert slots.
    pub cache: Option<u64>,
    /// Slots of the ring; at least one.
    pub ring: Option<usize>,
    /// Positions to plan for.
    pub context: usize,
    /// Threads that compute; at least one.
    pub threads: usize,
    /// Copies of the recurrent state that are kept in memory to go back to.
    pub kept_states: usize,
    /// Positions whose logits are wanted at once.
    pub logits: usize,
    /// Tokens that may be guessed and checked in one pass.
    pub guesses: usize,
}

impl Request {
    /// What a preset gives for so many positions: all cores, one position's logits at a time, and as many kept states as
    /// suit its chats.
    pub fn of(preset: Preset, context: usize) -> Self {
        Self {
            preset,
            trunk: None,
            cache: None,
            ring: None,
            context,
            threads: crate::system::cores(),
            kept_states: preset.kept_states(),
            logits: 1,
            guesses: 0,
        }
    }
}

/// Slots of a ring when none are asked for: one computed on, one waiting, two in flight.
pub const RING_SLOTS: usize = 4;
/// The smallest expert store: two experts to compute, one a thread on a small machine, while two are read.
pub const EXPERT_SLOTS: u64 = 4;

/// What a program with its one main thread takes before a model is opened: its own code and data, measured.
const PROGRAM: u64 = 5 << 20;
/// What each further thread takes: the used part of its stack, and the allocator's own.
const THREAD: u64 = 128 << 10;
/// Threads beside those that compute: readers, and the engine's own.
const OTHER_THREADS: u64 = 6;

/// Resident bytes, part by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// Index of the checkpoint, the walk, and the expert store's records.
    pub index: u64,
    /// Small vectors.
    pub vectors: u64,
    /// Recurrent state.
    pub state: u64,
    /// Copies of it.
    pub kept_states: u64,
    /// Latent cache at the planned context. It is reserved, and becomes resident as positions are used.
    pub kv: u64,
    /// Ring slots.
    pub ring: u64,
    /// Pinned segments.
    pub pinned: u64,
    /// Expert slots.
    pub experts: u64,
    /// Intermediate results of a pass.
    pub activations: u64,
    /// The program itself and its threads.
    pub program: u64,
}

impl Parts {
    /// Every part by name.
    pub fn named(&self) -> [(&'static str, u64); 10] {
        [
            ("index", self.index),
            ("vectors", self.vectors),
            ("state", self.state),
            ("kept_states", self.kept_states),
            ("kv", self.kv),
            ("ring", self.ring),
            ("pinned", self.pinned),
            ("experts", self.experts),
            ("activations", self.activations),
            ("program", self.program),
        ]
    }

    /// The predicted peak resident size of the whole process.
    pub fn total(&self) -> u64 {
        let bytes = self.named().into_iter().map(|(_, bytes)| bytes);
        bytes.fold(0, u64::saturating_add)
    }
}

/// Bytes that a token moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerToken {
    /// Streamed from disk for the trunk, the lm_head included.
    pub trunk_read: u64,
    /// Read for experts when none is retained; nothing where all of them fit.
    pub experts_read: u64,
    /// Weights that pass from memory to the processor.
    pub weights: u64,
    /// The latent cache that attention goes over, at the planned context.
    pub attention: u64,
}

impl PerToken {
    /// All that is read from disk.
    pub fn read(&self) -> u64 {
        self.trunk_read + self.experts_read
    }

    /// Seconds a token at rates in bytes a second. Reads and computation overlap, so the slower of the two counts;
    /// computation is bound by memory.
    pub fn seconds(&self, disk: f64, memory: f64) -> f64 {
        let read = self.read() as f64 / disk;
        let computed = (self.weights as f64 + self.attention as f64) / memory;
        read.max(computed)
    }
}

/// A plan that the machine can hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Where its budgets came from.
    pub preset: Preset,
    /// Slots of the ring; none when every segment is pinned.
    pub ring_slots: usize,
    /// Which segments of the walk stay in memory.
    pub pinned: Vec<bool>,
    /// Experts that can be in memory at once.
    pub expert_slots: usize,
    /// Positions that it was made for.
    pub context: usize,
    /// Tokens of a prompt that go through the layers together, at most.
    pub chunk: usize,
    /// Threads that compute.
    pub threads: usize,
    /// What it takes.
    pub parts: Parts,
    /// Latent cache of one position.
    pub kv_per_position: u64,
    /// What a token moves.
    pub per_token: PerToken,
    /// Memory that the process may take.
    pub available: Option<u64>,
    /// What says so.
    pub limited_by: Limit,
    /// What the user should know, a line each.
    pub notices: Vec<String>,
}

impl Plan {
    /// The predicted peak resident size of the whole process.
    pub fn total(&self) -> u64 {
        self.parts.total()
    }
}

/// The plan for a model on a machine.
///
/// Budgets are cut to what the model can use and raised to the smallest plan, and only then compared with the machine.
///
/// # Errors
/// The machine cannot hold it.
pub fn plan(shape: &Shape, request: &Request, machine: &Machine) -> Result<Plan, Refusal> {
    let asked = budgets(shape, request, machine);
    let mut plan = lay_out(shape, request, asked);
    plan.notices = notices(shape, request, machine, &plan);
    let Some((available, limited_by)) = machine.available() else {
        return Ok(plan);
    };
    (plan.available, plan.limited_by) = (Some(available), limited_by);
    if plan.total() > available {
        return Err(refusal::refuse(shape, request, plan, available));
    }
    Ok(plan)
}

/// Given budgets win over the preset's, whatever the preset.
fn budgets(shape: &Shape, request: &Request, machine: &Machine) -> Budgets {
    match request.preset.budgets() {
        Some(preset) => Budgets {
            trunk: request.trunk.unwrap_or(preset.trunk),
            cache: request.cache.unwrap_or(preset.cache),
        },
        None => auto::budgets(shape, request, machine),
    }
}

/// The plan of two budgets, whatever the machine.
pub(super) fn lay_out(shape: &Shape, request: &Request, budgets: Budgets) -> Plan {
    let (ring_slots, pinned) = trunk(shape, request, budgets.trunk);
    let kept = shape.segments.iter().zip(&pinned);
    let pinned_bytes: u64 = kept.filter(|(_, kept)| **kept).map(|(b, _)| b).sum();
    let expert_slots = shape
        .experts_in(budgets.cache)
        .max(EXPERT_SLOTS)
        .min(shape.experts);
    let threads = request.threads as u64 + OTHER_THREADS;
    let (ring, experts) = (shape.ring(ring_slots as u64), shape.store(expert_slots));
    let held = ring + pinned_bytes + experts;
    let chunk = chunk(shape, request, held, expert_slots);
    let parts = Parts {
        index: shape.index,
        vectors: shape.vectors,
        state: shape.state,
        kept_states: shape.state.saturating_mul(request.kept_states as u64),
        kv: shape.kv_per_position.saturating_mul(request.context as u64),
        ring,
        pinned: pinned_bytes,
        experts,
        activations: activations(shape, request, chunk, expert_slots),
        program: PROGRAM + threads * THREAD,
    };
    let experts_read = match expert_slots == shape.experts {
        true => 0,
        false => shape.experts_per_token() * shape.expert,
    };
    Plan {
        preset: request.preset,
        ring_slots,
        pinned,
        expert_slots: expert_slots as usize,
        context: request.context,
        chunk: chunk as usize,
        threads: request.threads,
        parts,
        kv_per_position: shape.kv_per_position,
        per_token: PerToken {
            trunk_read: shape.walk() - pinned_bytes,
            experts_read,
            weights: shape.walk() + shape.experts_per_token() * shape.expert,
            attention: shape
                .attention_per_position
                .saturating_mul(request.context as u64),
        },
        available: None,
        limited_by: Limit::Unknown,
        notices: Vec::new(),
    }
}

/// Ring and pins. The ring is paid first; where it would take as much as the whole trunk, the trunk is pinned instead.
fn trunk(shape: &Shape, request: &Request, budget: u64) -> (usize, Vec<bool>) {
    let walk = shape.walk();
    let slots = request.ring.unwrap_or(RING_SLOTS);
    let ring = shape.ring(slots as u64);
    if budget >= walk || ring >= walk {
        return (0, vec![true; shape.segments.len()]);
    }
    (slots, pins(&shape.segments, budget.saturating_sub(ring)))
}

/// The longest chunk of a prompt. Of the released model nearly every expert is read for 200 tokens already, so twice the chunk
/// is half the reading; from about five hundred tokens on two cores multiply for as long as that takes.
const LONGEST_CHUNK: u64 = 528;
/// Chunks grow in steps of this many tokens, those for which the kernels widen weights once.
const CHUNK_STEP: u64 = 48;
/// Of what is held of the weights, intermediate results of a chunk may take one part in so many. A byte of them saves more
/// reading in a prompt than a pinned byte in an answer.
const CHUNK_SHARE: u64 = 8;

/// Tokens of a prompt that go through the layers together: the more, the fewer passes over the weights; the results of all
/// of them are held at once. Where every position's logits are held too, as few as may be.
fn chunk(shape: &Shape, request: &Request, held: u64, expert_slots: u64) -> u64 {
    if request.logits > 1 {
        return shape.chunk;
    }
    let computing = shape.top_k.min(expert_slots);
    let token = shape.activations.pass(1, shape.top_k, computing).max(1);
    let tokens = held / CHUNK_SHARE / token / CHUNK_STEP * CHUNK_STEP;
    tokens.min(LONGEST_CHUNK).max(shape.chunk)
}

/// What is to be left of `room` so that the chunk that it will allow has its memory too, beyond the smallest one's.
pub(super) fn left_for_chunk(shape: &Shape, room: u64) -> u64 {
    let most = LONGEST_CHUNK.saturating_sub(shape.chunk);
    let longest = shape.activations.pass(most, shape.top_k, shape.top_k);
    longest.min(room / CHUNK_SHARE)
}

/// Intermediate results: of a prompt's chunk, or of as many tokens as there are positions.
fn activations(shape: &Shape, request: &Request, chunk: u64, expert_slots: u64) -> u64 {
    let tokens = chunk.min(request.context.max(1) as u64);
    let computing = shape.top_k.min(expert_slots);
    let logits = request.logits.max(request.guesses.saturating_add(1)) as u64;
    let draft = match request.guesses {
        0 => 0,
        guesses => shape.activations.draft((guesses as u64).saturating_add(1)),
    };
    shape
        .activations
        .pass(tokens, shape.top_k, computing)
        .saturating_add(draft)
        .saturating_add(shape.activations.logits.saturating_mul(logits))
        .saturating_add(
            shape
                .activations
                .thread
                .saturating_mul(request.threads as u64),
        )
}

/// From this share of the machine's memory on, the system takes pages back while the model runs, and reading slows
/// down: 90 % with half of a trunk pinned was slower than 25 %.
const CROWDED_PERCENT: u64 = 78;

fn notices(shape: &Shape, request: &Request, machine: &Machine, plan: &Plan) -> Vec<String> {
    let mut lines = Vec::new();
    let trunk = plan.parts.ring + plan.parts.pinned;
    if request
        .trunk
        .is_some_and(|asked| asked < trunk.min(shape.walk()))
    {
        let smallest = match plan.ring_slots {
            0 => "the whole trunk, which is less than a ring".to_owned(),
            slots => format!("a ring of {slots} slots"),
        };
        lines.push(format!(
            "the trunk budget is below the smallest plan and was raised to {}: {smallest}",
            gb(trunk)
        ));
    }
    if request
        .cache
        .is_some_and(|asked| asked < plan.parts.experts)
    {
        lines.push(format!(
            "the cache budget is below the smallest plan and was raised to {}: {} experts",
            gb(plan.parts.experts),
            plan.expert_slots
        ));
    }
    if plan.ring_slots == 1 {
        lines.push(
            "with one ring slot nothing is read ahead: reading and computing take turns".into(),
        );
    }
    match machine.total() {
        None => lines.push(
            "the memory of this machine cannot be found out here: nothing says whether the plan fits".into(),
        ),
        Some(total) if plan.ring_slots > 0 && plan.total() > total / 100 * CROWDED_PERCENT => {
            lines.push(format!(
                "the plan takes more than {CROWDED_PERCENT} % of {} of memory while the trunk streams: a smaller one may be faster",
                gb(total)
            ));
        }
        Some(_) => {}
    }
    lines
}

/// Bytes in the decimal unit that suits them.
pub(super) fn gb(bytes: u64) -> String {
    match bytes {
        0..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests;
