//! What several test binaries share: opening models, reading expected values.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod alone;
pub mod compare;
pub mod draw;
pub mod memory;
pub mod models;
pub mod mutate;
pub mod packs;
pub mod stream_tiny;
pub mod streams;
pub mod tensors;
pub mod upstream;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use k3::checkpoint::{Checkpoint, Config};
use k3::kernels::{Isa, argmax};
use k3::model::{Compute, Network, State, Want};

/// The folder of expected results from elsewhere, if the environment names one; else says that the test did not run.
pub fn oracle(test: &str) -> Option<PathBuf> {
    let folder = std::env::var_os("K3_ORACLE").map(PathBuf::from);
    if folder.is_none() {
        println!("{test}: NOT RUN, K3_ORACLE names no folder");
    }
    folder
}

/// The project's own test data.
pub fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// One of the operator fixtures.
pub fn operator(name: &str) -> tensors::Tensors {
    let file = format!("{name}.safetensors");
    tensors::Tensors::read(&fixtures().join("ops").join(file))
}

/// Opens and checks a checkpoint folder.
pub fn checkpoint(folder: &Path) -> Arc<Checkpoint> {
    let config = Config::load(&folder.join("config.json")).unwrap();
    let layers = config.layers();
    let checkpoint = Checkpoint::open(folder, config).unwrap();
    checkpoint.check(layers).unwrap();
    Arc::new(checkpoint)
}

/// A network over a checkpoint folder, two threads, the fastest instruction set.
pub fn network(folder: &Path) -> Network {
    network_with(folder, 2, Isa::detect())
}

/// A network over a checkpoint folder.
pub fn network_with(folder: &Path, threads: usize, isa: Isa) -> Network {
    let checkpoint = checkpoint(folder);
    let layers = checkpoint.config().layers();
    Network::open(&checkpoint, layers, Compute::new(threads, isa).unwrap()).unwrap()
}

/// Prompt in one chunk, then greedy tokens one at a time; also gives the logits that picked each.
pub fn greedy(
    network: &mut Network,
    prompt: &[u32],
    count: usize,
) -> (Vec<u32>, Vec<Vec<f32>>, State) {
    let mut state = network.new_state(prompt.len() + count).unwrap();
    let mut logits = network.feed(&mut state, prompt, Want::Last).unwrap();
    let (mut ids, mut rows) = (Vec::new(), Vec::new());
    loop {
        let row = logits.last().unwrap().to_vec();
        ids.push(argmax(&row).unwrap() as u32);
        rows.push(row);
        if ids.len() == count {
            return (ids, rows, state);
        }
        logits = network
            .feed(&mut state, &ids[ids.len() - 1..], Want::Last)
            .unwrap();
    }
}

/// A file of little-endian f32.
pub fn floats(path: &Path) -> Vec<f32> {
    let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect()
}

/// A JSON file.
pub fn json(path: &Path) -> serde_json::Value {
    let text = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// The largest distance between two rows of one length.
pub fn distance(got: &[f32], want: &[f32]) -> f32 {
    assert_eq!(got.len(), want.len());
    got.iter()
        .zip(want)
        .map(|(a, b)| {
            if a.is_nan() {
                f32::INFINITY
            } else {
                (a - b).abs()
            }
        })
        .fold(0.0, f32::max)
}

/// The ids in a JSON array.
pub fn ids(value: &serde_json::Value) -> Vec<u32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_u64().unwrap() as u32)
        .collect()
}

/// The numbers in a JSON array.
pub fn numbers(value: &serde_json::Value) -> Vec<f32> {
    value
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v.as_f64().unwrap() as f32)
        .collect()
}
