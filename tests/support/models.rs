//! Models for tests that need no expected values: the tiny fixtures, and synthetic ones of odd shapes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use k3::checkpoint::Checkpoint;
use k3::checkpoint::synth::{self, SynthOptions};
use k3::kernels::Isa;
use k3::model::{Blueprint, Compute, LayerState, Network, State, Want};
use k3::stream::{ExpertStore, Experts, StreamedTrunk, Trunk, TrunkPlan, open_shards};

use super::compare::bits;
use super::draw::XorShift;

/// A checkpoint to run, and a prompt for it.
pub struct Model {
    pub name: &'static str,
    pub checkpoint: Arc<Checkpoint>,
    /// Longer than a block of attended positions.
    pub prompt: Vec<u32>,
    folder: PathBuf,
    /// Removes the folder in the end.
    _temporary: Option<tempfile::TempDir>,
}

/// Positions of every prompt: attention's blocks of 64 are crossed.
pub const POSITIONS: usize = 71;

impl Model {
    fn new(name: &'static str, folder: &Path, temporary: Option<tempfile::TempDir>) -> Self {
        let checkpoint = super::checkpoint(folder);
        let prompt = XorShift::named(name).ids(POSITIONS, checkpoint.config().vocab);
        Self {
            name,
            checkpoint,
            prompt,
            folder: folder.to_owned(),
            _temporary: temporary,
        }
    }

