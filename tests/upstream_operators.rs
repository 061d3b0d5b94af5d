//! The operator fixtures of kimi-k3-in-c, within their manifest's tolerance. Read where `K3_ORACLE` names the folder, else
//! NOT RUN. The model of that family is in `upstream_model.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use k3::checkpoint::Config;
use k3::checkpoint::config::{MlaShape, MoeShape, Situ};
use k3::kernels::{self, Isa};
use k3::model::{Flow, KdaState, LatentCache, LayerState};
use support::alone::Alone;
use support::compare::{Tolerance, bits};
use support::tensors::turned;
use support::upstream::Fixture;
use support::*;

/// One fixture, the family's configuration, and each instruction set in turn.
fn with_every_isa(name: &str, run: impl Fn(&Fixture, &Config, Isa, &Check)) {
    let Some(oracle) = oracle(name) else { return };
    let fixture = Fixture::operator(&oracle, name);
    let config = upstream::config(&oracle);
    for isa in Isa::all() {
        let check = Check {
            what: format!("{name} ({})", isa.name()),
            tolerance: upstream::tolerance(&oracle),
        };
        run(&fixture, &config, isa, &check);
    }
}

/// Compares with members of a fixture.
struct Check {
    what: String,
    tolerance: Tolerance,
}

impl Check {
    fn member(&self, fixture: &Fixture, member: &str, got: &[f32]) {
        let what = format!("{} {member}", self.what);
        self.tolerance.check(&what, got, &fixture.floats(member));
    }
}

#[test]
fn every_upstream_fixture_has_a_test() {
    let Some(oracle) = oracle("upstream fixtures") else {
        return;
    };
    let files = std::fs::read_dir(oracle.join("upstream/ops")).unwrap();
    let mut found: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    let wanted = [
        "MANIFEST",
        "attnres",
        "kda_decay",
        "kda_layer1",
        "kda_layer8",
        "kda_recur1",
        "kda_recur8",
        "layer_kda",
        "layer_mla",
        "mla",
        "moe",
        "rmsnorm",
        "router",
        "shortconv",
        "situ_glu",
    ];
    assert_eq!(found, wanted.map(|name| format!("{name}.json")));
}

#[test]
fn rmsnorm_agrees() {
    with_every_isa("rmsnorm", |fixture, _, isa, check| {
        let (x, weight) = (fixture.floats("in"), fixture.floats("weight"));
        let mut y = vec![0.0; x.len()];
        let rows = x.chunks_exact(weight.len());
        for (x, y) in rows.zip(y.chunks_exact_mut(weight.len())) {
            kernels::rms_norm(isa, x, &weight, fixture.number("eps"), y);
        }
        check.member(fixture, "out", &y);
    });
}

#[test]
fn situ_glu_agrees_and_stays_within_its_bounds() {
    with_every_isa("situ_glu", |fixture, _, isa, check| {
        let x = fixture.floats("in");
        let (gate, up): (Vec<&[f32]>, Vec<&[f32]>) =
            x.chunks_exact(16).map(|row| row.split_at(8)).unzip();
        let (beta, linear) = (fixture.number("beta"), fixture.number("linear_beta"));
        let mut y = gate.concat();
        kernels::situ(isa, &mut y, &up.concat(), beta, linear);
        check.member(fixture, "out", &y);
        assert_eq!(fixture.number("max_abs"), beta * linear);
        assert!(y.iter().all(|v| v.abs() <= beta * linear + 1e-2));
    });
}

#[test]
fn shortconv_agrees_and_goes_on() {
    with_every_isa("shortconv", |fixture, _, isa, check| {
        let (channels, kernel) = (fixture.count("channels"), fixture.count("kernel"));
        let taps = turned(&fixture.floats("weight"), kernel);
        let mut history = vec![0.0; (kernel - 1) * channels];
        let mut run = |member: &str| {
            let mut x = fixture.floats(member);
            for x in x.chunks_exact_mut(channels) {
                kernels::short_conv(isa, &taps, &mut history, x);
            }
            (x, turned(&history, channels))
        };
        let (out, state) = run("in");
        check.member(fixture, "out", &out);
        check.member(fixture, "state_after", &state);
        check.member(fixture, "out_next", &run("in_next").0);
    });
}

