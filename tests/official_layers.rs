//! The official model code from the inside: every part of every layer of its model A, on its own inputs, and the whole
//! network's stream and state after each layer. Read where `K3_ORACLE` names the folder, else NOT RUN.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::path::Path;

use k3::checkpoint::config::Attention;
use k3::checkpoint::{Config, names};
use k3::kernels::{self, Isa};
use k3::model::{KdaState, LatentCache, LayerState, Want};
use support::alone::Alone;
use support::compare::{OPERATOR, Tolerance};
use support::tensors::{Tensors, turned};
use support::*;

/// For streams and states that went through many layers, each with its own rounding in two implementations in f32.
const CARRIED: Tolerance = Tolerance {
    abs: 1e-4,
    rel: 1e-4,
};

/// What the official code gave inside, for one prompt.
struct Inside {
    values: Tensors,
    layer: usize,
}

impl Inside {
    fn floats(&self, part: &str) -> Vec<f32> {
        self.values.floats(&format!("layers.{}.{part}", self.layer))
    }

    fn check(&self, tolerance: Tolerance, part: &str, got: &[f32]) {
        let what = format!("layer {} {part}", self.layer);
        tolerance.check(&what, got, &self.floats(part));
    }

    fn check_kda_state(&self, tolerance: Tolerance, state: &KdaState, width: usize) {
        self.check(tolerance, "kda_state", &state.recurrent);
        for (part, history) in ["conv_q", "conv_k", "conv_v"]
            .into_iter()
            .zip(&state.history)
        {
            self.check(tolerance, part, &turned(history, width));
        }
    }

    /// The cache keeps latents; the official code keeps the keys and values that they expand to.
    fn check_cache(&self, tolerance: Tolerance, cache: &LatentCache, layer: &Alone) {
        let mla = &layer.config.mla;
        let name = names::in_layer(self.layer, names::KV_B_PROJ);
        let kv_b = layer.tensors.get(&name).weights();
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for head in 0..mla.heads {
            let rows = mla.kv_b_head_rows();
            let kv_b = kv_b.rows(head * rows..(head + 1) * rows, mla.kv_rank);
            for row in cache.rows.chunks_exact(mla.cache_width()) {
                let (latent, shared) = row.split_at(mla.kv_rank);
                let mut expanded = vec![0.0; rows];
                kernels::matmul(layer.compute.isa, kv_b, mla.kv_rank, latent, &mut expanded);
                let (key, value) = expanded.split_at(mla.nope_dim);
                keys.extend([key, shared].concat());
                values.extend(value);
            }
        }
        self.check(tolerance, "mla_key", &keys);
        self.check(tolerance, "mla_value", &values);
    }
}

fn inside(folder: &Path) -> Inside {
    let values = Tensors::read(&folder.join("debug/p7.safetensors"));
    Inside { values, layer: 0 }
}

/// Model A's layers, to be driven one at a time.
fn alone(folder: &Path) -> Alone {
    let config = Config::load(&folder.join("config.json")).unwrap();
    Alone::new(config, Tensors::read_checkpoint(folder), Isa::detect())
}

fn norm_rows(layer: &Alone, x: &[f32], name: &str) -> Vec<f32> {
    let weight = layer.tensors.floats(name);
    let mut y = vec![0.0; x.len()];
    let rows = x.chunks_exact(weight.len());
    for (x, y) in rows.zip(y.chunks_exact_mut(weight.len())) {
        kernels::rms_norm(layer.compute.isa, x, &weight, layer.config.norm_eps, y);
    }
    y
}

fn sum(a: &[f32], b: &[f32]) -> Vec<f32> {
    a.iter().zip(b).map(|(a, b)| a + b).collect()
}

