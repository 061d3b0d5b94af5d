//! The sizes of the released model, for plans that are made without its files. Facts only; a checkpoint's own
//! `config.json` decides wherever there is one.

use super::config::{Attention, Config, KdaShape, MlaShape, MoeShape, Situ};

impl Config {
    /// The released model: 93 layers, every fourth and the last with full attention.
    pub fn released() -> Self {
        let full = |layer: usize| layer % 4 == 3 || layer == 92;
        let kind = |layer| match full(layer) {
            true => Attention::Mla,
            false => Attention::Kda,
        };
        Self {
            hidden: 7168,
            attention: (0..93).map(kind).collect(),
            vocab: 163_840,
            norm_eps: 1e-5,
            kda: KdaShape {
                heads: 96,
                head_dim: 128,
                conv_kernel: 4,
                gate_lower_bound: -5.0,
            },
            mla: MlaShape {
                heads: 96,
                q_rank: 1536,
                kv_rank: 512,
                nope_dim: 128,
                rope_dim: 64,
                v_dim: 128,
                output_gate: true,
                lora_norm_eps: 1e-6,
            },
            moe: MoeShape {
                experts: 896,
                top_k: 16,
                shared: 2,
                latent: 3584,
                inner: 3072,
                scaling: 1.0,
                renormalize: true,
                latent_norm: true,
            },
            dense_layers: 1,
            dense_inner: 33_792,
            block: 12,
            situ: Situ {
                beta: 4.0,
                linear_beta: 25.0,
            },
            max_positions: Some(1 << 20),
            bos: Some(163_584),
            eos: Some(163_586),
            pad: Some(163_839),
            vision: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn these_are_the_released_sizes() {
        let Some(folder) = std::env::var_os("K3_ORACLE").map(PathBuf::from) else {
            println!("these_are_the_released_sizes: NOT RUN, K3_ORACLE names no folder");
            return;
        };
        let file = folder.join("chat/official-config.json");
        assert_eq!(Config::released(), Config::load(&file).unwrap());
    }
}
