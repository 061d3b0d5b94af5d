//! The models of the kimi-k3-in-c family, MLA norms with eps 1e-5: its 13-layer model in plain f32, and the real MXFP4
//! bytes it has. Read where `K3_ORACLE` names the folder, else NOT RUN.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;
use std::sync::Arc;

use k3::checkpoint::Config;
use k3::kernels::{self, Isa, argmax};
use k3::model::{Blueprint, Compute, Network, Want};
use support::compare::{Tolerance, bits};
use support::memory::{MemoryExperts, MemoryTrunk};
use support::upstream::Fixture;
use support::*;

/// The 13-layer model with what is expected of it.
struct Tiny {
    network: Network,
    prompt: Vec<u32>,
    /// The prompt and the greedy tokens after it.
    full: Vec<u32>,
    /// The greedy token after each position of `full`.
    next: Vec<u32>,
    /// The first eight logits at each position.
    heads: Vec<Vec<f32>>,
}

fn tiny(oracle: &Path) -> Tiny {
    let path = oracle.join("upstream/ref_k3.json");
    let expected = json(&path);
    let text = serde_json::to_vec(&expected["config"]).unwrap();
    let mut config = Config::parse(&text, &path).unwrap();
    config.mla.lora_norm_eps = 1e-5;
    let tensors = Arc::new(upstream::tiny_model(oracle, &config));
    let blueprint = Blueprint::new(config, usize::MAX);
    assert_eq!(blueprint.layer_count(), 13);
    let trunk = MemoryTrunk::new(&tensors, &blueprint.walk, 5000);
    let experts = MemoryExperts::new(&tensors, 13);
    let compute = Compute::new(2, Isa::detect()).unwrap();
    let heads = expected["logits_head"].as_array().unwrap();
    Tiny {
        network: Network::new(blueprint, Box::new(trunk), Box::new(experts), compute).unwrap(),
        prompt: ids(&expected["prompt_ids"]),
        full: ids(&expected["full_ids"]),
        next: ids(&expected["tf_pred"]),
        heads: heads.iter().map(numbers).collect(),
    }
}

#[test]
fn the_tiny_model_predicts_all_32_positions_and_their_logits() {
    let Some(oracle) = oracle("tiny model, teacher forced") else {
        return;
    };
    let mut tiny = tiny(&oracle);
    let mut state = tiny.network.new_state(tiny.full.len()).unwrap();
    let logits = tiny
        .network
        .feed(&mut state, &tiny.full, Want::All)
        .unwrap();
    let next: Vec<u32> = logits.rows().map(|r| argmax(r).unwrap() as u32).collect();
    let right = next.iter().zip(&tiny.next).filter(|(a, b)| a == b).count();
    println!("teacher forced: {right}/{}", tiny.next.len());
    assert_eq!((next.len(), next), (32, tiny.next));
    let heads: Vec<f32> = logits.rows().flat_map(|row| row[..8].to_vec()).collect();
    Tolerance::absolute(1e-4).check("logits_head", &heads, &tiny.heads.concat());
}

#[test]
fn the_tiny_model_gives_its_20_tokens_when_all_is_computed_anew_each_time() {
    let Some(oracle) = oracle("tiny model, recomputed") else {
        return;
    };
    let mut tiny = tiny(&oracle);
    let mut ids = tiny.prompt.clone();
    while ids.len() < tiny.full.len() {
        let mut state = tiny.network.new_state(ids.len()).unwrap();
        let logits = tiny.network.feed(&mut state, &ids, Want::Last).unwrap();
        ids.push(argmax(logits.last().unwrap()).unwrap() as u32);
    }
    assert_eq!(ids.len() - tiny.prompt.len(), 20);
    assert_eq!(ids, tiny.full);
}

#[test]
fn the_tiny_model_gives_its_20_tokens_with_carried_state() {
    let Some(oracle) = oracle("tiny model, carried") else {
        return;
    };
    let mut tiny = tiny(&oracle);
    let want = &tiny.full[tiny.prompt.len()..];
    let (got, _, _) = greedy(&mut tiny.network, &tiny.prompt, 20);
    assert_eq!(got, want);
}

#[test]
fn real_mxfp4_bytes_are_widened_exactly() {
    let Some(oracle) = oracle("real MXFP4 bytes") else {
        return;
    };
    let fixture = Fixture::open(&oracle.join("upstream/mxfp4.json"));
    let (packed, scales) = (fixture.bytes("packed"), fixture.bytes("scales"));
    let want = fixture.floats("expected");
    assert_eq!(
        fixture.count("rows") * fixture.count("logical_width"),
        want.len()
    );
    let swapped = numbers(&fixture.value("expected_swapped_nibbles")["first64"]);
    for isa in Isa::all() {
        let mut got = vec![f32::NAN; want.len()];
        kernels::dequantise(isa, &packed, &scales, &mut got);
        assert_eq!(bits(&got), bits(&want), "{}", isa.name());
        assert_ne!(bits(&got[..swapped.len()]), bits(&swapped));
    }
}
