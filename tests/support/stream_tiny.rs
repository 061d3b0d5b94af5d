//! Writes a small checkpoint whose every value follows from its tensor's name: one shard, BF16 matrices, MXFP4 experts,
//! 13 layers. Its names and shapes are listed here on purpose, so that the library's own list is checked against them.

use std::path::Path;

use super::draw::XorShift;

const HIDDEN: usize = 128;
const LAYERS: usize = 13;
const VOCAB: usize = 256;
/// Zero-based layers with full attention.
const MLA: [usize; 4] = [3, 7, 11, 12];

/// The flat configuration that goes with it.
fn config() -> serde_json::Value {
    serde_json::json!({
        "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "vocab_size": VOCAB,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
        "kda_num_heads": 4, "kda_head_dim": 16,
        "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
        "num_attention_heads": 4, "q_lora_rank": 64, "kv_lora_rank": 32,
        "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "v_head_dim": 16,
        "mla_use_output_gate": true,
        "num_experts": 8, "num_experts_per_token": 2, "num_shared_experts": 2,
        "routed_expert_hidden_size": 64, "moe_intermediate_size": 64,
        "routed_scaling_factor": 1.0, "moe_renormalize": true,
        "latent_moe_use_norm": true, "first_k_dense_replace": 1,
        "intermediate_size": 96, "attn_res_block_size": 3,
        "situ_beta": 4.0, "situ_linear_beta": 25.0,
        "full_attn_layers": MLA.map(|layer| layer + 1),
    })
}

/// A shard in the making.
#[derive(Default)]
struct Shard {
    header: serde_json::Map<String, serde_json::Value>,
    data: Vec<u8>,
}

impl Shard {
    fn push(&mut self, name: &str, dtype: &str, shape: &[usize], bytes: &[u8]) {
        let start = self.data.len();
        self.data.extend_from_slice(bytes);
        let entry = serde_json::json!({
            "dtype": dtype, "shape": shape, "data_offsets": [start, self.data.len()],
        });
        assert!(self.header.insert(name.to_owned(), entry).is_none());
    }

