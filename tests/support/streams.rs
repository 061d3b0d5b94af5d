//! A model of about 20 MB that streams, files that record or fail, and runs of it under any plan. Expects no values.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use k3::checkpoint::synth::{self, SynthOptions};
use k3::checkpoint::{Checkpoint, Config};
use k3::kernels::{Isa, argmax};
use k3::model::{Blueprint, Compute, Error, Network, State, Want};
use k3::stream::faulty::Faulty;
use k3::stream::{
    DirectFile, Files, Machine, PassPlan, Plan, Preset, ReadAt, Request, StageId, StreamedTrunk,
    Trunk, TrunkPlan, Walk, open_files, plan,
};

use super::compare::bits;
use super::draw::XorShift;
use super::models::state_bits;

/// A synthetic checkpoint in a folder of its own, and a prompt.
pub struct Streaming {
    pub checkpoint: Arc<Checkpoint>,
    pub prompt: Vec<u32>,
    folder: tempfile::TempDir,
}

impl Streaming {
    /// About 20 MB: a trunk of 13 MB in 64 segments and 6 layers of 32 experts.
    pub fn twenty_mb() -> Self {
        Self::synthetic(&serde_json::json!({
            "hidden_size": 256, "num_hidden_layers": 7, "vocab_size": 2048,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
            "kda_num_heads": 4, "kda_head_dim": 64,
            "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
            "num_attention_heads": 4, "q_lora_rank": 128, "kv_lora_rank": 64,
            "qk_nope_head_dim": 64, "qk_rope_head_dim": 32, "v_head_dim": 64,
            "mla_use_output_gate": true,
            "num_experts": 32, "num_experts_per_token": 4, "num_shared_experts": 1,
            "routed_expert_hidden_size": 128, "moe_intermediate_size": 160,
            "routed_scaling_factor": 1.2, "moe_renormalize": true,
            "latent_moe_use_norm": true, "first_k_dense_replace": 1,
            "intermediate_size": 1024, "attn_res_block_size": 3,
            "situ_beta": 4.0, "situ_linear_beta": 25.0, "full_attn_layers": [4, 7],
        }))
    }

    /// A trunk of about 1.5 GB and 2.4 GB of experts: a quarter of the release's widths and 12 layers.
    pub fn mid() -> Self {
        Self::synthetic(&serde_json::json!({
            "hidden_size": 2048, "num_hidden_layers": 12, "vocab_size": 32768,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
            "kda_num_heads": 28, "kda_head_dim": 128,
            "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
            "num_attention_heads": 28, "q_lora_rank": 512, "kv_lora_rank": 256,
            "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
            "mla_use_output_gate": true,
            "num_experts": 64, "num_experts_per_token": 8, "num_shared_experts": 2,
            "routed_expert_hidden_size": 1024, "moe_intermediate_size": 2048,
            "routed_scaling_factor": 1.2, "moe_renormalize": true,
            "latent_moe_use_norm": true, "first_k_dense_replace": 1,
            "intermediate_size": 8192, "attn_res_block_size": 4,
            "situ_beta": 4.0, "situ_linear_beta": 25.0, "full_attn_layers": [4, 8, 12],
        }))
    }

    /// Under 1 MB, for many runs: every stage is there, experts are few.
    pub fn small() -> Self {
        Self::synthetic(&serde_json::json!({
            "hidden_size": 64, "num_hidden_layers": 4, "vocab_size": 307,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
            "kda_num_heads": 2, "kda_head_dim": 32,
            "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
            "num_attention_heads": 2, "q_lora_rank": 32, "kv_lora_rank": 32,
            "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16,
            "mla_use_output_gate": true,
            "num_experts": 12, "num_experts_per_token": 3, "num_shared_experts": 1,
            "routed_expert_hidden_size": 64, "moe_intermediate_size": 96,
            "routed_scaling_factor": 1.1, "moe_renormalize": true,
            "latent_moe_use_norm": true, "first_k_dense_replace": 1,
            "intermediate_size": 160, "attn_res_block_size": 2,
            "situ_beta": 4.0, "situ_linear_beta": 25.0, "full_attn_layers": [2, 4],
        }))
    }

