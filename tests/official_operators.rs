//! The official model code's operators, one by one, with every instruction set. Read where `K3_ORACLE` names the folder,
//! else NOT RUN. Whole layers are in `official_layers.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use k3::kernels::{self, Choice, Isa};
use support::compare::{OPERATOR, bits};
use support::tensors::{Tensors, turned};
use support::*;

/// The operators' file, and each instruction set in turn.
fn with_every_isa(test: &str, run: impl Fn(&Tensors, Isa)) {
    let Some(oracle) = oracle(test) else { return };
    let case = Tensors::read(&oracle.join("official/ops/ops.safetensors"));
    for isa in Isa::all() {
        run(&case, isa);
    }
}

fn check(case: &Tensors, isa: Isa, member: &str, got: &[f32]) {
    let what = format!("{member} ({})", isa.name());
    OPERATOR.check(&what, got, &case.floats(member));
}

#[test]
fn situ_agrees() {
    with_every_isa("situ", |case, isa| {
        let rows = case.floats("situ.gate_up");
        let (gate, up): (Vec<&[f32]>, Vec<&[f32]>) =
            rows.chunks_exact(128).map(|row| row.split_at(64)).unzip();
        for (member, beta, linear_beta) in
            [("situ.out_4_25", 4.0, 25.0), ("situ.out_3_20", 3.0, 20.0)]
        {
            let mut y = gate.concat();
            kernels::situ(isa, &mut y, &up.concat(), beta, linear_beta);
            check(case, isa, member, &y);
        }
    });
}

#[test]
fn rms_norm_agrees() {
    with_every_isa("rms norm", |case, isa| {
        let (x, weight) = (case.floats("rms.x"), case.floats("rms.weight"));
        for (member, eps) in [("rms.out_eps_1e-06", 1e-6), ("rms.out_eps_1e-05", 1e-5)] {
            let mut y = vec![0.0; x.len()];
            let rows = x.chunks_exact(weight.len());
            for (x, y) in rows.zip(y.chunks_exact_mut(weight.len())) {
                kernels::rms_norm(isa, x, &weight, eps, y);
            }
            check(case, isa, member, &y);
        }
    });
}

#[test]
fn the_residual_mix_agrees() {
    with_every_isa("residual mix", |case, isa| {
        let (norm, proj) = (case.floats("mix.norm"), case.floats("mix.proj"));
        let fold: Vec<f32> = norm.iter().zip(&proj).map(|(n, p)| n * p).collect();
        let width = fold.len();
        let (prefix, blocks) = (case.floats("mix.prefix"), case.floats("mix.blocks"));
        for (member, count) in [("mix.out", 3), ("mix.out_no_blocks", 0)] {
            let mut out = vec![0.0; prefix.len()];
            let tokens = prefix.chunks_exact(width);
            for ((prefix, blocks), out) in tokens
                .zip(blocks.chunks_exact(3 * width))
                .zip(out.chunks_exact_mut(width))
            {
                let mut sources: Vec<&[f32]> = blocks.chunks_exact(width).take(count).collect();
                sources.push(prefix);
                kernels::mix(isa, &sources, &fold, 1e-5, out);
            }
            check(case, isa, member, &out);
        }
    });
}

#[test]
fn the_router_agrees() {
    with_every_isa("router", |case, isa| {
        let (x, bias) = (case.floats("router.x"), case.floats("router.bias"));
        let experts = bias.len();
        let weight = case.get("router.weight");
        let hidden = weight.shape[1];
        let tokens = x.len() / hidden;
        let mut logits = vec![0.0; tokens * experts];
        kernels::matmul(isa, weight.weights(), hidden, &x, &mut logits);
        for (name, top_k, scaling) in [("k4_s1", 4, 1.0), ("k4_s1.5", 4, 1.5), ("k1_s1.5", 1, 1.5)]
        {
            let (mut ids, mut weights) = (Vec::new(), Vec::new());
            for logits in logits.chunks_exact(experts) {
                let mut choices: Vec<Choice> =
                    kernels::route(isa, logits, &bias, top_k, true, scaling);
                choices.sort_by_key(|choice| choice.expert);
                ids.extend(choices.iter().map(|choice| choice.expert as f32));
                weights.extend(choices.iter().map(|choice| choice.weight));
            }
            assert_eq!(ids, case.floats(&format!("router.{name}.ids")), "{name}");
            check(case, isa, &format!("router.{name}.weights"), &weights);
        }
    });
}

