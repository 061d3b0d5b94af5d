"""The shape of the demo network and its `config.json`. No weights, no computation."""

from dataclasses import dataclass

from tokenizer import SPECIALS


@dataclass(frozen=True)
class Shape:
    ranks: int = 1536  # tokens that are no specials
    hidden: int = 160
    layers: int = 6
    mla: tuple[int, ...] = (3, 5, 6)  # one-based, as in config.json; the last two layers both
    block: int = 2  # layers a residual block
    eps: float = 1e-5
    mla_eps: float = 1e-6  # of the low-rank norms: the official class's default, stated in no key
    kda_heads: int = 4
    kda_dim: int = 32
    taps: int = 4
    lower_bound: float = -5.0
    heads: int = 4
    q_rank: int = 64
    kv_rank: int = 48
    nope: int = 32
    rope: int = 16
    v_dim: int = 32
    experts: int = 32
    top_k: int = 4
    shared: int = 2
    latent: int = 64
    inner: int = 64
    dense_layers: int = 1
    dense_inner: int = 384
    beta: float = 4.0
    linear_beta: float = 25.0

    @property
    def vocab(self) -> int:
        return self.ranks + SPECIALS


def config_json(s: Shape) -> dict:
    """The nested layout of the release. Id `ranks` is [BOS], `ranks + 2` ends a message, the last one pads."""
    ids = {"bos_token_id": s.ranks, "eos_token_id": s.ranks + 2, "pad_token_id": s.vocab - 1}
    linear = {
        "full_attn_layers": list(s.mla),
        "gate_lower_bound": s.lower_bound,
        "head_dim": s.kda_dim,
        "kda_layers": [i for i in range(1, s.layers + 1) if i not in s.mla],
        "num_heads": s.kda_heads,
        "short_conv_kernel_size": s.taps,
        "use_full_rank_gate": True,
    }
    weights = {
        "actorder": None, "block_structure": None, "dynamic": False, "group_size": 32, "num_bits": 4,
        "observer": "minmax", "observer_kwargs": {}, "scale_dtype": "torch.uint8", "strategy": "group",
        "symmetric": True, "type": "float", "zp_dtype": None,
    }  # fmt: skip
    group = {
        "format": "mxfp4-pack-quantized", "input_activations": None, "output_activations": None,
        "targets": ["Linear"], "weights": weights,
    }  # fmt: skip
    quantization = {
        "config_groups": {"group_0": group},
        "format": "mxfp4-pack-quantized",
        "global_compression_ratio": None,
        "ignore": [
            "re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*",
            "re:.*lm_head.*", "re:.*vision_tower.*", "re:.*mm_projector.*",
        ],
        "kv_cache_scheme": None,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
    }  # fmt: skip
    text = ids | {
        "activation_situ_beta": s.beta, "activation_situ_linear_beta": s.linear_beta,
        "architectures": ["KimiLinearForCausalLM"], "attn_res_block_size": s.block, "dtype": "bfloat16",
        "first_k_dense_replace": s.dense_layers, "hidden_act": "situ", "hidden_size": s.hidden,
        "intermediate_size": s.dense_inner, "kv_lora_rank": s.kv_rank, "latent_moe_use_norm": True,
        "linear_attn_config": linear, "max_position_embeddings": 8192, "mla_use_nope": True,
        "mla_use_output_gate": True, "model_type": "kimi_linear", "moe_intermediate_size": s.inner,
        "moe_layer_freq": 1, "moe_renormalize": True, "moe_router_activation_func": "sigmoid",
        "num_attention_heads": s.heads, "num_expert_group": 1, "num_experts": s.experts,
        "num_experts_per_token": s.top_k, "num_hidden_layers": s.layers, "num_key_value_heads": s.heads,
        "num_nextn_predict_layers": 0, "num_shared_experts": s.shared, "q_lora_rank": s.q_rank,
        "qk_nope_head_dim": s.nope, "qk_rope_head_dim": s.rope, "quantization_config": quantization,
        "rms_norm_eps": s.eps, "routed_expert_hidden_size": s.latent, "routed_scaling_factor": 1.0,
        "tie_word_embeddings": False, "topk_group": 1, "topk_method": "noaux_tc", "use_cache": True,
        "use_grouped_topk": True, "v_head_dim": s.v_dim, "vocab_size": s.vocab,
    }  # fmt: skip
    return {"architectures": ["KimiK3ForConditionalGeneration"]} | ids | {
        "dtype": "bfloat16", "model_type": "kimi_k3", "text_config": text, "tie_word_embeddings": False,
    }  # fmt: skip
