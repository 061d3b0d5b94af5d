//! Every kernel against the operator fixtures, with every instruction set. Whole layers are in `fixture_layers.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use k3::kernels::{self, Choice, Isa, Weights};
use support::compare::{OPERATOR, bits, ulps};
use support::tensors::{Tensors, turned};
use support::*;

/// The operators of this file and of `fixture_layers.rs`.
const OPERATORS: [&str; 15] = [
    "activations",
    "decay",
    "dense_mlp",
    "kda_layer",
    "kda_recurrence",
    "l2norm",
    "mla_layer",
    "moe",
    "moe_no_norm",
    "mxfp4",
    "residual_mix",
    "rmsnorm",
    "router",
    "shortconv",
    "situ",
];

/// `f` of every row of `width` values, one after the other.
fn by_row(x: &[f32], width: usize, f: impl Fn(&[f32]) -> Vec<f32>) -> Vec<f32> {
    x.chunks_exact(width).flat_map(f).collect()
}

/// Compares what `got` gives under each instruction set with one member of the fixture.
fn every_isa_gives(case: &Tensors, member: &str, got: impl Fn(Isa) -> Vec<f32>) {
    for isa in Isa::all() {
        let what = format!("{member} ({})", isa.name());
        OPERATOR.check(&what, &got(isa), &case.floats(member));
    }
}

#[test]
fn every_operator_fixture_has_a_test() {
    let files = std::fs::read_dir(fixtures().join("ops")).unwrap();
    let mut found: Vec<String> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    let wanted = OPERATORS.map(|name| format!("{name}.safetensors"));
    assert_eq!(found, wanted);
}

#[test]
fn rms_norm_divides_by_the_root_of_the_mean_square_and_its_eps() {
    let case = operator("rmsnorm");
    let (x, weight) = (case.floats("x"), case.floats("weight"));
    for (member, eps) in [("want.a", "eps_a"), ("want.b", "eps_b")] {
        every_isa_gives(&case, member, |isa| {
            by_row(&x, weight.len(), |row| {
                let mut y = vec![0.0; row.len()];
                kernels::rms_norm(isa, row, &weight, case.meta(eps), &mut y);
                y
            })
        });
    }
}

#[test]
fn l2_norm_divides_by_the_length() {
    let case = operator("l2norm");
    every_isa_gives(&case, "want", |isa| {
        by_row(&case.floats("x"), 20, |row| {
            let mut y = row.to_vec();
            kernels::l2_norm(isa, &mut y, 1.0);
            y
        })
    });
}

#[test]
fn situ_bounds_both_branches() {
    let case = operator("situ");
    for which in ["a", "b"] {
        let beta = case.meta(&format!("beta_{which}"));
        let linear_beta = case.meta(&format!("linear_beta_{which}"));
        every_isa_gives(&case, &format!("want.{which}"), |isa| {
            let mut y = case.floats("gate");
            kernels::situ(isa, &mut y, &case.floats("up"), beta, linear_beta);
            y
        });
    }
}

#[test]
fn activations_are_within_two_units_in_the_last_place() {
    let case = operator("activations");
    let sigmoid = |isa: Isa, x: &[f32]| {
        let mut y = vec![1.0; x.len()];
        kernels::gate(isa, &mut y, x);
        y
    };
    let check = |want: &str, got: Vec<f32>| {
        let want_values = case.floats(want);
        assert_eq!(got.len(), want_values.len());
        let finite = |values: &[f32]| values.iter().map(|v| v.is_finite()).collect::<Vec<_>>();
        assert_eq!(finite(&got), finite(&want_values), "{want}");
        let apart = got.iter().zip(&want_values).map(|(&g, &w)| ulps(g, w));
        let worst = apart.max().unwrap();
        println!("{want}: at most {worst} units in the last place");
        assert!(worst <= 2, "{want}: {worst}");
    };
    for part in ["", "_far", "_faint"] {
        let x = case.floats(if part.is_empty() { "x" } else { &part[1..] });
        let each = |f: fn(f32) -> f32| x.iter().map(|&v| f(v)).collect::<Vec<f32>>();
        check(&format!("want.exp{part}"), each(kernels::exp));
        check(&format!("want.sigmoid{part}"), each(kernels::sigmoid));
        for isa in Isa::all() {
            check(&format!("want.sigmoid{part}"), sigmoid(isa, &x));
        }
        if part != "_faint" {
            check(&format!("want.tanh{part}"), each(kernels::tanh));
        }
    }
}

