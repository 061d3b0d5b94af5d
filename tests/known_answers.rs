//! Known answers of another engine, whose inputs are drawn from seeds. Its bits belong to sums in another order, so values
//! are compared within the operators' tolerance. Read where `K3_ORACLE` names the folder, else NOT RUN.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use k3::checkpoint::config::{KdaShape, MlaShape, MoeShape, Situ};
use k3::checkpoint::{Config, names};
use k3::kernels::{self, Bf16, Isa, Weights};
use k3::model::{KdaState, LatentCache};
use support::alone::{Alone, narrow};
use support::compare::OPERATOR;
use support::draw::XorShift;
use support::memory::plain_expert;
use support::tensors::{Tensor, Tensors, turned};
use support::*;

/// The lines of the answers.
struct Answers(String);

impl Answers {
    /// The line that begins so, after the line that begins with `after`.
    fn line(&self, after: &str, start: &str) -> &str {
        let mut lines = self.0.lines().skip_while(|line| !line.starts_with(after));
        let line = lines.find(|line| line.starts_with(start));
        line.unwrap_or_else(|| panic!("no answer {start}"))
    }

    /// The values of a line, which are eight hexadecimal digits each.
    fn values(&self, after: &str, start: &str) -> Vec<f32> {
        let words = self.line(after, start).split_whitespace();
        let bits = words.filter(|word| word.len() == 8);
        bits.filter_map(|word| u32::from_str_radix(word, 16).ok())
            .map(f32::from_bits)
            .collect()
    }

    /// Compares as many values as the line has.
    fn check(&self, start: &str, got: &[f32]) {
        self.check_after(start, start, got);
    }

    fn check_after(&self, after: &str, start: &str, got: &[f32]) {
        let want = self.values(after, start);
        OPERATOR.check(start.trim(), &got[..want.len().min(got.len())], &want);
    }
}

fn with_every_isa(test: &str, run: impl Fn(&Answers, Isa)) {
    let Some(oracle) = oracle(test) else { return };
    let text = std::fs::read_to_string(oracle.join("kat/kat_vectors.txt")).unwrap();
    let answers = Answers(text);
    for isa in Isa::all() {
        run(&answers, isa);
    }
}

fn product(isa: Isa, w: Weights<'_>, rows: usize, x: &[f32]) -> Vec<f32> {
    let mut y = vec![0.0; rows];
    kernels::matmul(isa, w, x.len(), x, &mut y);
    y
}

#[test]
fn products_agree() {
    with_every_isa("products", |answers, isa| {
        let mut draw = XorShift::new(1);
        let (x, w) = (draw.units(53), draw.units(5 * 53));
        answers.check("x0..3:", &x[..4]);
        let y = product(isa, Weights::F32(&w), 5, &x);
        answers.check("matmul_f32 in53", &y);
        let upper = |w: &f32| -> Bf16 { ((w.to_bits() >> 16) as u16).to_le_bytes() };
        let cut: Vec<Bf16> = w.iter().map(upper).collect();
        let y = product(isa, Weights::Bf16(&cut), 5, &x);
        answers.check("matmul_bf16 in53", &y);

        let mut draw = XorShift::new(2);
        let (x, w) = (draw.units(7168), draw.units(3 * 7168));
        let y = product(isa, Weights::F32(&w), 3, &x);
        answers.check("matmul_f32 in7168", &y);
    });
}

#[test]
fn mxfp4_agrees_and_is_widened_to_the_same_bits() {
    with_every_isa("mxfp4", |answers, isa| {
        let drawn = |seed: u32, columns: usize| {
            let mut draw = XorShift::new(seed);
            let x = draw.units(columns);
            let packed: Vec<u8> = (0..4 * columns / 2).map(|_| draw.byte()).collect();
            let scales: Vec<u8> = (0..4 * columns / 32)
                .map(|_| 118 + draw.byte() % 12)
                .collect();
            (x, packed, scales)
        };
        let (x, packed, mut scales) = drawn(3, 96);
        (scales[4], scales[8]) = (255, 0);
        let weights = Weights::Mxfp4 {
            packed: &packed,
            scales: &scales,
        };
        answers.check("mxfp4 in96", &product(isa, weights, 4, &x));
        let mut values = vec![f32::NAN; 4 * 96];
        kernels::dequantise(isa, &packed, &scales, &mut values);
        answers.check("mxfp4 dequant", &values);
        let bytes = values.iter().flat_map(|v| v.to_le_bytes());
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let line = answers.line("", "mxfp4 dequant");
        assert!(line.contains(&format!("fnv1a64={hash:016x}")), "{line}");

        let (x, packed, scales) = drawn(4, 3584);
        let weights = Weights::Mxfp4 {
            packed: &packed,
            scales: &scales,
        };
        answers.check("mxfp4 in3584", &product(isa, weights, 4, &x));
    });
}

