//! The shape of a model as `config.json` states it. Reading and refusing; nothing is ever defaulted.

/// Which attention a layer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attention {
    /// Kimi delta attention: a recurrent state of fixed size.
    Kda,
    /// Multi-head latent attention without positions: a latent cache that grows.
    Mla,
}

/// Sizes of the KDA layers.
#[derive(Clone, Debug, PartialEq)]
pub struct KdaShape {
    /// Heads.
    pub heads: usize,
    /// Width of a head, keys and values alike.
    pub head_dim: usize,
    /// Taps of the causal depthwise convolution.
    pub conv_kernel: usize,
    /// Lower bound of the log decay, below zero.
    pub gate_lower_bound: f32,
}

impl KdaShape {
    /// `heads * head_dim`: the width of q, k, v and gate.
    pub fn width(&self) -> usize {
        self.heads * self.head_dim
    }
}

/// Sizes of the MLA layers.
#[derive(Clone, Debug, PartialEq)]
pub struct MlaShape {
    /// Heads, of queries and of keys and values alike.
    pub heads: usize,
    /// Rank of the query projection.
    pub q_rank: usize,
    /// Width of the compressed latent.
    pub kv_rank: usize,
    /// Width of a head's own key part.
    pub nope_dim: usize,
    /// Width of the key part that all heads share (never rotated).
    pub rope_dim: usize,
    /// Width of a head's value.
    pub v_dim: usize,
    /// Whether the output is gated by `sigmoid(g_proj(x))`.
    pub output_gate: bool,
    /// Epsilon of the two low-rank norms. The official model builds them with their class's default, 1e-6, and not
    /// with `rms_norm_eps`; the C engines and the fixtures of their family use 1e-5. No `config.json` key states it.
    pub lora_norm_eps: f32,
}

impl MlaShape {
    /// Width of a head's query, `nope_dim + rope_dim`.
    pub fn q_dim(&self) -> usize {
        self.nope_dim + self.rope_dim
    }
    /// Width of a cached position, `kv_rank + rope_dim`.
    pub fn cache_width(&self) -> usize {
        self.kv_rank + self.rope_dim
    }
    /// Rows of `kv_b_proj` that belong to one head, `nope_dim + v_dim`.
    pub fn kv_b_head_rows(&self) -> usize {
        self.nope_dim + self.v_dim
    }
}

/// Sizes of the mixture of experts.
#[derive(Clone, Debug, PartialEq)]
pub struct MoeShape {
    /// Routed experts a layer.
    pub experts: usize,
    /// Experts chosen a token.
    pub top_k: usize,
    /// Shared experts, stored as one of `shared * inner` width.
    pub shared: usize,
    /// Width of the latent the routed experts work in.
    pub latent: usize,
    /// Inner width of one expert.
    pub inner: usize,
    /// Factor on the chosen experts' weights.
    pub scaling: f32,
    /// Whether the chosen weights are divided by their sum (never when `top_k` is 1).
    pub renormalize: bool,
    /// Whether the sum over experts is normalised before it is projected up.
    pub latent_norm: bool,
}

impl MoeShape {
    /// Inner width of the shared expert.
    pub fn shared_inner(&self) -> usize {
        self.shared * self.inner
    }
}

/// The two bounds of the SiTU activation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Situ {
    /// Bound of the gate branch.
    pub beta: f32,
    /// Bound of the linear branch.
    pub linear_beta: f32,
}

/// The text model of a checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Width of the residual stream.
    pub hidden: usize,
    /// Attention kind of every layer, in order; its length is the number of layers.
    pub attention: Vec<Attention>,
    /// Ids of the vocabulary.
    pub vocab: usize,
    /// Epsilon of every norm but the two of [`MlaShape::lora_norm_eps`].
    pub norm_eps: f32,
    /// KDA layers.
    pub kda: KdaShape,
    /// MLA layers.
    pub mla: MlaShape,
    /// Experts.
    pub moe: MoeShape,
    /// Layers below this index have a dense feed-forward network.
    pub dense_layers: usize,
    /// Inner width of the dense feed-forward network.
    pub dense_inner: usize,
    /// Layers in a block of the attention residuals.
    pub block: usize,
    /// Activation bounds.
    pub situ: Situ,
    /// Longest context the model was made for, when the file says.
    pub max_positions: Option<usize>,
    /// Begin-of-sequence id, when the file says.
    pub bos: Option<u32>,
    /// End-of-message id, when the file says.
    pub eos: Option<u32>,
    /// Padding id, when the file says.
    pub pad: Option<u32>,
    /// Whether the file has a `vision_config`, so that vision tensors may stand beside the text model's.
    pub vision: bool,
}

impl Config {
    /// Number of layers.
    pub fn layers(&self) -> usize {
        self.attention.len()
    }
    /// Whether a layer's feed-forward network is dense, not a mixture of experts.
    pub fn is_dense(&self, layer: usize) -> bool {
        layer < self.dense_layers
    }
}
