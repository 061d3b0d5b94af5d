//! What a network takes of memory, as sizes that a plan can be made of. It follows what the layers allocate; a layer that
//! allocates otherwise changes its line here.

use super::{Blueprint, KdaState, PREFILL_CHUNK};
use crate::checkpoint::config::{Attention, Config};
use crate::checkpoint::layout::{self, ExpertLayout, Kind};
use crate::kernels;
use crate::stream::{Activations, Shape};

/// For each routed expert: 16 bytes of the checkpoint's index, and the store's record of what it holds and how often
/// it was wanted.
const EXPERT_RECORD: u64 = 16 + 32;
/// For each tensor outside the experts: its name, twice (index and walk), its entry in the table, its runs of rows.
/// Measured on the full-size index.
const TENSOR_RECORD: u64 = 448;
/// One shard's header while it is read; each is dropped for the next.
const HEADER: u64 = 1 << 20;

impl Blueprint {
    /// The sizes that a memory plan needs.
    pub fn shape(&self) -> Shape {
        let (config, layers) = (&self.config, self.layer_count());
        let segments = self.walk.segments(self.walk.segment_bytes());
        let run_bytes = |run| 2 * self.walk.tensor(run).columns as u64;
        let runs = segments.iter().map(Vec::len).max().unwrap_or(0) as u64;
        let segments = segments
            .iter()
            .map(|s| {
                s.iter()
                    .map(|run| run.rows.len() as u64 * run_bytes(run))
                    .sum()
            })
            .collect();
        let tensors = layout::trunk(config, layers);
        let count = |kind| {
            let kinds = config.attention.iter().take(layers);
            kinds.filter(|k| **k == kind).count() as u64
        };
        let expert_layers = layers.saturating_sub(config.dense_layers) as u64;
        // The index covers the whole checkpoint, also when only its first layers run.
        let indexed = config.layers().saturating_sub(config.dense_layers) * config.moe.experts;
        let mla = &config.mla;
        let row = f32s(mla.cache_width());
        Shape {
            segments,
            runs,
            vectors: vectors(config, &tensors),
            index: indexed as u64 * EXPERT_RECORD + tensors.len() as u64 * TENSOR_RECORD + HEADER,
            expert: ExpertLayout::new(&config.moe).bytes(),
            experts: expert_layers * config.moe.experts as u64,
            expert_layers,
            top_k: config.moe.top_k as u64,
            state: count(Attention::Kda) * f32s(KdaState::values(&config.kda)),
            kv_per_position: count(Attention::Mla) * row,
            attention_per_position: count(Attention::Mla) * mla.heads as u64 * row,
            activations: activations(config, layers, self.widest()),
            chunk: PREFILL_CHUNK as u64,
        }
    }

    /// Columns of the widest matrix.
    fn widest(&self) -> usize {
        let moe = &self.config.moe;
        let trunk = self.walk.stages().iter().flatten().map(|t| t.columns);
        trunk.fold(moe.latent.max(moe.inner), usize::max)
    }
}

/// Bytes of so many f32.
fn f32s(values: usize) -> u64 {
    (values * size_of::<f32>()) as u64
}

/// Small vectors widened to f32. Of each attention residual the norm and the projection are kept as one.
fn vectors(config: &Config, tensors: &[layout::Entry]) -> u64 {
    let small = tensors.iter().filter(|t| t.kind == Kind::Vector);
    let values: usize = small.map(|t| t.shape.iter().product::<usize>()).sum();
    let folds = tensors
        .iter()
        .filter(|t| t.name.ends_with("res_proj.weight"))
        .count();
    f32s(values - folds * config.hidden)
}