    fn synthetic(name: &'static str, config: &serde_json::Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = serde_json::to_vec(config).unwrap();
        let options = SynthOptions {
            seed: 5,
            ..SynthOptions::default()
        };
        synth::write(folder.path(), &text, options).unwrap();
        let path = folder.path().to_owned();
        Self::new(name, &path, Some(folder))
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn blueprint(&self) -> Blueprint {
        Blueprint::new(self.checkpoint.config().clone(), usize::MAX)
    }

    /// The whole trunk in memory, cut into segments of this size.
    pub fn trunk(&self, segment_limit: u64) -> Box<dyn Trunk> {
        Box::new(self.streamed(segment_limit, 0, |_| true))
    }

    /// The trunk in segments of this size; those that are not pinned come through a ring.
    pub fn streamed(
        &self,
        segment_bytes: u64,
        ring_slots: usize,
        pinned: impl Fn(usize) -> bool,
    ) -> StreamedTrunk {
        let walk = self.blueprint().walk;
        let pinned = (0..walk.segments(segment_bytes).len())
            .map(pinned)
            .collect();
        let plan = TrunkPlan {
            segment_bytes,
            pinned,
            ring_slots,
        };
        let files = open_shards(&self.checkpoint).unwrap();
        StreamedTrunk::open(Arc::clone(&self.checkpoint), &walk, &plan, files).unwrap()
    }

    pub fn experts(&self) -> Box<dyn Experts> {
        self.store(4)
    }

    /// An expert store of so many slots.
    pub fn store(&self, slots: usize) -> Box<dyn Experts> {
        let files = open_shards(&self.checkpoint).unwrap();
        Box::new(ExpertStore::new(Arc::clone(&self.checkpoint), files, slots, None).unwrap())
    }

    /// As the program runs it.
    pub fn network(&self, threads: usize, isa: Isa) -> Network {
        let compute = Compute::new(threads, isa).unwrap();
        Network::open(&self.checkpoint, usize::MAX, compute).unwrap()
    }

    /// Over other sources; two threads, the fastest instruction set.
    pub fn network_over(&self, trunk: Box<dyn Trunk>, experts: Box<dyn Experts>) -> Network {
        let compute = Compute::new(2, Isa::detect()).unwrap();
        Network::new(self.blueprint(), trunk, experts, compute).unwrap()
    }
}

/// A configuration with widths that fit no lane, block or task: all odd.
pub fn odd() -> serde_json::Value {
    serde_json::json!({
        "hidden_size": 53, "num_hidden_layers": 5, "vocab_size": 71,
        "rms_norm_eps": 1e-4, "tie_word_embeddings": false,
        "kda_num_heads": 3, "kda_head_dim": 7,
        "short_conv_kernel_size": 5, "gate_lower_bound": -3.5,
        "num_attention_heads": 3, "q_lora_rank": 13, "kv_lora_rank": 17,
        "qk_nope_head_dim": 5, "qk_rope_head_dim": 3, "v_head_dim": 7,
        "mla_use_output_gate": true,
        "num_experts": 9, "num_experts_per_token": 3, "num_shared_experts": 1,
        "routed_expert_hidden_size": 32, "moe_intermediate_size": 96,
        "routed_scaling_factor": 1.3, "moe_renormalize": true,
        "latent_moe_use_norm": true, "first_k_dense_replace": 1,
        "intermediate_size": 61, "attn_res_block_size": 2,
        "situ_beta": 4.0, "situ_linear_beta": 25.0, "full_attn_layers": [2, 5],
    })
}

/// One that has more rows than a task, and no output gate, latent norm and renormalising.
pub fn wide() -> serde_json::Value {
    serde_json::json!({
        "hidden_size": 130, "num_hidden_layers": 4, "vocab_size": 611,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
        "kda_num_heads": 1, "kda_head_dim": 33,
        "short_conv_kernel_size": 2, "gate_lower_bound": -5.0,
        "num_attention_heads": 5, "q_lora_rank": 31, "kv_lora_rank": 29,
        "qk_nope_head_dim": 11, "qk_rope_head_dim": 2, "v_head_dim": 19,
        "mla_use_output_gate": false,
        "num_experts": 6, "num_experts_per_token": 5, "num_shared_experts": 2,
        "routed_expert_hidden_size": 64, "moe_intermediate_size": 160,
        "routed_scaling_factor": 0.7, "moe_renormalize": false,
        "latent_moe_use_norm": false, "first_k_dense_replace": 2,
        "intermediate_size": 523, "attn_res_block_size": 3,
        "situ_beta": 3.0, "situ_linear_beta": 11.0, "full_attn_layers": [3, 4],
    })
}

/// The fixtures, then [`odd`] and [`wide`].
pub fn models() -> Vec<Model> {
    let fixture = |name| Model::new(name, &super::fixtures().join(name), None);
    vec![
        fixture("tiny-a"),
        fixture("tiny-b"),
        fixture("tiny-c"),
        Model::synthetic("odd", &odd()),
        Model::synthetic("wide", &wide()),
    ]
}

/// Logits of every position, and the state after the last, as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub logits: Vec<Vec<u32>>,
    pub state: Vec<Vec<u32>>,
}

/// The values of a state as bits, a layer's parts after each other.
pub fn state_bits(state: &State) -> Vec<Vec<u32>> {
    assert!(state.is_whole());
    let mut all = vec![vec![state.positions() as u32]];
    for layer in &state.layers {
        match layer {
            LayerState::Kda(kda) => {
                all.push(bits(&kda.recurrent));
                all.extend(kda.history.iter().map(|history| bits(history)));
            }
            LayerState::Mla(cache) => all.push(bits(&cache.rows)),
        }
    }
    all
}

/// Feeds a prompt in chunks.
pub fn outcome(network: &mut Network, prompt: &[u32], chunk: usize) -> Outcome {
    let mut state = network.new_state(prompt.len()).unwrap();
    let logits = network
        .prefill(&mut state, prompt, chunk, Want::All)
        .unwrap();
    assert_eq!(logits.rows().len(), prompt.len());
    Outcome {
        logits: logits.rows().map(bits).collect(),
        state: state_bits(&state),
    }
}

/// What every other way of computing must give: one thread, the portable instruction set, the whole prompt at once.
pub fn plainest(model: &Model) -> Outcome {
    let mut network = model.network(1, Isa::portable());
    outcome(&mut network, &model.prompt, model.prompt.len())
}