    /// `base + scale u`, cut to BF16.
    fn bf16(&mut self, name: &str, shape: &[usize], scale: f32, base: f32) {
        let mut draw = XorShift::named(name);
        let values = draw.units(shape.iter().product());
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|u| {
                let [_, _, low, high] = (base + u * scale).to_le_bytes();
                [low, high]
            })
            .collect();
        self.push(name, "BF16", shape, &bytes);
    }

    fn matrix(&mut self, name: &str, rows: usize, columns: usize, scale: f32) {
        self.bf16(name, &[rows, columns], scale, 0.0);
    }

    fn norm(&mut self, name: &str, width: usize) {
        self.bf16(name, &[width], 0.1, 1.0);
    }

    fn f32(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        assert_eq!(shape.iter().product::<usize>(), values.len());
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.push(name, "F32", shape, &bytes);
    }

    fn drawn_f32(&mut self, name: &str, shape: &[usize], scale: f32) {
        let units = XorShift::named(name).units(shape.iter().product());
        let values: Vec<f32> = units.iter().map(|u| u * scale).collect();
        self.f32(name, shape, &values);
    }

    fn bytes(&mut self, name: &str, shape: [usize; 2], value: fn(u8) -> u8) {
        let mut draw = XorShift::named(name);
        let count = shape[0] * shape[1];
        let bytes: Vec<u8> = (0..count).map(|_| value(draw.byte())).collect();
        self.push(name, "U8", &shape, &bytes);
    }

    fn kda(&mut self, prefix: &str) {
        let name = |suffix: &str| format!("{prefix}self_attn.{suffix}");
        for projection in ["q_proj", "k_proj", "v_proj", "g_proj"] {
            self.matrix(&name(&format!("{projection}.weight")), 64, HIDDEN, 0.15);
        }
        self.matrix(&name("o_proj.weight"), HIDDEN, 64, 0.15);
        for conv in ["q_conv1d", "k_conv1d", "v_conv1d"] {
            self.drawn_f32(&name(&format!("{conv}.weight")), &[64, 1, 4], 0.7);
        }
        self.matrix(&name("f_a_proj.weight"), 16, HIDDEN, 0.15);
        self.matrix(&name("f_b_proj.weight"), 64, 16, 0.3);
        self.matrix(&name("b_proj.weight"), 4, HIDDEN, 0.15);
        let mut rates = [0.0; 16];
        rates[..4].copy_from_slice(&[-0.25, 0.0, 0.5, 1.0]);
        self.f32(&name("A_log"), &[16], &rates);
        self.drawn_f32(&name("dt_bias"), &[64], 0.5);
        self.norm(&name("o_norm.weight"), 16);
    }

    fn mla(&mut self, prefix: &str) {
        let name = |suffix: &str| format!("{prefix}self_attn.{suffix}");
        self.matrix(&name("q_a_proj.weight"), 64, HIDDEN, 0.15);
        self.norm(&name("q_a_layernorm.weight"), 64);
        self.matrix(&name("q_b_proj.weight"), 128, 64, 0.15);
        self.matrix(&name("kv_a_proj_with_mqa.weight"), 40, HIDDEN, 0.15);
        self.norm(&name("kv_a_layernorm.weight"), 32);
        self.matrix(&name("kv_b_proj.weight"), 160, 32, 0.15);
        self.matrix(&name("o_proj.weight"), HIDDEN, 64, 0.15);
        self.matrix(&name("g_proj.weight"), 64, HIDDEN, 0.15);
    }

    fn dense(&mut self, prefix: &str) {
        self.matrix(&format!("{prefix}mlp.gate_proj.weight"), 96, HIDDEN, 0.3);
        self.matrix(&format!("{prefix}mlp.up_proj.weight"), 96, HIDDEN, 0.3);
        self.matrix(&format!("{prefix}mlp.down_proj.weight"), HIDDEN, 96, 0.15);
    }

    fn moe(&mut self, prefix: &str) {
        let name = |suffix: &str| format!("{prefix}block_sparse_moe.{suffix}");
        self.matrix(&name("gate.weight"), 8, HIDDEN, 0.15);
        self.drawn_f32(&name("gate.e_score_correction_bias"), &[8], 0.15);
        self.matrix(&name("routed_expert_down_proj.weight"), 64, HIDDEN, 0.15);
        self.matrix(&name("routed_expert_up_proj.weight"), HIDDEN, 64, 0.15);
        self.norm(&name("routed_expert_norm.weight"), 64);
        let shared = |part: &str| name(&format!("shared_experts.{part}.weight"));
        self.matrix(&shared("gate_proj"), 128, HIDDEN, 0.3);
        self.matrix(&shared("up_proj"), 128, HIDDEN, 0.3);
        self.matrix(&shared("down_proj"), HIDDEN, 128, 0.15);
        for expert in 0..8 {
            for matrix in ["w1", "w2", "w3"] {
                let part = |part: &str| name(&format!("experts.{expert}.{matrix}.{part}"));
                self.bytes(&part("weight_packed"), [64, 32], |byte| byte);
                self.bytes(&part("weight_scale"), [64, 2], |byte| 121 + byte % 4);
            }
        }
    }

    fn layer(&mut self, layer: usize) {
        let prefix = format!("language_model.model.layers.{layer}.");
        for norm in [
            "input_layernorm",
            "post_attention_layernorm",
            "self_attention_res_norm",
            "mlp_res_norm",
        ] {
            self.norm(&format!("{prefix}{norm}.weight"), HIDDEN);
        }
        for proj in ["self_attention_res_proj", "mlp_res_proj"] {
            self.matrix(&format!("{prefix}{proj}.weight"), 1, HIDDEN, 0.05);
        }
        match MLA.contains(&layer) {
            true => self.mla(&prefix),
            false => self.kda(&prefix),
        }
        match layer {
            0 => self.dense(&prefix),
            _ => self.moe(&prefix),
        }
    }

    fn outside_layers(&mut self) {
        let name = |suffix: &str| format!("language_model.model.{suffix}.weight");
        self.matrix(&name("embed_tokens"), VOCAB, HIDDEN, 0.05);
        self.norm(&name("norm"), HIDDEN);
        self.norm(&name("output_attn_res_norm"), HIDDEN);
        self.matrix(&name("output_attn_res_proj"), 1, HIDDEN, 0.05);
        self.matrix("language_model.lm_head.weight", VOCAB, HIDDEN, 0.15);
    }
}

/// Writes `config.json` and `model.safetensors`; gives the number of tensors and the bytes of their data.
pub fn write(folder: &Path) -> (usize, usize) {
    let mut shard = Shard::default();
    for layer in 0..LAYERS {
        shard.layer(layer);
    }
    shard.outside_layers();
    let mut header = serde_json::to_vec(&shard.header).unwrap();
    header.resize(header.len().next_multiple_of(8), b' ');
    let length = (header.len() as u64).to_le_bytes();
    let file = [&length[..], &header, &shard.data].concat();
    std::fs::write(folder.join("model.safetensors"), file).unwrap();
    let config = serde_json::to_vec_pretty(&config()).unwrap();
    std::fs::write(folder.join("config.json"), config).unwrap();
    (shard.header.len(), shard.data.len())
}