#[test]
fn the_log_decay_agrees() {
    with_every_isa("decay", |case, isa| {
        let a_log = case.floats("gate.A_log");
        let mut alpha = case.floats("gate.z");
        decay(isa, &mut alpha, &a_log, &case.floats("gate.dt_bias"));
        let log: Vec<f32> = alpha.iter().map(|alpha| alpha.ln()).collect();
        check(case, isa, "gate.log_decay_lb_-5", &log);
    });
}

/// The decay of `z`, [tokens][heads][width], in place; the lower bound is -5.
fn decay(isa: Isa, z: &mut [f32], a_log: &[f32], dt_bias: &[f32]) {
    let width = dt_bias.len() / a_log.len();
    for (i, z) in z.chunks_exact_mut(width).enumerate() {
        let head = i % a_log.len();
        let bias = &dt_bias[head * width..][..width];
        kernels::decay(isa, z, a_log[head], bias, -5.0);
    }
}

#[test]
fn the_short_convolution_agrees() {
    with_every_isa("convolution", |case, isa| {
        let weight = case.get("conv.weight");
        let (channels, kernel) = (weight.shape[0], weight.shape[2]);
        let taps = turned(&weight.floats(), kernel);
        let given = case.floats("conv.history");
        for (member, mut history) in [
            ("conv.out_fresh", vec![0.0; given.len()]),
            ("conv.out_with_history", given),
        ] {
            let mut x = case.floats("conv.x");
            for x in x.chunks_exact_mut(channels) {
                kernels::short_conv(isa, &taps, &mut history, x);
            }
            check(case, isa, member, &x);
        }
    });
}

#[test]
fn the_delta_rule_agrees_from_raw_queries_and_keys() {
    with_every_isa("delta rule", |case, isa| {
        let a_log = case.floats("kda.A_log");
        let (heads, width) = (a_log.len(), case.get("kda.q").shape[3]);
        let (mut q, mut k) = (case.floats("kda.q"), case.floats("kda.k"));
        for (q, k) in q.chunks_exact_mut(width).zip(k.chunks_exact_mut(width)) {
            kernels::l2_norm(isa, q, 1.0 / (width as f32).sqrt());
            kernels::l2_norm(isa, k, 1.0);
        }
        let v = case.floats("kda.v");
        let mut alpha = case.floats("kda.z");
        decay(isa, &mut alpha, &a_log, &case.floats("kda.dt_bias"));
        let beta: Vec<f32> = case
            .floats("kda.b")
            .iter()
            .map(|&b| kernels::sigmoid(b))
            .collect();
        let given = case.floats("kda.initial_state");
        for (name, mut state) in [("fresh", vec![0.0; given.len()]), ("from_state", given)] {
            let mut out = vec![0.0; q.len()];
            for (i, out) in out.chunks_exact_mut(width).enumerate() {
                let [q, k, v, alpha] = [&q, &k, &v, &alpha].map(|all| &all[i * width..][..width]);
                let state = &mut state[i % heads * width * width..][..width * width];
                kernels::delta_steps(isa, state, q, k, v, alpha, &beta[i..=i], out);
            }
            check(case, isa, &format!("kda.o_{name}"), &out);
            check(case, isa, &format!("kda.state_{name}"), &state);
        }
    });
}

#[test]
fn the_gated_output_norm_agrees() {
    with_every_isa("output norm", |case, isa| {
        let (x, weight) = (case.floats("onorm.x"), case.floats("onorm.weight"));
        let mut y = vec![0.0; x.len()];
        let rows = x.chunks_exact(weight.len());
        for (x, y) in rows.zip(y.chunks_exact_mut(weight.len())) {
            kernels::rms_norm(isa, x, &weight, 1e-5, y);
        }
        kernels::gate(isa, &mut y, &case.floats("onorm.gate"));
        check(case, isa, "onorm.out", &y);
    });
}

#[test]
fn mxfp4_agrees_exactly() {
    with_every_isa("mxfp4", |case, isa| {
        let (packed, scales) = (case.bytes("mxfp4.packed"), case.bytes("mxfp4.scale"));
        let want = case.floats("mxfp4.values");
        let mut got = vec![f32::NAN; want.len()];
        kernels::dequantise(isa, packed, scales, &mut got);
        assert_eq!(bits(&got), bits(&want));
    });
}