#[test]
fn kda_decay_agrees() {
    with_every_isa("kda_decay", |fixture, _, isa, check| {
        let (a_log, bias) = (fixture.floats("A_log"), fixture.floats("dt_bias"));
        let width = bias.len() / a_log.len();
        let mut alpha = fixture.floats("z");
        for (i, alpha) in alpha.chunks_exact_mut(width).enumerate() {
            let head = i % a_log.len();
            let bias = &bias[head * width..][..width];
            kernels::decay(isa, alpha, a_log[head], bias, fixture.number("lower_bound"));
        }
        let log: Vec<f32> = alpha.iter().map(|alpha| alpha.ln()).collect();
        let tight = Tolerance::absolute(1e-5);
        tight.check("kda_decay alpha", &alpha, &fixture.floats("alpha"));
        tight.check("kda_decay g", &log, &fixture.floats("g"));
        check.member(fixture, "alpha", &alpha);
        check.member(fixture, "g", &log);
        assert_eq!(alpha.len(), fixture.count("n_alpha_total"));
        let least = alpha.iter().copied().fold(1.0, f32::min);
        tight.check(
            "kda_decay least alpha",
            &[least],
            &[fixture.number("alpha_min")],
        );
    });
}

fn the_recurrence_agrees(name: &str) {
    with_every_isa(name, |fixture, _, isa, check| {
        let (tokens, heads) = (fixture.count("T"), fixture.count("H"));
        let (keys, values) = (fixture.count("d_k"), fixture.count("d_v"));
        let scale = fixture.number("q_scale");
        let q: Vec<f32> = fixture.floats("q").iter().map(|q| q * scale).collect();
        let (k, v) = (fixture.floats("k"), fixture.floats("v"));
        let (alpha, beta) = (fixture.floats("alpha"), fixture.floats("beta"));
        let mut state = vec![0.0; heads * keys * values];
        let mut out = vec![0.0; tokens * heads * values];
        for (i, out) in out.chunks_exact_mut(values).enumerate() {
            let [q, k, alpha] = [&q, &k, &alpha].map(|all| &all[i * keys..][..keys]);
            let v = &v[i * values..][..values];
            let state = &mut state[i % heads * keys * values..][..keys * values];
            kernels::delta_steps(isa, state, q, k, v, alpha, &beta[i..=i], out);
        }
        check.member(fixture, "out", &out);
        check.member(fixture, "state_out", &state);
    });
}

#[test]
fn kda_recur_agrees_for_one_token_and_for_eight() {
    the_recurrence_agrees("kda_recur1");
    the_recurrence_agrees("kda_recur8");
}

fn the_kda_layer_agrees(name: &str) {
    with_every_isa(name, |fixture, config, isa, check| {
        let mut config = config.clone();
        config.norm_eps = fixture.number("rms_eps");
        config.kda.heads = fixture.count("H");
        config.kda.head_dim = fixture.count("d_k");
        config.kda.conv_kernel = fixture.count("conv_k");
        config.kda.gate_lower_bound = fixture.number("lower_bound");
        let tensors = fixture.layer(&config, 0, |inside| {
            let name = inside.strip_prefix("self_attn_")?;
            let name = name.trim_end_matches("_weight");
            let name = name.replace("conv1d", "conv");
            Some(match name.as_str() {
                "f_a_proj" | "f_b_proj" => name.trim_end_matches("_proj").to_owned(),
                _ => name,
            })
        });
        let mut state = KdaState::new(&config.kda);
        let layer = Alone::new(config, tensors, isa);
        let x = fixture.floats("in");
        assert_eq!(x.len(), fixture.count("T") * layer.config.hidden);
        check.member(fixture, "out", &layer.kda(&mut state, &x));
        check.member(fixture, "state_out", &state.recurrent);
    });
}

#[test]
fn kda_layer_agrees_for_one_token_and_for_eight() {
    the_kda_layer_agrees("kda_layer1");
    the_kda_layer_agrees("kda_layer8");
}