#[test]
fn norm_activation_and_mix_agree() {
    with_every_isa("norm, activation, mix", |answers, isa| {
        let mut draw = XorShift::new(5);
        let (x, w) = (draw.units(20), draw.units(20));
        let mut y = vec![0.0; 20];
        kernels::rms_norm(isa, &x, &w, 1e-5, &mut y);
        answers.check("rmsnorm", &y);

        let x: Vec<f32> = XorShift::new(6).units(16).iter().map(|x| x * 8.0).collect();
        let (gate, up) = x.split_at(8);
        let mut y = gate.to_vec();
        kernels::situ(isa, &mut y, up, 4.0, 25.0);
        answers.check("situ", &y);

        let mut draw = XorShift::new(11);
        let (sources, fold) = (draw.units(30), draw.units(10));
        let sources: Vec<&[f32]> = sources.chunks_exact(10).collect();
        let mut y = vec![0.0; 10];
        kernels::mix(isa, &sources, &fold, 1e-5, &mut y);
        answers.check("attn_res", &y);
    });
}

#[test]
fn the_parts_of_kda_agree() {
    with_every_isa("parts of KDA", |answers, isa| {
        let mut draw = XorShift::new(7);
        let (mut x, w) = (draw.units(5 * 3), draw.units(3 * 4));
        let taps = turned(&w, 4);
        let mut history = vec![0.0; 3 * 3];
        for x in x.chunks_exact_mut(3) {
            kernels::short_conv(isa, &taps, &mut history, x);
        }
        answers.check("shortconv", &x);
        answers.check_after("shortconv", " state:", &turned(&history, 3));

        let mut draw = XorShift::new(8);
        let (mut z, a_log, bias) = (draw.units(8), draw.units(2), draw.units(8));
        for (head, z) in z.chunks_exact_mut(4).enumerate() {
            kernels::decay(isa, z, a_log[head], &bias[head * 4..][..4], -5.0);
        }
        answers.check("decay alpha:", &z);
        let log: Vec<f32> = z.iter().map(|alpha| alpha.ln()).collect();
        answers.check("decay g:", &log);

        let mut draw = XorShift::new(9);
        let mut state = draw.units(16);
        let [q, mut k, v, mut alpha] = [0; 4].map(|_| draw.units(4));
        for alpha in &mut alpha {
            *alpha = 0.5 + 0.5 * alpha.abs();
        }
        k[2] = 0.0;
        let mut out = vec![0.0; 4];
        kernels::delta_steps(isa, &mut state, &q, &k, &v, &alpha, &[0.625], &mut out);
        answers.check("kda_step o:", &out);
        answers.check("kda_step S:", &state);
    });
}

#[test]
fn the_router_takes_the_lower_of_two_that_tie() {
    with_every_isa("router", |answers, isa| {
        let mut draw = XorShift::new(10);
        let (x, mut w, mut bias) = (draw.units(40), draw.units(6 * 40), draw.units(6));
        w.copy_within(40..80, 4 * 40);
        for bias in &mut bias {
            *bias *= 0.1;
        }
        (bias[1], bias[4]) = (0.5, 0.5);
        let logits = product(isa, Weights::F32(&w), 6, &x);
        for (top_k, scaling, ids, weights) in [
            (3, 1.0, "router idx", "router w:"),
            (1, 2.5, "router top1 idx", "router top1"),
        ] {
            let choices = kernels::route(isa, &logits, &bias, top_k, true, scaling);
            let got: Vec<String> = choices.iter().map(|c| c.expert.to_string()).collect();
            let line = answers.line("", ids);
            assert!(line.contains(&format!("idx {}", got.join(" "))), "{line}");
            let got: Vec<f32> = choices.iter().map(|c| c.weight).collect();
            answers.check(weights, &got);
        }
    });
}

/// Tensors drawn one after the other, under their names in layer 0.
fn drawn(draw: &mut XorShift, list: &[(&str, &[usize])]) -> Tensors {
    let mut all = Tensors::default();
    for (suffix, shape) in list {
        let values = draw.units(shape.iter().product());
        all.insert(suffix, Tensor::f32(shape, values));
    }
    all.in_layer(0)
}

