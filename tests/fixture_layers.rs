//! Whole layers against the operator fixtures: through the seam, over sources of the tests' own, with every instruction
//! set. Single kernels are in `fixture_operators.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use k3::checkpoint::Config;
use k3::checkpoint::config::{KdaShape, MlaShape, MoeShape, Situ};
use k3::kernels::Isa;
use k3::model::{KdaState, LatentCache};
use support::alone::{Alone, kda_state, narrow};
use support::compare::OPERATOR;
use support::tensors::{Tensors, turned};
use support::*;

/// The layer of a fixture, once for every instruction set.
fn with_every_isa(case: &Tensors, config: &Config, test: impl Fn(&Alone, &str)) {
    for isa in Isa::all() {
        test(
            &Alone::new(config.clone(), case.in_layer(0), isa),
            isa.name(),
        );
    }
}

#[test]
fn a_kda_layer_gives_its_output_and_carries_its_state() {
    let case = operator("kda_layer");
    let kda = KdaShape {
        heads: case.meta("heads"),
        head_dim: case.meta("head_dim"),
        conv_kernel: case.meta("conv_kernel"),
        gate_lower_bound: case.meta("lower_bound"),
    };
    let config = Config {
        hidden: case.get("x").shape[1],
        norm_eps: case.meta("norm_eps"),
        kda,
        ..narrow()
    };
    with_every_isa(&case, &config, |layer, isa| {
        let check = |member: &str, got: &[f32]| {
            OPERATOR.check(&format!("{member} ({isa})"), got, &case.floats(member));
        };
        let check_state = |suffix: &str, state: &KdaState| {
            check(&format!("want.state{suffix}"), &state.recurrent);
            for (name, history) in ["q", "k", "v"].into_iter().zip(&state.history) {
                let by_channel = turned(history, config.kda.width());
                check(&format!("want.history{suffix}.{name}"), &by_channel);
            }
        };
        let mut fresh = KdaState::new(&config.kda);
        check("want.fresh.out", &layer.kda(&mut fresh, &case.floats("x")));

        let histories = ["q", "k", "v"].map(|name| case.floats(&format!("history.{name}")));
        let mut state = kda_state(case.floats("state"), histories, &config.kda);
        check("want.out", &layer.kda(&mut state, &case.floats("x")));
        check_state("", &state);
        let next = layer.kda(&mut state, &case.floats("x_next"));
        check("want.out_next", &next);
        check_state("_next", &state);
    });
}

#[test]
fn an_mla_layer_gives_its_output_and_appends_to_its_cache() {
    let case = operator("mla_layer");
    let mla = MlaShape {
        heads: case.meta("heads"),
        q_rank: case.meta("q_rank"),
        kv_rank: case.meta("kv_rank"),
        nope_dim: case.meta("nope"),
        rope_dim: case.meta("rope"),
        v_dim: case.meta("v_dim"),
        output_gate: true,
        lora_norm_eps: case.meta("lora_norm_eps"),
    };
    let width = mla.cache_width();
    let (latent, rope) = (case.floats("cache.latent"), case.floats("cache.rope"));
    let rows = latent.chunks_exact(mla.kv_rank);
    let before: Vec<f32> = rows
        .zip(rope.chunks_exact(mla.rope_dim))
        .flat_map(|(latent, rope)| [latent, rope].concat())
        .collect();
    let x = case.floats("x");

    for (variant, change) in [
        ("", None),
        ("other_eps.", Some("eps")),
        ("no_gate.", Some("gate")),
    ] {
        let mut config = Config {
            hidden: case.get("x").shape[1],
            norm_eps: case.meta("norm_eps"),
            mla: mla.clone(),
            ..narrow()
        };
        match change {
            Some("eps") => config.mla.lora_norm_eps = case.meta("other_lora_norm_eps"),
            Some(_) => config.mla.output_gate = false,
            None => {}
        }
        with_every_isa(&case, &config, |layer, isa| {
            let check = |member: &str, got: &[f32]| {
                OPERATOR.check(&format!("{member} ({isa})"), got, &case.floats(member));
            };
            let mut cache = LatentCache {
                rows: before.clone(),
            };
            let out = layer.mla(&mut cache, &x);
            check(&format!("want.{variant}out"), &out);
            if change.is_some() {
                return;
            }
            let (old, new) = cache.rows.split_at(before.len());
            assert_eq!(old, before, "what is cached stays");
            let new = new.chunks_exact(width).map(|row| row.split_at(mla.kv_rank));
            let (latents, ropes): (Vec<&[f32]>, Vec<&[f32]>) = new.unzip();
            check("want.latent", &latents.concat());
            check("want.rope", &ropes.concat());

            let mut empty = LatentCache { rows: Vec::new() };
            check("want.fresh.out", &layer.mla(&mut empty, &x));
        });
    }
}

fn a_mixture_gives_its_output(name: &str) {
    let case = operator(name);
    let weight = |suffix: &str| case.get(&format!("block_sparse_moe.{suffix}"));
    let moe = MoeShape {
        experts: case.meta("experts"),
        top_k: case.meta("top_k"),
        shared: case.meta("shared"),
        latent: weight("routed_expert_down_proj.weight").shape[0],
        inner: weight("experts.0.w1.weight_packed").shape[0],
        scaling: case.meta("scaling"),
        renormalize: case.meta("renormalize"),
        latent_norm: case.meta("latent_norm"),
    };
    let config = Config {
        hidden: case.get("x").shape[1],
        norm_eps: case.meta("norm_eps"),
        moe,
        situ: Situ {
            beta: case.meta("beta"),
            linear_beta: case.meta("linear_beta"),
        },
        ..narrow()
    };
    with_every_isa(&case, &config, |layer, isa| {
        let routed = layer.moe(&case.floats("x"));
        assert!(routed.choices.iter().all(|c| c.len() == config.moe.top_k));
        let what = format!("{name} ({isa})");
        OPERATOR.check(&what, &routed.output, &case.floats("want.out"));
    });
}

#[test]
fn a_mixture_with_latent_norm_gives_its_output() {
    a_mixture_gives_its_output("moe");
}

#[test]
fn a_mixture_without_latent_norm_gives_its_output() {
    a_mixture_gives_its_output("moe_no_norm");
}

#[test]
fn a_dense_network_gives_its_output() {
    let case = operator("dense_mlp");
    let config = Config {
        hidden: case.get("x").shape[1],
        dense_inner: case.get("mlp.gate_proj.weight").shape[0],
        situ: Situ {
            beta: case.meta("beta"),
            linear_beta: case.meta("linear_beta"),
        },
        ..narrow()
    };
    with_every_isa(&case, &config, |layer, isa| {
        let what = format!("dense_mlp ({isa})");
        let out = layer.dense(&case.floats("x"));
        OPERATOR.check(&what, &out, &case.floats("want.out"));
    });
}
