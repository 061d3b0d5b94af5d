//! Every tensor name of the released checkpoint, and nothing else: no shapes, no types.

/// Token embedding, `[vocab, hidden]`.
pub const EMBEDDING: &str = "language_model.model.embed_tokens.weight";
/// Norm before the output head, `[hidden]`.
pub const FINAL_NORM: &str = "language_model.model.norm.weight";
/// Norm of the attention residual before the final norm, `[hidden]`.
pub const OUTPUT_RES_NORM: &str = "language_model.model.output_attn_res_norm.weight";
/// Score vector of the attention residual before the final norm, `[1, hidden]`.
pub const OUTPUT_RES_PROJ: &str = "language_model.model.output_attn_res_proj.weight";
/// Output head, `[vocab, hidden]`; it stands outside `language_model.model`.
pub const LM_HEAD: &str = "language_model.lm_head.weight";

/// What the names of the text model's tensors begin with.
pub const TEXT_MODEL: &str = "language_model.";
const LAYERS: &str = "language_model.model.layers.";
const EXPERTS: &str = "block_sparse_moe.experts.";

/// Names of the tensors of a layer, to be completed by [`in_layer`].
macro_rules! suffixes {
    ($($(#[$doc:meta])* $name:ident = $suffix:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $suffix;)*
    };
}

suffixes! {
    /// Norm before attention, `[hidden]`.
    INPUT_NORM = "input_layernorm.weight";
    /// Norm before the feed-forward network, `[hidden]`.
    POST_NORM = "post_attention_layernorm.weight";
    /// Norm of the attention residual before attention, `[hidden]`. Layer 0 has it and never uses it.
    ATTN_RES_NORM = "self_attention_res_norm.weight";
    /// Score vector of the attention residual before attention, `[1, hidden]`. Layer 0 has it and never uses it.
    ATTN_RES_PROJ = "self_attention_res_proj.weight";
    /// Norm of the attention residual before the feed-forward network, `[hidden]`.
    MLP_RES_NORM = "mlp_res_norm.weight";
    /// Score vector of the attention residual before the feed-forward network, `[1, hidden]`.
    MLP_RES_PROJ = "mlp_res_proj.weight";

    /// KDA queries, `[heads * head_dim, hidden]`.
    Q_PROJ = "self_attn.q_proj.weight";
    /// KDA keys, `[heads * head_dim, hidden]`.
    K_PROJ = "self_attn.k_proj.weight";
    /// KDA values, `[heads * head_dim, hidden]`.
    V_PROJ = "self_attn.v_proj.weight";
    /// Output gate, KDA and MLA, `[attention width, hidden]`.
    G_PROJ = "self_attn.g_proj.weight";
    /// Output projection, KDA and MLA, `[hidden, attention width]`.
    O_PROJ = "self_attn.o_proj.weight";
    /// Causal convolution over KDA queries, `[heads * head_dim, 1, taps]`.
    Q_CONV = "self_attn.q_conv1d.weight";
    /// Causal convolution over KDA keys, `[heads * head_dim, 1, taps]`.
    K_CONV = "self_attn.k_conv1d.weight";
    /// Causal convolution over KDA values, `[heads * head_dim, 1, taps]`.
    V_CONV = "self_attn.v_conv1d.weight";
    /// KDA decay, projection to the low rank, `[head_dim, hidden]`.
    F_A_PROJ = "self_attn.f_a_proj.weight";
    /// KDA decay, projection from the low rank, `[heads * head_dim, head_dim]`.
    F_B_PROJ = "self_attn.f_b_proj.weight";
    /// KDA write strength, `[heads, hidden]`.
    B_PROJ = "self_attn.b_proj.weight";
    /// KDA decay, log of a head's rate; `[head_dim]` on disk, of which the first `heads` count and the rest is zero.
    A_LOG = "self_attn.A_log";
    /// KDA decay, bias, `[heads * head_dim]`.
    DT_BIAS = "self_attn.dt_bias";
    /// KDA norm of a head's output, `[head_dim]`.
    O_NORM = "self_attn.o_norm.weight";

    /// MLA queries, projection to the low rank, `[q_rank, hidden]`.
    Q_A_PROJ = "self_attn.q_a_proj.weight";
    /// MLA norm of the queries' low rank, `[q_rank]`.
    Q_A_NORM = "self_attn.q_a_layernorm.weight";
    /// MLA queries, projection from the low rank, `[heads * (nope + rope), q_rank]`.
    Q_B_PROJ = "self_attn.q_b_proj.weight";
    /// MLA latent and shared key part, `[kv_rank + rope, hidden]`.
    KV_A_PROJ = "self_attn.kv_a_proj_with_mqa.weight";
    /// MLA norm of the latent, `[kv_rank]`.
    KV_A_NORM = "self_attn.kv_a_layernorm.weight";
    /// MLA keys and values from the latent, head by head, `[heads * (nope + v), kv_rank]`.
    KV_B_PROJ = "self_attn.kv_b_proj.weight";

    /// Dense feed-forward network, gate, `[inner, hidden]`.
    MLP_GATE = "mlp.gate_proj.weight";
    /// Dense feed-forward network, up, `[inner, hidden]`.
    MLP_UP = "mlp.up_proj.weight";
    /// Dense feed-forward network, down, `[hidden, inner]`.
    MLP_DOWN = "mlp.down_proj.weight";

    /// Router, `[experts, hidden]`.
    ROUTER = "block_sparse_moe.gate.weight";
    /// Bias on the router's scores, for choosing only, `[experts]`.
    ROUTER_BIAS = "block_sparse_moe.gate.e_score_correction_bias";
    /// Projection into the experts' latent, `[latent, hidden]`.
    LATENT_DOWN = "block_sparse_moe.routed_expert_down_proj.weight";
    /// Projection out of the experts' latent, `[hidden, latent]`.
    LATENT_UP = "block_sparse_moe.routed_expert_up_proj.weight";
    /// Norm of the experts' sum, `[latent]`.
    LATENT_NORM = "block_sparse_moe.routed_expert_norm.weight";
    /// Shared expert, gate, `[shared * inner, hidden]`.
    SHARED_GATE = "block_sparse_moe.shared_experts.gate_proj.weight";
    /// Shared expert, up, `[shared * inner, hidden]`.
    SHARED_UP = "block_sparse_moe.shared_experts.up_proj.weight";
    /// Shared expert, down, `[hidden, shared * inner]`.
    SHARED_DOWN = "block_sparse_moe.shared_experts.down_proj.weight";
}

/// One of the six tensors of a routed expert, in the order in which the release stores them. `W1` is the gate,
/// `W3` up, `W2` down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExpertPart {
    /// Gate, two FP4 values a byte.
    W1Packed,
    /// Gate, one E8M0 scale for 32 values.
    W1Scale,
    /// Down, two FP4 values a byte.
    W2Packed,
    /// Down, one E8M0 scale for 32 values.
    W2Scale,
    /// Up, two FP4 values a byte.
    W3Packed,
    /// Up, one E8M0 scale for 32 values.
    W3Scale,
}

impl ExpertPart {
    /// The six, in the order of the file.
    pub const ALL: [ExpertPart; 6] = [
        ExpertPart::W1Packed,
        ExpertPart::W1Scale,
        ExpertPart::W2Packed,
        ExpertPart::W2Scale,
        ExpertPart::W3Packed,
        ExpertPart::W3Scale,
    ];

    /// The part's name after `experts.N.`.
    pub fn suffix(self) -> &'static str {
        match self {
            ExpertPart::W1Packed => "w1.weight_packed",
            ExpertPart::W1Scale => "w1.weight_scale",
            ExpertPart::W2Packed => "w2.weight_packed",
            ExpertPart::W2Scale => "w2.weight_scale",
            ExpertPart::W3Packed => "w3.weight_packed",
            ExpertPart::W3Scale => "w3.weight_scale",
        }
    }
}

