//! How fast the full-size shape is written as holes and indexed, and in how much memory. It measures headers only;
//! no weight is read.
//!
//! `cargo bench --bench index [-- CONFIG]`: CONFIG is a `config.json`; without it the one of `K3_ORACLE`, else one of
//! the same sizes that is made here.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k3::checkpoint::synth::{self, SynthOptions};
use k3::checkpoint::{Checkpoint, Config};

/// In the child process: the folder to index.
const CHILD: &str = "K3_BENCH_INDEX_DIR";

fn main() -> Result<()> {
    if let Some(dir) = std::env::var_os(CHILD) {
        return index(Path::new(&dir));
    }
    // Cargo passes --bench to every bench program.
    let given = std::env::args()
        .skip(1)
        .find(|arg| !arg.starts_with("--"))
        .map(PathBuf::from);
    let config = given.or_else(|| {
        let oracle = PathBuf::from(std::env::var_os("K3_ORACLE")?);
        Some(oracle.join("chat/official-config.json"))
    });
    let config_json = match &config {
        Some(path) => std::fs::read(path).with_context(|| path.display().to_string())?,
        None => released_sizes().into_bytes(),
    };

    let dir = tempfile::tempdir()?;
    let start = Instant::now();
    let report = synth::write(
        dir.path(),
        &config_json,
        SynthOptions {
            sparse: true,
            ..Default::default()
        },
    )?;
    let written = start.elapsed().as_secs_f64();
    println!(
        "{} tensors in {} shards, {} bytes",
        report.tensors, report.shards, report.bytes
    );
    line("write, seconds", written, 60.0);
    line("disk used, MB", disk_used(dir.path())? as f64 / 1e6, 200.0);

    let status = Command::new(std::env::current_exe()?)
        .env(CHILD, dir.path())
        .status()?;
    ensure!(status.success(), "the indexing process failed");
    Ok(())
}

/// Opens and checks the checkpoint in a process of its own, so that its peak memory is that of the index.
fn index(dir: &Path) -> Result<()> {
    let config = Config::load(&dir.join("config.json"))?;
    let layers = config.layers();
    let start = Instant::now();
    let checkpoint = Checkpoint::open(dir, config)?;
    line("index, seconds", start.elapsed().as_secs_f64(), 2.0);
    line(
        "index, peak memory, MB",
        peak_memory().unwrap_or(f64::NAN),
        40.0,
    );
    let start = Instant::now();
    checkpoint.check(layers)?;
    println!(
        "{:<28}{:>10.3}",
        "check, seconds",
        start.elapsed().as_secs_f64()
    );
    println!(
        "{:<28}{:>10.3}",
        "then peak memory, MB",
        peak_memory().unwrap_or(f64::NAN)
    );
    Ok(())
}

fn line(what: &str, value: f64, limit: f64) {
    let verdict = if value <= limit {
        "ok"
    } else {
        "OVER THE LIMIT"
    };
    println!("{what:<28}{value:>10.3}   limit {limit:>4}   {verdict}");
}

/// Peak resident size of this process in MB, where the system says (Linux).
fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

/// Space that the files of a folder take.
fn disk_used(dir: &Path) -> Result<u64> {
    let mut bytes = 0;
    for item in std::fs::read_dir(dir)? {
        let meta = item?.metadata()?;
        #[cfg(unix)]
        {
            bytes += std::os::unix::fs::MetadataExt::blocks(&meta) * 512;
        }
        #[cfg(not(unix))]
        {
            bytes += meta.len();
        }
    }
    Ok(bytes)
}

/// A configuration of the release's sizes, in the flat layout.
fn released_sizes() -> String {
    let full: Vec<String> = (1..=23)
        .map(|n| 4 * n)
        .chain([93])
        .map(|n: u32| n.to_string())
        .collect();
    format!(
        r#"{{
  "hidden_size": 7168, "num_hidden_layers": 93, "vocab_size": 163840, "rms_norm_eps": 1e-5,
  "kda_num_heads": 96, "kda_head_dim": 128, "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
  "num_attention_heads": 96, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "v_head_dim": 128, "mla_use_output_gate": true,
  "num_experts": 896, "num_experts_per_token": 16, "num_shared_experts": 2,
  "routed_expert_hidden_size": 3584, "moe_intermediate_size": 3072, "routed_scaling_factor": 1.0,
  "moe_renormalize": true, "latent_moe_use_norm": true, "first_k_dense_replace": 1, "intermediate_size": 33792,
  "attn_res_block_size": 12, "situ_beta": 4.0, "situ_linear_beta": 25.0, "full_attn_layers": [{}],
  "vision_config": {{}}
}}"#,
        full.join(", ")
    )
}
