//! What the tests of checkpoints share: small configurations, and shards whose headers can be edited.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// Each test program uses a part of it.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

use k3::checkpoint::synth::{self, SynthOptions, SynthReport};
use k3::checkpoint::{Checkpoint, Config, Error};
use serde_json::{Map, Value, json};

/// The folder of expected results from elsewhere, when the environment names one.
pub fn oracle(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("K3_ORACLE").map(PathBuf::from);
    if folder.is_none() {
        println!("NOT RUN: {test} needs K3_ORACLE");
    }
    folder
}

/// Five layers (the fourth and fifth MLA, the first dense) of sizes that differ from each other.
pub fn config() -> Value {
    json!({
        "hidden_size": 40, "num_hidden_layers": 5, "vocab_size": 50, "rms_norm_eps": 1e-5,
        "kda_num_heads": 3, "kda_head_dim": 8, "short_conv_kernel_size": 3, "gate_lower_bound": -4.0,
        "num_attention_heads": 2, "q_lora_rank": 12, "kv_lora_rank": 10, "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 4, "v_head_dim": 5, "num_experts": 4, "num_experts_per_token": 2,
        "num_shared_experts": 1, "routed_expert_hidden_size": 32, "moe_intermediate_size": 64,
        "routed_scaling_factor": 1.5, "first_k_dense_replace": 1, "intermediate_size": 28,
        "attn_res_block_size": 2, "situ_beta": 3.0, "situ_linear_beta": 20.0,
        "full_attn_layers": [4, 5], "kda_layers": [1, 2, 3],
    })
}

/// The same in the nested layout, with a vision part.
pub fn nested() -> Value {
    let Value::Object(mut text) = config() else {
        unreachable!()
    };
    let mut linear = Map::new();
    for (from, to) in [
        ("kda_num_heads", "num_heads"),
        ("kda_head_dim", "head_dim"),
        ("short_conv_kernel_size", "short_conv_kernel_size"),
        ("gate_lower_bound", "gate_lower_bound"),
        ("full_attn_layers", "full_attn_layers"),
        ("kda_layers", "kda_layers"),
    ] {
        linear.insert(to.to_owned(), text.remove(from).unwrap());
    }
    text.insert("linear_attn_config".to_owned(), linear.into());
    json!({"model_type": "kimi_k3", "text_config": text, "vision_config": {"any": 1}})
}

pub fn synth(dir: &Path, config: &Value, options: SynthOptions) -> Result<SynthReport, Error> {
    synth::write(dir, config.to_string().as_bytes(), options)
}

/// A synthetic checkpoint of [`config`] in a folder of its own.
pub fn model() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    synth(dir.path(), &config(), SynthOptions::default()).unwrap();
    dir
}

pub fn open(dir: &Path) -> Result<Checkpoint, Error> {
    Checkpoint::open(dir, Config::load(&dir.join("config.json")).unwrap())
}

/// What opening, or else checking all layers, says.
pub fn refusal(dir: &Path) -> String {
    match open(dir) {
        Ok(checkpoint) => match checkpoint.check(checkpoint.config().layers()) {
            Ok(()) => panic!("accepted"),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    }
}

/// Path of a shard of [`model`], by its number from 1.
pub fn shard(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("model-{number:05}-of-000006.safetensors"))
}

/// The header and the data of a shard.
pub fn take_apart(path: &Path) -> (Map<String, Value>, Vec<u8>) {
    let mut file = fs::read(path).unwrap();
    let data = file.split_off(8 + u64::from_le_bytes(file[..8].try_into().unwrap()) as usize);
    (serde_json::from_slice(&file[8..]).unwrap(), data)
}

/// Writes a shard of this header and data.
pub fn put_together(path: &Path, header: &[u8], data: &[u8]) {
    fs::write(
        path,
        [&(header.len() as u64).to_le_bytes()[..], header, data].concat(),
    )
    .unwrap();
}

/// Changes the header and the data of a shard.
pub fn edit(path: &Path, change: impl FnOnce(&mut Map<String, Value>, &mut Vec<u8>)) {
    let (mut header, mut data) = take_apart(path);
    change(&mut header, &mut data);
    put_together(path, Value::from(header).to_string().as_bytes(), &data);
}

/// Replaces a tensor by one of another type, shape and content: the old bytes go to a name that nobody reads.
pub fn replace(path: &Path, name: &str, dtype: &str, shape: &[usize], bytes: &[u8]) {
    edit(path, |header, data| {
        let old = header.remove(name).unwrap();
        header.insert("vision_tower.old".to_owned(), old);
        let offsets = [data.len(), data.len() + bytes.len()];
        header.insert(
            name.to_owned(),
            json!({"dtype": dtype, "shape": shape, "data_offsets": offsets}),
        );
        data.extend(bytes);
    });
}