#[test]
fn an_mla_layer_agrees() {
    with_every_isa("MLA layer", |answers, isa| {
        let mut draw = XorShift::new(12);
        let x = draw.units(5 * 48);
        let tensors = drawn(
            &mut draw,
            &[
                (names::Q_A_PROJ, &[20, 48]),
                (names::Q_A_NORM, &[20]),
                (names::Q_B_PROJ, &[48, 20]),
                (names::KV_A_PROJ, &[20, 48]),
                (names::KV_A_NORM, &[16]),
                (names::KV_B_PROJ, &[60, 16]),
                (names::O_PROJ, &[48, 24]),
                (names::G_PROJ, &[24, 48]),
            ],
        );
        let kv_b = tensors.floats(&names::in_layer(0, names::KV_B_PROJ));
        let mla = MlaShape {
            heads: 3,
            q_rank: 20,
            kv_rank: 16,
            nope_dim: 12,
            rope_dim: 4,
            v_dim: 8,
            output_gate: true,
            lora_norm_eps: 1e-5,
        };
        let config = Config {
            hidden: 48,
            mla,
            ..narrow()
        };
        let layer = Alone::new(config, tensors, isa);
        let mut cache = LatentCache { rows: Vec::new() };
        answers.check("mla T5:", &layer.mla(&mut cache, &x));
        let (latent, rope) = cache.rows[..20].split_at(16);
        answers.check_after("mla T5:", " rope:", rope);
        let expanded = product(isa, Weights::F32(&kv_b), 60, latent);
        answers.check_after("mla T5:", " kvcache:", &expanded);
    });
}

#[test]
fn a_kda_layer_agrees() {
    with_every_isa("KDA layer", |answers, isa| {
        let mut draw = XorShift::new(13);
        let x = draw.units(5 * 48);
        let square: &[usize] = &[24, 48];
        let conv: &[usize] = &[24, 1, 4];
        let mut tensors = drawn(
            &mut draw,
            &[
                (names::Q_PROJ, square),
                (names::K_PROJ, square),
                (names::V_PROJ, square),
                (names::G_PROJ, square),
                (names::O_PROJ, &[48, 24]),
                (names::Q_CONV, conv),
                (names::K_CONV, conv),
                (names::V_CONV, conv),
                (names::F_A_PROJ, &[8, 48]),
                (names::F_B_PROJ, &[24, 8]),
                (names::B_PROJ, &[3, 48]),
                (names::A_LOG, &[3]),
                (names::DT_BIAS, &[24]),
                (names::O_NORM, &[8]),
            ],
        );
        // The released form pads the rates to the width of a head.
        let a_log = names::in_layer(0, names::A_LOG);
        let mut rates = tensors.floats(&a_log);
        rates.resize(8, 0.0);
        tensors.replace(&a_log, Tensor::f32(&[8], rates));
        let kda = KdaShape {
            heads: 3,
            head_dim: 8,
            conv_kernel: 4,
            gate_lower_bound: -5.0,
        };
        let mut state = KdaState::new(&kda);
        let config = Config {
            hidden: 48,
            kda,
            ..narrow()
        };
        let layer = Alone::new(config, tensors, isa);
        answers.check("kda_layer T5:", &layer.kda(&mut state, &x));
        answers.check_after("kda_layer T5:", " state:", &state.recurrent);
    });
}

#[test]
fn a_mixture_agrees() {
    with_every_isa("mixture", |answers, isa| {
        let mut draw = XorShift::new(14);
        let x = draw.units(3 * 48);
        let mut tensors = drawn(
            &mut draw,
            &[(names::ROUTER, &[6, 48]), (names::ROUTER_BIAS, &[6])],
        );
        for matrix in ["w1", "w3", "w2"] {
            for expert in 0..6 {
                let values = draw.units(32 * 32);
                let name = plain_expert(0, expert, matrix);
                tensors.insert(&name, Tensor::f32(&[32, 32], values));
            }
        }
        let rest: [(&str, &[usize]); 6] = [
            (names::LATENT_NORM, &[32]),
            (names::LATENT_DOWN, &[32, 48]),
            (names::LATENT_UP, &[48, 32]),
            (names::SHARED_GATE, &[64, 48]),
            (names::SHARED_UP, &[64, 48]),
            (names::SHARED_DOWN, &[48, 64]),
        ];
        let rest = drawn(&mut draw, &rest);
        for name in rest.names() {
            tensors.insert(name, rest.get(name).clone());
        }
        let config = Config {
            hidden: 48,
            moe: MoeShape {
                experts: 6,
                top_k: 2,
                shared: 2,
                latent: 32,
                inner: 32,
                scaling: 1.0,
                renormalize: true,
                latent_norm: true,
            },
            situ: Situ {
                beta: 4.0,
                linear_beta: 25.0,
            },
            ..narrow()
        };
        let layer = Alone::new(config, tensors, isa);
        let routed = layer.moe(&x);
        answers.check("moe resident T3:", &routed.output);
        let last = &routed.choices[2];
        let line = answers.line("moe resident T3:", " last idx");
        let ids = format!("idx {} {} ", last[0].expert, last[1].expert);
        assert!(line.contains(&ids), "{line}");
        let weights = [last[0].weight, last[1].weight];
        answers.check_after("moe resident T3:", " last idx", &weights);
    });
}