#[test]
fn the_residual_mix_weighs_raw_streams_by_normalised_scores() {
    let case = operator("residual_mix");
    let (prefix, blocks) = (case.floats("prefix"), case.floats("blocks"));
    let (norm, proj) = (case.floats("norm.weight"), case.floats("proj.weight"));
    let fold: Vec<f32> = norm.iter().zip(&proj).map(|(n, p)| n * p).collect();
    let (width, size) = (fold.len(), prefix.len());
    for count in [0, 1, 4] {
        every_isa_gives(&case, &format!("want.blocks_{count}"), |isa| {
            let mut out = vec![0.0; size];
            for (t, out) in out.chunks_exact_mut(width).enumerate() {
                let mut sources: Vec<&[f32]> = blocks
                    .chunks_exact(size)
                    .take(count)
                    .map(|b| &b[t * width..][..width])
                    .collect();
                sources.push(&prefix[t * width..][..width]);
                kernels::mix(isa, &sources, &fold, case.meta("norm_eps"), out);
            }
            out
        });
    }
}

#[test]
fn mxfp4_is_widened_exactly_and_multiplied_from_its_packed_form() {
    let case = operator("mxfp4");
    for edge in ["", "edge."] {
        let packed = case.bytes(&format!("{edge}packed"));
        let scales = case.bytes(&format!("{edge}scale"));
        let columns = 2 * case.get(&format!("{edge}packed")).shape[1];
        let x = case.floats(&format!("{edge}x"));
        let values = case.floats(&format!("want.{edge}values"));
        for isa in Isa::all() {
            let mut got = vec![f32::NAN; values.len()];
            kernels::dequantise(isa, packed, scales, &mut got);
            assert_eq!(bits(&got), bits(&values), "want.{edge}values");
        }
        every_isa_gives(&case, &format!("want.{edge}product"), |isa| {
            let tokens = x.len() / columns;
            let mut y = vec![0.0; values.len() / columns * tokens];
            kernels::matmul(isa, Weights::Mxfp4 { packed, scales }, columns, &x, &mut y);
            y
        });
    }
}

#[test]
fn the_short_convolution_carries_its_history() {
    let case = operator("shortconv");
    for kernel in ["k4", "k3"] {
        let weight = case.get(&format!("{kernel}.weight"));
        let (channels, taps) = (weight.shape[0], weight.shape[2]);
        let taps_by_age = turned(&weight.floats(), taps);
        let member = |name: &str| case.floats(&format!("{kernel}.{name}"));
        let run = |isa, history: &mut Vec<f32>, mut x: Vec<f32>| {
            for x in x.chunks_exact_mut(channels) {
                kernels::short_conv(isa, &taps_by_age, history, x);
            }
            x
        };
        for isa in Isa::all() {
            let check = |name: &str, got: &[f32]| {
                let member = format!("want.{kernel}.{name}");
                let what = format!("{member} ({})", isa.name());
                OPERATOR.check(&what, got, &case.floats(&member));
            };
            let mut empty = vec![0.0; channels * (taps - 1)];
            check("fresh", &run(isa, &mut empty, member("x")));
            let mut history = turned(&member("history"), taps - 1);
            check("out", &run(isa, &mut history, member("x")));
            check("history", &turned(&history, channels));
            check("out_next", &run(isa, &mut history, member("x_next")));
            check("history_next", &turned(&history, channels));
        }
    }
}