    /// A synthetic checkpoint of any configuration.
    pub fn synthetic(config: &serde_json::Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let text = serde_json::to_vec(config).unwrap();
        let options = SynthOptions {
            seed: 7,
            ..SynthOptions::default()
        };
        synth::write(folder.path(), &text, options).unwrap();
        let config = Config::load(&folder.path().join("config.json")).unwrap();
        let checkpoint = super::checkpoint(folder.path());
        Self {
            prompt: XorShift::named("streaming").ids(9, config.vocab),
            checkpoint,
            folder,
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn blueprint(&self) -> Blueprint {
        Blueprint::new(self.checkpoint.config().clone(), usize::MAX)
    }

    /// Segments of `segment_bytes`, those streamed that `pinned` does not take.
    pub fn trunk_plan(
        &self,
        segment_bytes: u64,
        ring_slots: usize,
        pinned: impl Fn(usize) -> bool,
    ) -> TrunkPlan {
        let segments = self.blueprint().walk.segments(segment_bytes).len();
        TrunkPlan {
            segment_bytes,
            pinned: (0..segments).map(pinned).collect(),
            ring_slots,
        }
    }

    /// What the memory plan makes of budgets.
    pub fn plan(&self, trunk: u64, ring: usize, cache: u64) -> Plan {
        let request = Request {
            preset: Preset::Ultra,
            trunk: Some(trunk),
            cache: Some(cache),
            ring: Some(ring),
            context: 64,
            threads: 2,
            kept_states: 0,
            logits: 1,
            guesses: 0,
        };
        plan(&self.blueprint().shape(), &request, &Machine::default()).unwrap()
    }

    /// Of [`Self::plan`] the trunk's part, and expert slots.
    pub fn budgets(&self, trunk: u64, ring: usize, cache: u64) -> (TrunkPlan, usize) {
        let plan = self.plan(trunk, ring, cache);
        let walk = self.blueprint().walk;
        (TrunkPlan::of(&plan, &walk), plan.expert_slots)
    }

    /// A network of one plan over these files; trunk and experts share them.
    pub fn network(
        &self,
        plan: &TrunkPlan,
        expert_slots: usize,
        threads: usize,
        files: &Files,
    ) -> Result<Network, Error> {
        self.network_with(plan, expert_slots, threads, Isa::detect(), files)
    }

    /// As [`Self::network`], with this instruction set.
    pub fn network_with(
        &self,
        plan: &TrunkPlan,
        expert_slots: usize,
        threads: usize,
        isa: Isa,
        files: &Files,
    ) -> Result<Network, Error> {
        let compute = Compute::new(threads, isa).unwrap();
        let files = Arc::clone(files);
        let (checkpoint, blueprint) = (&self.checkpoint, self.blueprint());
        Network::over_files(checkpoint, files, blueprint, plan, expert_slots, compute)
    }

    /// The shards, each wrapped by `wrap`; direct reads, or through the page cache.
    pub fn files(&self, direct: bool, wrap: impl Fn(DirectFile) -> Box<dyn ReadAt>) -> Files {
        self.files_with(None, direct, wrap)
    }

    /// As [`Self::files`], and the packed trunk in a folder.
    pub fn files_with(
        &self,
        pack: Option<&Path>,
        direct: bool,
        wrap: impl Fn(DirectFile) -> Box<dyn ReadAt>,
    ) -> Files {
        let open = |path: &Path| {
            let file = if direct {
                DirectFile::open(path)
            } else {
                DirectFile::open_buffered(path)
            };
            file.map(&wrap)
        };
        open_files(&self.checkpoint, pack, &open).unwrap()
    }

    pub fn plain_files(&self) -> Files {
        self.files(true, |file| Box::new(file))
    }

    /// Shards on which faults can be let loose, and the handles to do so.
    pub fn faulty_files(&self) -> (Files, Vec<Arc<Faulty<DirectFile>>>) {
        let handles = Mutex::new(Vec::new());
        let files = self.files(true, |file| {
            let file = Arc::new(Faulty::new(file));
            handles.lock().unwrap().push(Arc::clone(&file));
            Box::new(Shared(file))
        });
        (files, handles.into_inner().unwrap())
    }

    /// Where a matrix of the trunk begins: its shard, and its first byte.
    pub fn place(&self, name: &str) -> (usize, u64) {
        let tensor = self.checkpoint.tensor(name).unwrap();
        (usize::from(tensor.shard), tensor.offset)
    }

    /// What the plainest run gives: everything pinned, one thread.
    pub fn plainest(&self, tokens: usize) -> Generated {
        let plan = TrunkPlan::resident(&self.blueprint().walk);
        let mut network = self.network(&plan, 4, 1, &self.plain_files()).unwrap();
        generate(&mut network, &self.prompt, tokens).unwrap()
    }
}

/// A file that several hold.
pub struct Shared<R>(pub Arc<R>);

impl<R: ReadAt> ReadAt for Shared<R> {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(offset, buf)
    }

    fn len(&self) -> u64 {
        self.0.len()
    }

    fn direct(&self) -> bool {
        self.0.direct()
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A file that counts the reads at each place.
pub struct Recorder {
    inner: DirectFile,
    pub seen: Mutex<HashMap<(u64, usize), usize>>,
}

impl Recorder {
    pub fn new(inner: DirectFile) -> Self {
        Self {
            inner,
            seen: Mutex::default(),
        }
    }
}

impl ReadAt for Recorder {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        *self
            .seen
            .lock()
            .unwrap()
            .entry((offset, buf.len()))
            .or_default() += 1;
        self.inner.read_at(offset, buf)
    }

    fn len(&self) -> u64 {
        self.inner.len()
    }

    fn direct(&self) -> bool {
        self.inner.direct()
    }

    fn path(&self) -> &Path {
        self.inner.path()
    }
}

/// What a run gave, as bits: the logits of every prompt position and of every token, the tokens, the state in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generated {
    pub prompt: Vec<Vec<u32>>,
    pub ids: Vec<u32>,
    pub logits: Vec<Vec<u32>>,
    pub state: Vec<Vec<u32>>,
}

/// What happens half way through a run.
pub enum Middle<'a> {
    /// Nothing.
    Same,
    /// The state moves to another network. Every token's pass is parked after two layers and gone on with.
    To(&'a mut Network),
    /// The network takes another plan, after a pass was parked in its middle and gone on with.
    Replan(&'a TrunkPlan, usize),
}

/// Prompt in chunks of 5, then `tokens` greedy tokens. The network hears when the last pass comes.
pub fn generate(network: &mut Network, prompt: &[u32], tokens: usize) -> Result<Generated, Error> {
    generate_through(network, Middle::Same, prompt, 5, tokens)
}

/// As [`generate`], with a middle, and the prompt in chunks of `chunk`.
pub fn generate_through(
    network: &mut Network,
    mut middle: Middle<'_>,
    prompt: &[u32],
    chunk: usize,
    tokens: usize,
) -> Result<Generated, Error> {
    let half = tokens / 2;
    let mut state: State = network.new_state(prompt.len() + tokens).unwrap();
    network.expect_more(true);
    let rows = network.prefill(&mut state, prompt, chunk, Want::All)?;
    let mut row = rows.last().unwrap().to_vec();
    let rows: Vec<_> = rows.rows().map(bits).collect();
    let (mut ids, mut logits) = (Vec::new(), Vec::new());
    for token in 0..tokens {
        ids.push(argmax(&row).unwrap() as u32);
        let next = &ids[ids.len() - 1..];
        let parked_after = match &middle {
            Middle::Same => 0,
            Middle::To(_) => 2,
            Middle::Replan(..) if token == half => network.layer_count() / 2,
            Middle::Replan(..) => 0,
        };
        if let Middle::Replan(plan, slots) = &middle
            && token == half + 1
        {
            network.replan(plan, *slots)?;
        }
        let network = match &mut middle {
            Middle::To(other) if token >= half => &mut **other,
            _ => &mut *network,
        };
        network.expect_more(token + 1 < tokens);
        let mut pass = network.begin(&mut state, next, Want::Last)?;
        while pass.layer() < parked_after {
            network.advance(&mut pass, &mut state)?;
        }
        // Parked here: the readers run on as far as there is room.
        while !network.advance(&mut pass, &mut state)? {}
        let got = network.finish(pass, &mut state)?;
        row = got.last().unwrap().to_vec();
        logits.push(bits(&row));
    }
    Ok(Generated {
        prompt: rows,
        ids,
        logits,
        state: state_bits(&state),
    })
}

/// Walks one pass without computing: every piece of every stage is asked for. Gives a sum over all bytes and where they
/// stand, so that a wrong one shows.
pub fn walk_through(
    trunk: &mut StreamedTrunk,
    walk: &Walk,
    plan: PassPlan,
) -> Result<u64, k3::stream::Error> {
    trunk.begin(plan)?;
    let stages = walk.stages().len() - usize::from(!plan.head);
    walk_stages(trunk, 0..stages)
}

/// Asks for every piece of some stages, in order.
pub fn walk_stages(
    trunk: &mut StreamedTrunk,
    stages: std::ops::Range<usize>,
) -> Result<u64, k3::stream::Error> {
    let mut sum = 0_u64;
    for stage in stages {
        while let Some(pieces) = trunk.pieces(StageId(stage))? {
            for piece in pieces {
                let k3::kernels::Weights::Bf16(weights) = piece.weights else {
                    panic!("the trunk is bf16");
                };
                for weight in weights {
                    sum = sum
                        .wrapping_mul(0x0100_0000_01b3)
                        .wrapping_add(u64::from(u16::from_le_bytes(*weight)));
                }
            }
        }
    }
    Ok(sum)
}

/// The path of a model's first shard.
pub fn first_shard(model: &Streaming) -> PathBuf {
    model.checkpoint.shard_path(0).to_owned()
}