#[test]
fn router_agrees_with_the_chosen_sets_and_their_weights() {
    with_every_isa("router", |fixture, _, isa, check| {
        let (x, gate) = (fixture.floats("in"), fixture.tensor("gate_weight"));
        let (experts, top_k) = (fixture.count("n_experts"), fixture.count("top_k"));
        let hidden = gate.shape[1];
        let tokens = x.len() / hidden;
        let mut logits = vec![0.0; tokens * experts];
        kernels::matmul(isa, gate.weights(), hidden, &x, &mut logits);
        // The reference's order within a token is not specified, so both are put in ascending order.
        let sorted = |ids: &[f32], weights: &[f32]| {
            let mut pairs: Vec<(f32, f32)> =
                ids.iter().copied().zip(weights.iter().copied()).collect();
            pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
            pairs
        };
        let (ids, weights) = (fixture.floats("topk_idx"), fixture.floats("topk_weight"));
        let mut changed = 0;
        for (t, logits) in logits.chunks_exact(experts).enumerate() {
            let choose = |bias: &[f32]| kernels::route(isa, logits, bias, top_k, true, 1.0);
            let choices = choose(&fixture.floats("bias"));
            let got_ids: Vec<f32> = choices.iter().map(|c| c.expert as f32).collect();
            let got_weights: Vec<f32> = choices.iter().map(|c| c.weight).collect();
            let got = sorted(&got_ids, &got_weights);
            let row = t * top_k..(t + 1) * top_k;
            let want = sorted(&ids[row.clone()], &weights[row]);
            let (got_ids, got_weights): (Vec<f32>, Vec<f32>) = got.into_iter().unzip();
            let (want_ids, want_weights): (Vec<f32>, Vec<f32>) = want.into_iter().unzip();
            assert_eq!(got_ids, want_ids, "token {t}");
            check
                .tolerance
                .check("router weights", &got_weights, &want_weights);

            let mut unbiased: Vec<f32> = choose(&vec![0.0; experts])
                .iter()
                .map(|c| c.expert as f32)
                .collect();
            unbiased.sort_by(f32::total_cmp);
            changed += usize::from(unbiased != got_ids);
        }
        assert_eq!(changed, fixture.count("rows_where_bias_changed_selection"));
    });
}

#[test]
fn attnres_agrees() {
    with_every_isa("attnres", |fixture, _, isa, check| {
        let (prefix, blocks) = (
            fixture.floats("prefix_sum"),
            fixture.floats("block_residual"),
        );
        let (norm, proj) = (fixture.floats("norm_weight"), fixture.floats("proj_weight"));
        let fold: Vec<f32> = norm.iter().zip(&proj).map(|(n, p)| n * p).collect();
        check.member(fixture, "fold_hint", &fold);
        let (width, count) = (fold.len(), fixture.count("n_sources") - 1);
        let mut out = vec![0.0; prefix.len()];
        for ((prefix, blocks), out) in prefix
            .chunks_exact(width)
            .zip(blocks.chunks_exact(count * width))
            .zip(out.chunks_exact_mut(width))
        {
            let mut sources: Vec<&[f32]> = blocks.chunks_exact(width).collect();
            sources.push(prefix);
            kernels::mix(isa, &sources, &fold, fixture.number("eps"), out);
        }
        check.member(fixture, "out", &out);
    });
}

#[test]
fn mla_agrees_with_its_output_and_its_cache() {
    with_every_isa("mla", |fixture, config, isa, check| {
        let mut config = config.clone();
        config.mla = MlaShape {
            heads: fixture.count("n_heads"),
            q_rank: fixture.count("q_lora"),
            kv_rank: fixture.count("kv_lora"),
            nope_dim: fixture.count("qk_nope"),
            rope_dim: fixture.count("qk_rope"),
            v_dim: fixture.count("v_head"),
            output_gate: true,
            lora_norm_eps: fixture.number("rms_eps"),
        };
        let first = config
            .attention
            .iter()
            .position(|a| *a == k3::checkpoint::config::Attention::Mla);
        let first = first.unwrap();
        let tensors = fixture.layer(&config, first, |inside| {
            Some(inside.strip_prefix("self_attn_")?.to_owned())
        });
        let mla = config.mla.clone();
        let mut layer = Alone::new(config, tensors, isa);
        layer.layer = first;
        let mut cache = LatentCache { rows: Vec::new() };
        let out = layer.mla(&mut cache, &fixture.floats("in"));
        check.member(fixture, "out", &out);
        let rows = cache.rows.chunks_exact(mla.cache_width());
        let (latents, ropes): (Vec<&[f32]>, Vec<&[f32]>) =
            rows.map(|row| row.split_at(mla.kv_rank)).unzip();
        check.member(fixture, "kv_latent", &latents.concat());
        check.member(fixture, "k_rope", &ropes.concat());
    });
}