#[test]
fn every_part_of_every_layer_agrees_on_official_inputs() {
    let Some(oracle) = oracle("official layers") else {
        return;
    };
    let folder = oracle.join("official/A");
    let mut inside = inside(&folder);
    let mut layer = alone(&folder);
    let mut blocks: Vec<Vec<f32>> = Vec::new();
    let mut stream = inside.floats("attn_mix");
    for index in 0..layer.config.layers() {
        (inside.layer, layer.layer) = (index, index);
        let name = |suffix: &str| names::in_layer(index, suffix);
        if !blocks.is_empty() {
            let (norm, proj) = (name(names::ATTN_RES_NORM), name(names::ATTN_RES_PROJ));
            let mixed = layer.mix(&norm, &proj, &blocks, &stream);
            inside.check(OPERATOR, "attn_mix", &mixed);
        }
        let normed = norm_rows(&layer, &inside.floats("attn_mix"), &name(names::INPUT_NORM));
        inside.check(OPERATOR, "attn_in", &normed);

        let x = inside.floats("attn_in");
        match layer.config.attention[index] {
            Attention::Kda => {
                let mut state = KdaState::new(&layer.config.kda);
                inside.check(OPERATOR, "attn_out", &layer.kda(&mut state, &x));
                inside.check_kda_state(OPERATOR, &state, layer.config.kda.width());
            }
            Attention::Mla => {
                let mut cache = LatentCache { rows: Vec::new() };
                inside.check(OPERATOR, "attn_out", &layer.mla(&mut cache, &x));
                inside.check_cache(OPERATOR, &cache, &layer);
            }
        }

        let attended = inside.floats("attn_out");
        if index.is_multiple_of(layer.config.block) {
            blocks.push(stream);
            stream = attended;
        } else {
            stream = sum(&stream, &attended);
        }
        let (norm, proj) = (name(names::MLP_RES_NORM), name(names::MLP_RES_PROJ));
        let mixed = layer.mix(&norm, &proj, &blocks, &stream);
        inside.check(OPERATOR, "ffn_mix", &mixed);
        let normed = norm_rows(&layer, &inside.floats("ffn_mix"), &name(names::POST_NORM));
        inside.check(OPERATOR, "ffn_in", &normed);

        let x = inside.floats("ffn_in");
        if layer.config.is_dense(index) {
            inside.check(OPERATOR, "ffn_out", &layer.dense(&x));
        } else {
            let mut routed = layer.moe(&x);
            inside.check(OPERATOR, "ffn_out", &routed.output);
            for choices in &mut routed.choices {
                choices.sort_by_key(|choice| choice.expert);
            }
            let choices = routed.choices.concat();
            let ids: Vec<f32> = choices.iter().map(|c| c.expert as f32).collect();
            assert_eq!(ids, inside.floats("topk_id"), "layer {index}");
            let weights: Vec<f32> = choices.iter().map(|c| c.weight).collect();
            inside.check(OPERATOR, "topk_weight", &weights);
        }
        stream = sum(&stream, &inside.floats("ffn_out"));
        inside.check(OPERATOR, "out", &stream);
        stream = inside.floats("out");
    }
    assert_eq!(blocks.len(), 2);
    let (norm, proj) = (names::OUTPUT_RES_NORM, names::OUTPUT_RES_PROJ);
    let mixed = layer.mix(norm, proj, &blocks, &stream);
    let want = inside.values.floats("final_mix");
    OPERATOR.check("final_mix", &mixed, &want);
    let normed = norm_rows(&layer, &want, names::FINAL_NORM);
    let want = inside.values.floats("final_norm");
    OPERATOR.check("final_norm", &normed, &want);
}

#[test]
fn the_networks_stream_and_state_agree_after_every_layer() {
    let Some(oracle) = oracle("official streams") else {
        return;
    };
    let folder = oracle.join("official/A");
    let expected = json(&folder.join("oracle.json"));
    let prompts = expected["prompts"].as_array().unwrap();
    let prompt = prompts.iter().find(|p| p["name"] == "p7").unwrap();
    let prompt_ids = ids(&prompt["prompt_ids"]);

    let mut inside = inside(&folder);
    let layer = alone(&folder);
    let mut network = network(&folder);
    let mut state = network.new_state(prompt_ids.len()).unwrap();
    let mut pass = network.begin(&mut state, &prompt_ids, Want::All).unwrap();
    for index in 0..network.layer_count() {
        inside.layer = index;
        network.advance(&mut pass, &mut state).unwrap();
        inside.check(CARRIED, "out", pass.stream());
        match &state.layers[index] {
            LayerState::Kda(kda) => {
                inside.check_kda_state(CARRIED, kda, layer.config.kda.width());
            }
            LayerState::Mla(cache) => inside.check_cache(CARRIED, cache, &layer),
        }
    }
    network.finish(pass, &mut state).unwrap();
}