/// What the layers hold at once, per token: each line is a layer's own variables at its largest moment.
fn activations(config: &Config, layers: usize, widest: usize) -> Activations {
    let (hidden, kda, mla, moe) = (config.hidden, &config.kda, &config.mla, &config.moe);
    let snapshots = layers.div_ceil(config.block);
    let kinds = config.attention.iter().take(layers);
    let recurrent_layers = kinds.filter(|k| **k == Attention::Kda).count() as u64;
    // Every product holds its input twice: as it is, and in tiles.
    // q, k, v, gate, decay; the input's tiles, or the heads' results as they come and by token; what decays and beta.
    let recurrent = 5 * kda.width() + hidden.max(2 * kda.width()) + kda.head_dim + kda.heads;
    // The low-rank query twice, the latent, the query, the heads' results twice and in tiles; the output.
    let latent = 2 * mla.q_rank
        + mla.cache_width()
        + 3 * mla.heads * mla.v_dim
        + mla.heads * mla.q_dim()
        + hidden;
    // Gate and up, and the input's tiles; or gate twice, and the output.
    let dense = match config.dense_layers.min(layers) {
        0 => 0,
        _ => hidden + 2 * config.dense_inner,
    };
    // The router, the latent, and for the shared expert what a dense layer has.
    let shared = moe.experts + moe.latent + hidden + 2 * moe.shared_inner();
    // The router, the latent, its sum, normed or in tiles too; the shared expert's output and the whole one.
    let whole = moe.experts + 3 * moe.latent + 2 * hidden;
    // While experts are at work: the router, the latent, its sum; the shared expert's output.
    let mixture = moe.experts + 2 * moe.latent + hidden;
    Activations {
        // The stream, its snapshots and the layer's input.
        pass: f32s((2 + snapshots) * hidden),
        layer: f32s(recurrent.max(latent).max(dense).max(shared).max(whole)),
        mixture: f32s(mixture),
        choice: f32s(2 * moe.latent),
        // Gate and up, and the input in tiles, or one of them.
        computing: f32s(2 * moe.inner + moe.latent),
        logits: f32s(config.vocab),
        // Of every KDA layer the inputs of q, k, v and decay, and beta.
        drafted: recurrent_layers * f32s(4 * kda.width() + kda.heads),
        recurrent: f32s(kda.heads * kda.head_dim.pow(2)),
        thread: kernels::room_bytes(widest) as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::State;
    use crate::stream::{self, Machine, Preset, Request, plan};

    fn released() -> Shape {
        Blueprint::new(Config::released(), 93).shape()
    }

    #[test]
    fn the_released_sizes() {
        let shape = released();
        // The published sizes of trunk and lm_head, less the small vectors.
        let published = 108_811_859_712 + 2_348_810_240;
        let walk = shape.walk();
        assert!(published - 60_000_000 < walk && walk < published, "{walk}");
        assert_eq!(shape.expert, 17_547_264);
        assert_eq!(shape.expert_stride(), 17_555_456);
        assert_eq!(shape.experts, 82_432);
        assert_eq!(shape.experts_per_token() * shape.expert, 25_829_572_608);
        assert_eq!(shape.kv_per_position, 55_296);
        assert_eq!(shape.state, 464_633_856);
        assert!((53_000_000..58_000_000).contains(&shape.vectors));
        assert_eq!(shape.runs, 5);
        assert_eq!(shape.ring_slot(), (32 << 20) + 5 * 8192);
        assert!(shape.index < 8_000_000, "{}", shape.index);
    }

    #[test]
    fn the_state_is_what_a_state_allocates() {
        let mut config = Config::released();
        config.hidden = 64;
        config.kda.heads = 2;
        config.attention.truncate(9);
        let state = State::new(&config, 9, 10).unwrap();
        let allocated: usize = state
            .layers
            .iter()
            .map(|layer| match layer {
                crate::model::LayerState::Kda(kda) => {
                    kda.recurrent.len() + kda.history.iter().map(Vec::len).sum::<usize>()
                }
                crate::model::LayerState::Mla(_) => 0,
            })
            .sum();
        let shape = Blueprint::new(config, 9).shape();
        assert_eq!(shape.state, f32s(allocated));
        assert_eq!(shape.kv_per_position, state.bytes_per_position() as u64);
    }

    fn asking(preset: Preset, context: usize) -> Request {
        Request {
            preset,
            trunk: None,
            cache: None,
            ring: None,
            context,
            threads: 2,
            kept_states: 0,
            logits: 1,
            guesses: 0,
        }
    }

    #[test]
    fn the_smallest_plan_of_the_release_is_under_1_gb() {
        let request = asking(Preset::Ultra, 7);
        let plan = plan(&released(), &request, &Machine::default()).unwrap();
        assert!(plan.total() <= 1_000_000_000, "{:?}", plan.parts);
        assert_eq!((plan.ring_slots, plan.expert_slots), (4, 4));
        let slot = (32 << 20) + 5 * 8192;
        // Whole huge pages.
        let ring = |slots: u64| (slots * slot).next_multiple_of(2 << 20);
        assert_eq!(plan.parts.ring, ring(4));
        assert_eq!(plan.parts.kv, 7 * 55_296);
        let two = Request {
            ring: Some(2),
            ..request
        };
        let smaller = stream::plan(&released(), &two, &Machine::default()).unwrap();
        assert_eq!(plan.total() - smaller.total(), ring(4) - ring(2));
    }

    /// Trouble report 34: presets took 113 GB where no packed trunk was named. There is nothing to name here, and each
    /// takes what its budgets say.
    #[test]
    fn trouble_34_presets_keep_to_their_budgets_without_a_packed_trunk() {
        let shape = released();
        for (preset, at_most) in [
            (Preset::Ultra, 1.4),
            (Preset::Laptop, 5.8),
            (Preset::Desktop, 32.2),
            (Preset::Workstation, 96.2),
            (Preset::Server, 126.2),
            (Preset::Max, 222.2),
        ] {
            let plan = plan(&shape, &asking(preset, 8192), &Machine::default()).unwrap();
            let total = plan.total() as f64 / 1e9;
            assert!(total <= at_most, "{preset:?}: {total}");
            let budgets = preset.budgets().unwrap();
            let trunk = plan.parts.ring + plan.parts.pinned;
            assert!(trunk <= budgets.trunk.max(plan.parts.ring));
            // The budget is filled but for about one segment.
            assert!(trunk + (70 << 20) >= budgets.trunk.min(shape.walk()));
        }
    }

    #[test]
    fn fewer_layers_take_less() {
        let all = released();
        let some = Blueprint::new(Config::released(), 13).shape();
        assert_eq!(some.experts, 12 * 896);
        assert!(some.walk() < all.walk() / 4 && some.state < all.state / 6);
        assert!(some.vectors < all.vectors / 4 && some.activations.pass < all.activations.pass);
    }
}
