//! What a token costs, all weights in memory and streamed, and what a token of a prompt costs, beside what binds them: the
//! memory, the drive and the fused units. It compares no tokens.
//!
//! `cargo bench --bench decode [-- slice]`: makes the synthetic model *mid* (4.2 GB) or *slice* (9.5 GB) in the temporary
//! folder and removes it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k3::checkpoint::synth::{self, SynthOptions};
use k3::checkpoint::{Checkpoint, Config};
use k3::kernels::Isa;
use k3::model::measure::{Memory, fused_rate};
use k3::model::{Blueprint, Compute, LayerState, Network, State, Want};
use k3::stream::measure::{Case, measure_direct};
use k3::stream::{DirectFile, Machine, Preset, Request, Shape, Split, TrunkPlan, plan};

/// Tokens of a timed decode; the first is not timed.
const TOKENS: usize = 9;
/// Repeats, taken in turns with the limits.
const REPEATS: usize = 5;
/// Tokens of the prompt.
const PROMPT: usize = 512;
/// Positions of the longer context.
const FAR: usize = 8192;

fn main() -> Result<()> {
    let slice = std::env::args().any(|a| a == "slice");
    let config = if slice { SLICE } else { MID };
    let dir = tempfile::tempdir()?;
    synth::write(dir.path(), config.as_bytes(), SynthOptions::default())?;
    let checkpoint = open(dir.path())?;
    let shape = Blueprint::new(checkpoint.config().clone(), usize::MAX).shape();
    let token = shape.walk() + shape.experts_per_token() * shape.expert;
    println!(
        "{}: trunk and head {:.3} GB, experts {:.3} GB a token; load {}",
        if slice { "slice" } else { "mid" },
        shape.walk() as f64 / 1e9,
        (token - shape.walk()) as f64 / 1e9,
        std::fs::read_to_string("/proc/loadavg")
            .unwrap_or_default()
            .trim()
    );
    let limits = Compute::new(threads()?, Isa::detect())?;
    let memory = Memory::new()?;
    {
        let mut network = network(&checkpoint, u64::MAX, u64::MAX)?;
        resident(&mut network, &memory, &limits, token)?;
        prompt(&mut network, &limits)?;
        context(&mut network)?;
    }
    drop(memory);
    streamed(&checkpoint, &shape)
}

/// Decode with everything in memory, against the rate at which memory can be read.
fn resident(network: &mut Network, memory: &Memory, limits: &Compute, token: u64) -> Result<()> {
    println!("\nresident: s/token, GB/s, memory GB/s, share");
    let mut best = (f64::MAX, 0.0f64);
    for _ in 0..REPEATS {
        let rate = memory.read(limits);
        let (seconds, split, _) = decode(network, 16)?;
        let rate = rate.max(memory.read(limits));
        let got = token as f64 / seconds;
        println!(
            "{seconds:>9.4} {:>8.2} {:>8.2} {:>7.0} %   {}",
            got / 1e9,
            rate / 1e9,
            100.0 * got / rate,
            parts(&split)
        );
        best = (best.0.min(seconds), best.1.max(rate));
    }
    let share = token as f64 / best.0 / best.1;
    println!("best against best {:.0} %, goal 75 %", 100.0 * share);
    Ok(())
}

/// A prompt in one chunk, against decode and the fused units.
fn prompt(network: &mut Network, limits: &Compute) -> Result<()> {
    let products = products(network.config());
    let ids: Vec<u32> = (0..PROMPT as u32).map(|i| i * 7 % 1000).collect();
    println!("\nprompt of {PROMPT} tokens: s, ms/token, GFMA/s of its products, limit, share");
    for _ in 0..REPEATS.min(3) {
        let limit = fused_rate(limits);
        let mut state = network.new_state(PROMPT)?;
        let start = Instant::now();
        network.prefill(&mut state, &ids, PROMPT, Want::Last)?;
        let seconds = start.elapsed().as_secs_f64();
        let rate = products * PROMPT as f64 / seconds;
        println!(
            "{seconds:>9.3} {:>8.2} {:>8.1} {:>8.1} {:>7.0} %",
            1e3 * seconds / PROMPT as f64,
            rate / 1e9,
            limit / 1e9,
            100.0 * rate / limit
        );
    }
    Ok(())
}