/// The full name of a layer's tensor. `layer` counts from 0.
pub fn in_layer(layer: usize, suffix: &str) -> String {
    format!("{LAYERS}{layer}.{suffix}")
}

/// Whether a name is that of a layer's tensor, whichever layer.
pub fn is_in_layer(name: &str) -> bool {
    name.starts_with(LAYERS)
}

/// The layer that a tensor belongs to, by its name; none of what is outside the layers.
pub fn layer(name: &str) -> Option<usize> {
    Some(split_number(name.strip_prefix(LAYERS)?)?.0)
}

/// The full name of one of the six tensors of a routed expert. `layer` and `expert` count from 0.
pub fn expert(layer: usize, expert: usize, part: ExpertPart) -> String {
    format!("{LAYERS}{layer}.{EXPERTS}{expert}.{}", part.suffix())
}

/// The inverse of [`expert()`]: layer, expert and part. `None` for any other name, and for numbers that are not
/// written the one canonical way (`07`, `+7`).
pub fn parse_expert(name: &str) -> Option<(usize, usize, ExpertPart)> {
    let (layer, rest) = split_number(name.strip_prefix(LAYERS)?)?;
    let (expert, rest) = split_number(rest.strip_prefix(EXPERTS)?)?;
    let part = ExpertPart::ALL
        .into_iter()
        .find(|part| part.suffix() == rest)?;
    Some((layer, expert, part))
}

/// Splits `"12.rest"` into 12 and `"rest"`.
fn split_number(text: &str) -> Option<(usize, &str)> {
    let (digits, rest) = text.split_once('.')?;
    let canonical = digits == "0" || !digits.starts_with('0');
    if !canonical || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expert_names_round_trip() {
        for (layer, number) in [(0, 0), (1, 10), (92, 895), (10, 100)] {
            for part in ExpertPart::ALL {
                assert_eq!(
                    parse_expert(&expert(layer, number, part)),
                    Some((layer, number, part))
                );
            }
        }
        assert_eq!(
            expert(5, 17, ExpertPart::W2Scale),
            "language_model.model.layers.5.block_sparse_moe.experts.17.w2.weight_scale"
        );
    }

    #[test]
    fn only_canonical_expert_names_are_experts() {
        for name in [
            "",
            "language_model.model.layers.",
            "language_model.model.layers.5.block_sparse_moe.experts.17.w2.weight",
            "language_model.model.layers.05.block_sparse_moe.experts.17.w2.weight_scale",
            "language_model.model.layers.5.block_sparse_moe.experts.+7.w2.weight_scale",
            "language_model.model.layers.5.block_sparse_moe.experts..w2.weight_scale",
            "language_model.model.layers.5.block_sparse_moe.experts.17.w4.weight_scale",
            "language_model.model.layers.5.block_sparse_moe.experts.17.w2.weight_scale.x",
            "language_model.model.layers.99999999999999999999.block_sparse_moe.experts.1.w1.weight_scale",
            "x.language_model.model.layers.5.block_sparse_moe.experts.17.w2.weight_scale",
            "language_model.model.layers.5.mlp.experts.17.w2.weight_scale",
        ] {
            assert_eq!(parse_expert(name), None, "{name}");
        }
    }
}
