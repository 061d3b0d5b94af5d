//! The synthetic models of the comparisons, as configurations.

use clap::ValueEnum;

/// A synthetic model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Size {
    /// Two sevenths of the release's width, 12 layers, 64 experts
    #[default]
    Mid,
    /// The release's widths, 4 layers, 64 experts
    Slice,
}

impl Size {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mid => "mid",
            Self::Slice => "slice",
        }
    }

    /// Bytes of its files, roughly.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Mid => 4_200_000_000,
            Self::Slice => 9_500_000_000,
        }
    }

    /// Its configuration.
    pub fn config(self) -> &'static str {
        match self {
            Self::Mid => MID,
            Self::Slice => SLICE,
        }
    }
}

const MID: &str = r#"{
  "hidden_size": 2048, "num_hidden_layers": 12, "vocab_size": 32768, "rms_norm_eps": 1e-5,
  "kda_num_heads": 28, "kda_head_dim": 128, "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
  "num_attention_heads": 28, "q_lora_rank": 512, "kv_lora_rank": 256, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "v_head_dim": 128, "mla_use_output_gate": true,
  "num_experts": 64, "num_experts_per_token": 8, "num_shared_experts": 2,
  "routed_expert_hidden_size": 1024, "moe_intermediate_size": 2048, "routed_scaling_factor": 1.0,
  "moe_renormalize": true, "latent_moe_use_norm": true, "first_k_dense_replace": 1, "intermediate_size": 8192,
  "attn_res_block_size": 4, "situ_beta": 4.0, "situ_linear_beta": 25.0, "full_attn_layers": [4, 8, 12]
}"#;

const SLICE: &str = r#"{
  "hidden_size": 7168, "num_hidden_layers": 4, "vocab_size": 16384, "rms_norm_eps": 1e-5,
  "kda_num_heads": 96, "kda_head_dim": 128, "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
  "num_attention_heads": 96, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128,
  "qk_rope_head_dim": 64, "v_head_dim": 128, "mla_use_output_gate": true,
  "num_experts": 64, "num_experts_per_token": 16, "num_shared_experts": 2,
  "routed_expert_hidden_size": 3584, "moe_intermediate_size": 3072, "routed_scaling_factor": 1.0,
  "moe_renormalize": true, "latent_moe_use_norm": true, "first_k_dense_replace": 1, "intermediate_size": 33792,
  "attn_res_block_size": 12, "situ_beta": 4.0, "situ_linear_beta": 25.0, "full_attn_layers": [4]
}"#;