/// Multiply-adds of a token's products, the head's left out.
fn products(config: &Config) -> f64 {
    let walk = Blueprint::new(config.clone(), usize::MAX).walk;
    let tensors = walk.stages().iter().flatten();
    let trunk: usize = tensors.map(|t| t.rows * t.columns).sum();
    let moe = &config.moe;
    let expert_layers = config.layers() - config.dense_layers;
    let experts = expert_layers * moe.top_k * 3 * moe.inner * moe.latent;
    (trunk - config.vocab * config.hidden + experts) as f64
}

/// Decode far into a context against decode near its start.
fn context(network: &mut Network) -> Result<()> {
    println!("\ncontext: s/token at 64 and at {FAR} positions, ratio");
    for _ in 0..REPEATS.min(3) {
        let near = decode(network, 64)?.0;
        let far = decode(network, FAR)?.0;
        println!("{near:>9.4} {far:>9.4} {:>7.2}", far / near);
    }
    println!("goal 1.3");
    Ok(())
}

/// Decode with about a quarter of the trunk in memory, against the drive.
fn streamed(checkpoint: &Arc<Checkpoint>, shape: &Shape) -> Result<()> {
    let largest = (0..checkpoint.shard_count())
        .max_by_key(|shard| checkpoint.shard_len(*shard))
        .context("no shards")?;
    let file = DirectFile::open(checkpoint.shard_path(largest))?;
    let cases: Vec<Case> = Case::usual()
        .into_iter()
        .filter(|case| case.bytes == 32 << 20 && case.in_flight == 4)
        .take(1)
        .collect();
    let mut network = network(checkpoint, shape.walk() / 100 * 26, 0)?;
    println!("\nstreamed, 26 % of the trunk: s/token, GB read, drive GB/s, s of reading, ratio");
    for _ in 0..REPEATS.min(3) {
        let rates = measure_direct(&file, &cases, 1, Duration::from_secs(2))?;
        let (seconds, split, bytes) = decode(&mut network, 16)?;
        let rate = rates.best().median();
        let reading = bytes / rate;
        println!(
            "{seconds:>9.4} {:>8.3} {:>8.2} {reading:>8.3} {:>7.2}   {}",
            bytes / 1e9,
            rate / 1e9,
            seconds / reading,
            parts(&split)
        );
    }
    Ok(())
}

/// Where the time of a token went, in per cent of it.
fn parts(split: &Split) -> String {
    let share = |time: Duration| 100.0 * time.as_secs_f64() / split.wall().as_secs_f64();
    format!(
        "waited {:.1} % trunk, {:.1} % experts, {:.1} % embedding; computed {:.1} %, rest {:.1} %",
        share(split.waited.trunk),
        share(split.waited.experts),
        share(split.waited.embedding),
        share(split.computed),
        share(split.rest)
    )
}

/// Median seconds a token behind so many positions, where the last token's time went, and bytes read a token.
fn decode(network: &mut Network, positions: usize) -> Result<(f64, Split, f64)> {
    let mut state = network.new_state(positions + TOKENS)?;
    network.expect_more(true);
    let ids: Vec<u32> = (1..=16).collect();
    network.feed(&mut state, &ids, Want::Last)?;
    lengthen(&mut state, positions);
    let read = |network: &Network| {
        network.trunk_counters().bytes_read + network.expert_counters().bytes_read
    };
    let mut before = 0;
    let mut seconds = Vec::new();
    for token in 0..TOKENS {
        network.expect_more(token + 1 < TOKENS);
        let start = Instant::now();
        network.feed(&mut state, &[7 + token as u32], Want::Last)?;
        match token {
            0 => before = read(network),
            _ => seconds.push(start.elapsed().as_secs_f64()),
        }
    }
    let bytes = (read(network) - before) as f64 / seconds.len() as f64;
    seconds.sort_unstable_by(f64::total_cmp);
    let split = network.meters().read(Instant::now()).last_token;
    Ok((seconds[seconds.len() / 2], split.unwrap_or_default(), bytes))
}