#[test]
fn the_decay_lies_between_its_lower_bound_and_one() {
    let case = operator("decay");
    let (z, a_log, dt_bias) = (
        case.floats("z"),
        case.floats("A_log"),
        case.floats("dt_bias"),
    );
    let (heads, width) = (case.get("z").shape[1], case.get("z").shape[2]);
    for which in ["a", "b"] {
        let bound = case.meta(&format!("lower_bound_{which}"));
        let decay = |isa| {
            let mut alpha = z.clone();
            for (i, alpha) in alpha.chunks_exact_mut(width).enumerate() {
                let head = i % heads;
                let bias = &dt_bias[head * width..][..width];
                kernels::decay(isa, alpha, a_log[head], bias, bound);
            }
            alpha
        };
        every_isa_gives(&case, &format!("want.{which}.alpha"), decay);
        every_isa_gives(&case, &format!("want.{which}.log_decay"), |isa| {
            decay(isa).iter().map(|alpha| alpha.ln()).collect()
        });
    }
}

#[test]
fn the_delta_rule_reads_after_it_has_written() {
    let case = operator("kda_recurrence");
    let &[tokens, heads, width] = case.get("q").shape.as_slice() else {
        panic!("three dimensions");
    };
    let all = ["q", "k", "v", "alpha"].map(|name| case.floats(name));
    let beta = case.floats("beta");
    let run = |isa, state: &mut [f32], tokens: usize| {
        let mut out = vec![0.0; tokens * heads * width];
        for (i, out) in out.chunks_exact_mut(width).enumerate() {
            let [q, k, v, alpha] = [0, 1, 2, 3].map(|j| &all[j][i * width..][..width]);
            let state = &mut state[i % heads * width * width..][..width * width];
            kernels::delta_steps(isa, state, q, k, v, alpha, &beta[i..=i], out);
        }
        out
    };
    let given = case.floats("state");
    let empty = vec![0.0; given.len()];
    for (name, state, tokens) in [
        ("fresh", &empty, tokens),
        ("one", &given, 1),
        ("all", &given, tokens),
    ] {
        for isa in Isa::all() {
            let mut state = state.clone();
            let out = run(isa, &mut state, tokens);
            let check = |part: &str, got: &[f32]| {
                let member = format!("want.{name}.{part}");
                let what = format!("{member} ({})", isa.name());
                OPERATOR.check(&what, got, &case.floats(&member));
            };
            check("out", &out);
            check("state", &state);
        }
    }
}

#[test]
fn the_router_chooses_with_the_bias_and_weighs_without_it() {
    let case = operator("router");
    let gate = case.get("gate.weight");
    let (experts, hidden) = (gate.shape[0], gate.shape[1]);
    let bias = case.floats("gate.e_score_correction_bias");
    let x = case.floats("x");
    for isa in Isa::all() {
        let mut logits = vec![0.0; x.len() / hidden * experts];
        kernels::matmul(isa, gate.weights(), hidden, &x, &mut logits);
        let scores: Vec<f32> = logits.iter().map(|&l| kernels::sigmoid(l)).collect();
        OPERATOR.check("want.scores", &scores, &case.floats("want.scores"));
        for which in ["a", "b", "c", "d"] {
            let key = |name: &str| format!("{name}_{which}");
            let choices: Vec<Choice> = logits
                .chunks_exact(experts)
                .flat_map(|logits| {
                    let renormalize = case.meta(&key("renormalize"));
                    let (top_k, scaling) = (case.meta(&key("top_k")), case.meta(&key("scaling")));
                    kernels::route(isa, logits, &bias, top_k, renormalize, scaling)
                })
                .collect();
            let ids: Vec<u8> = choices.iter().map(|c| c.expert as u8).collect();
            assert_eq!(ids, case.bytes(&format!("want.{which}.ids")));
            let weights: Vec<f32> = choices.iter().map(|c| c.weight).collect();
            let member = format!("want.{which}.weights");
            OPERATOR.check(&member, &weights, &case.floats(&member));
        }
    }
}
