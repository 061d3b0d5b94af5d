//! What a memory plan must know of a model: sizes, and nothing else of it. Who computes with them fills it in.

use super::HUGE_PAGE;

/// A huge page, in bytes.
const HUGE: u64 = HUGE_PAGE as u64;

/// Room for a page at either end, so that a read of any bytes can be widened to whole pages.
pub const WIDENING: u64 = 2 * PAGE;
/// What direct reads are aligned to.
pub const PAGE: u64 = 4096;

/// Bytes of a slot for `bytes` that come in so many reads, wherever those begin. What is allocated is what is planned.
pub(super) fn slot(bytes: u64, reads: u64) -> u64 {
    bytes
        .next_multiple_of(PAGE)
        .saturating_add(reads.saturating_mul(WIDENING))
}

/// Bytes of so many slots in one arena: whole huge pages, once there is one. The end of an arena is read into as often as the rest,
/// and a read into ordinary pages takes several times as long.
pub(super) fn together(slots: u64, slot: u64) -> u64 {
    match slots.saturating_mul(slot) {
        bytes if bytes < HUGE => bytes,
        bytes => bytes.checked_next_multiple_of(HUGE).unwrap_or(u64::MAX),
    }
}

/// The sizes of a model, in bytes where nothing else is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Of each segment of the walk, in order, the lm_head's included.
    pub segments: Vec<u64>,
    /// Runs of rows in the segment that has most of them, each perhaps a read of its own (a count).
    pub runs: u64,
    /// Small vectors as they are kept: widened to f32, norms folded into projections.
    pub vectors: u64,
    /// What says where everything is: the checkpoint's index and the walk.
    pub index: u64,
    /// Of one routed expert on disk.
    pub expert: u64,
    /// Routed experts of all layers (a count).
    pub experts: u64,
    /// Layers with routed experts (a count).
    pub expert_layers: u64,
    /// Experts chosen for a token in each of those layers (a count).
    pub top_k: u64,
    /// State of a fixed size: the recurrent states and convolution histories of the KDA layers.
    pub state: u64,
    /// Latent cache of one position, all MLA layers together.
    pub kv_per_position: u64,
    /// What attention reads of the cache for one token and one cached position: every head goes over the rows.
    pub attention_per_position: u64,
    /// Intermediate results of a pass.
    pub activations: Activations,
    /// Tokens of a prompt that go through the layers together under the smallest plan (a count).
    pub chunk: u64,
}

/// Bytes of intermediate results at the largest moments of a pass, for each token of the chunk where nothing else is
/// said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activations {
    /// Held through the whole pass: the residual stream, its snapshots, a layer's input.
    pub pass: u64,
    /// Within an attention or a dense feed-forward network, whichever is largest.
    pub layer: u64,
    /// Within a mixture of experts, whatever the experts.
    pub mixture: u64,
    /// There for each expert of a token: its input and its result.
    pub choice: u64,
    /// There for each expert of a token that is being computed.
    pub computing: u64,
    /// For each position whose logits are wanted.
    pub logits: u64,
    /// For each token of which it is not known yet whether it stands: what moves the recurrent states.
    pub drafted: u64,
    /// A layer's recurrent state, of which such a pass moves a copy.
    pub recurrent: u64,
    /// For each thread that computes, whatever the tokens: its room to multiply several of them in.
    pub thread: u64,
}

impl Activations {
    /// Of a pass over `tokens`, each with `top_k` experts, of which `computing` are at work at once.
    pub fn pass(&self, tokens: u64, top_k: u64, computing: u64) -> u64 {
        let mixture = self.mixture + top_k * self.choice + computing * self.computing;
        tokens * (self.pass + self.layer.max(mixture))
    }
}

impl Activations {
    /// What a pass holds besides over `tokens` of which some may not stand.
    pub fn draft(&self, tokens: u64) -> u64 {
        let drafted = tokens.saturating_mul(self.drafted);
        drafted.saturating_add(self.recurrent)
    }
}

impl Shape {
    /// Bytes of the whole walk.
    pub fn walk(&self) -> u64 {
        self.segments.iter().sum()
    }

    /// Bytes of an expert slot: whole pages, and room to widen a read.
    pub fn expert_stride(&self) -> u64 {
        slot(self.expert, 1)
    }

    /// Bytes of a ring slot: the largest segment, and room to widen its reads.
    pub fn ring_slot(&self) -> u64 {
        let largest = self.segments.iter().max().copied().unwrap_or(0);
        slot(largest, self.runs)
    }

    /// Bytes of a ring of so many slots.
    pub fn ring(&self, slots: u64) -> u64 {
        together(slots, self.ring_slot())
    }

    /// Bytes of a store of so many experts.
    pub fn store(&self, experts: u64) -> u64 {
        together(experts, self.expert_stride())
    }

    /// Experts whose store takes no more than so many bytes.
    pub fn experts_in(&self, bytes: u64) -> u64 {
        let whole = match bytes {
            0..HUGE => bytes,
            _ => bytes - bytes % HUGE,
        };
        whole / self.expert_stride()
    }

    /// Experts that a token asks for.
    pub fn experts_per_token(&self) -> u64 {
        self.expert_layers * self.top_k
    }
}