/// Repeats what is cached until it is as long as after so many positions: attention takes as long, and a prompt need not be
/// computed.
fn lengthen(state: &mut State, positions: usize) {
    let fed = state.positions();
    for layer in &mut state.layers {
        if let LayerState::Mla(cache) = layer {
            let rows = cache.rows.clone();
            let more = (rows.len() / fed) * positions.saturating_sub(fed);
            cache.rows.extend(rows.into_iter().cycle().take(more));
        }
    }
}

fn open(dir: &Path) -> Result<Arc<Checkpoint>> {
    let config = Config::load(&dir.join("config.json"))?;
    let layers = config.layers();
    let checkpoint = Checkpoint::open(dir, config)?;
    checkpoint.check(layers)?;
    Ok(Arc::new(checkpoint))
}

fn threads() -> Result<usize> {
    Ok(std::thread::available_parallelism()?.get())
}

fn network(checkpoint: &Arc<Checkpoint>, trunk: u64, cache: u64) -> Result<Network> {
    let blueprint = Blueprint::new(checkpoint.config().clone(), usize::MAX);
    let request = Request {
        preset: Preset::Ultra,
        trunk: Some(trunk),
        cache: Some(cache),
        ring: None,
        context: PROMPT,
        threads: threads()?,
        kept_states: 0,
        logits: 1,
        guesses: 0,
    };
    let plan = plan(&blueprint.shape(), &request, &Machine::default())?;
    let trunk = TrunkPlan::of(&plan, &blueprint.walk);
    let compute = Compute::new(threads()?, Isa::detect())?;
    let mut network = Network::planned(checkpoint, blueprint, &trunk, plan.expert_slots, compute)?;
    network.plan_chunk(plan.chunk);
    Ok(network)
}

/// Two sevenths of the release's width, 12 layers, 64 experts.
const MID: &str = r#"{
  "hidden_size": 2048, "num_hidden_layers": 12, "vocab_size": 32768, "rms_norm_eps": 1e-5,
  "kda_num_heads": 28, "kda_head_dim": 128, "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
  "num_attention_heads": 28, "q_lora_rank": 512, "kv_lora_rank": 256, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "v_head_dim": 128, "mla_use_output_gate": true,
  "num_experts": 64, "num_experts_per_token": 8, "num_shared_experts": 2,
  "routed_expert_hidden_size": 1024, "moe_intermediate_size": 2048, "routed_scaling_factor": 1.0,
  "moe_renormalize": true, "latent_moe_use_norm": true, "first_k_dense_replace": 1, "intermediate_size": 8192,
  "attn_res_block_size": 4, "situ_beta": 4.0, "situ_linear_beta": 25.0, "full_attn_layers": [4, 8, 12]
}"#;

/// The release's widths, 4 layers, 64 experts.
const SLICE: &str = r#"{
  "hidden_size": 7168, "num_hidden_layers": 4, "vocab_size": 16384, "rms_norm_eps": 1e-5,
  "kda_num_heads": 96, "kda_head_dim": 128, "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
  "num_attention_heads": 96, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "v_head_dim": 128, "mla_use_output_gate": true,
  "num_experts": 64, "num_experts_per_token": 16, "num_shared_experts": 2,
  "routed_expert_hidden_size": 3584, "moe_intermediate_size": 3072, "routed_scaling_factor": 1.0,
  "moe_renormalize": true, "latent_moe_use_norm": true, "first_k_dense_replace": 1, "intermediate_size": 33792,
  "attn_res_block_size": 12, "situ_beta": 4.0, "situ_linear_beta": 25.0, "full_attn_layers": [4]
}"#;