#[test]
fn moe_agrees() {
    with_every_isa("moe", |fixture, config, isa, check| {
        let mut config = config.clone();
        config.norm_eps = fixture.number("rms_eps");
        config.moe = MoeShape {
            experts: fixture.count("n_experts"),
            top_k: fixture.count("top_k"),
            shared: fixture.count("n_shared"),
            latent: fixture.count("latent"),
            inner: fixture.count("moe_inter"),
            scaling: fixture.number("routed_scale"),
            renormalize: fixture.count("renorm") == 1,
            latent_norm: fixture.count("latent_norm") == 1,
        };
        config.situ = Situ {
            beta: fixture.number("situ_b1"),
            linear_beta: fixture.number("situ_b2"),
        };
        let tensors = fixture.layer(&config, 1, |inside| {
            Some(inside.strip_prefix("mlp_")?.to_owned()).filter(|name| !name.starts_with("res_"))
        });
        let mut layer = Alone::new(config, tensors, isa);
        layer.layer = 1;
        let routed = layer.moe(&fixture.floats("in"));
        // Values of up to 177 come close to cancelling here. The manifest's absolute part is less than one unit in the
        // last place of such a value, and the fixture itself, computed in f32, is 1.25 tolerances away from the sum
        // that its own inputs give in f64. So two such units are allowed, one for each side.
        let want = fixture.floats("out");
        let largest = want.iter().fold(0.0f32, |a, b| a.max(b.abs()));
        let tolerance = Tolerance {
            abs: f64::from(2.0 * f32::EPSILON * largest),
            ..check.tolerance
        };
        tolerance.check(&check.what, &routed.output, &want);
    });
}

/// A whole layer after two blocks; `blocks_after` is how many there are then.
fn the_layer_agrees(name: &str, is_mla: bool, blocks_after: usize) {
    with_every_isa(name, |fixture, config, isa, check| {
        assert_eq!(fixture.value("is_mla").as_bool(), Some(is_mla));
        let mut config = config.clone();
        config.block = fixture.count("attn_res_block_size");
        config.norm_eps = fixture.number("rms_eps");
        let (index, hidden) = (fixture.count("layer_idx"), fixture.count("hidden"));
        let tensors = fixture.layer(&config, index, |inside| Some(inside.to_owned()));
        let mut state = match is_mla {
            true => LayerState::Mla(LatentCache { rows: Vec::new() }),
            false => LayerState::Kda(KdaState::new(&config.kda)),
        };
        let mut layer = Alone::new(config, tensors, isa);
        layer.layer = index;
        let stream = fixture.floats("in");
        let tokens = stream.len() / hidden;
        // The fixture has [token][block], a pass has [block][token].
        let by_block = |member: &str, count: usize| -> Vec<Vec<f32>> {
            let all = fixture.floats(member);
            assert_eq!(all.len(), tokens * count * hidden);
            let row = |t: usize, b: usize| all[(t * count + b) * hidden..][..hidden].to_vec();
            (0..count)
                .map(|b| (0..tokens).flat_map(|t| row(t, b)).collect())
                .collect()
        };
        let mut flow = Flow {
            stream,
            blocks: by_block("block_residual_in", 2),
            draft: None,
        };
        layer.layer(&mut state, &mut flow);
        let Flow { stream, blocks, .. } = flow;
        check.member(fixture, "out", &stream);
        assert_eq!(blocks.len(), blocks_after);
        // Snapshots are copies, so they are equal to the last bit.
        let want = by_block("block_residual_out", blocks_after);
        for (got, want) in blocks.iter().zip(&want) {
            assert_eq!(bits(got), bits(want));
        }
    });
}

#[test]
fn layer_kda_agrees_and_adds_no_block() {
    the_layer_agrees("layer_kda", false, 2);
}

#[test]
fn layer_mla_agrees_and_adds_a_block() {
    the_layer_agrees("layer_mla", true, 3);
}
