//! Reads `config.json` into a [`Config`], strictly: whatever is missing, wrong or unlike the one architecture that
//! this program computes is collected and refused in one message. Nothing is defaulted.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::Error;
use super::config::{Attention, Config, KdaShape, MlaShape, MoeShape, Situ};
use super::config_reader::{Place, Reader};
use super::json::{Node, Object};

/// A larger file is not a configuration.
const MAX_FILE: u64 = 1 << 28;
const TOO_LARGE: &str = "the file is larger than 256 MiB";
/// Bounds on numbers that decide how much is allocated before any weight is looked at.
const MAX_LAYERS: usize = 4096;
const MAX_EXPERTS: usize = 1 << 16;
const MAX_TOP_K: usize = 64;
/// Epsilon of the two low-rank norms of MLA in the official model. Its code builds them without an epsilon, so that
/// the default of the class holds and no key states it.
const LORA_NORM_EPS: f32 = 1e-6;

impl Config {
    /// Reads a `config.json`, in the nested layout of the release or in the flat one.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read, [`Error::Config`] with every problem when it cannot be used.
    pub fn load(path: &Path) -> Result<Config, Error> {
        let io = |source| Error::io(path, "read the model's configuration", source);
        let file = File::open(path).map_err(io)?;
        if file.metadata().map_err(io)?.len() > MAX_FILE {
            return Err(refuse(path, TOO_LARGE));
        }
        // What is not a plain file has no length to go by; one byte more than allowed is enough for `parse`.
        let mut bytes = Vec::new();
        file.take(MAX_FILE + 1)
            .read_to_end(&mut bytes)
            .map_err(io)?;
        Config::parse(&bytes, path)
    }

    /// The same from the bytes of a file; `path` is for messages only.
    ///
    /// # Errors
    /// [`Error::Config`] with every problem.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Config, Error> {
        if bytes.len() as u64 > MAX_FILE {
            return Err(refuse(path, TOO_LARGE));
        }
        let root: Node = serde_json::from_slice(bytes)
            .map_err(|error| refuse(path, format!("not valid JSON: {error}")))?;
        let Node::Object(root) = root else {
            return Err(refuse(
                path,
                format!("the whole must be an object, is {root}"),
            ));
        };
        read(&root).map_err(|problems| Error::Config {
            path: path.to_owned(),
            problems,
        })
    }
}

fn refuse(path: &Path, problem: impl Into<String>) -> Error {
    Error::Config {
        path: path.to_owned(),
        problems: vec![problem.into()],
    }
}

impl Reader<'_> {
    /// The attention kind of each layer. `full` and `kda` count from 1, ascend and end at `layers`.
    fn attention(
        &mut self,
        layers: usize,
        full: &[usize],
        kda: Option<&[usize]>,
    ) -> Vec<Attention> {
        let mut kinds = vec![Attention::Kda; layers];
        for &layer in full {
            kinds[layer - 1] = Attention::Mla;
        }
        if full.len() >= layers {
            self.problem(format_args!(
                "full_attn_layers holds {} of {layers} layers and leaves no KDA layer",
                full.len()
            ));
        }
        let rest = (1..=layers).filter(|layer| kinds[layer - 1] == Attention::Kda);
        if kda.is_some_and(|kda| !rest.eq(kda.iter().copied())) {
            self.problem("kda_layers is not exactly the layers that full_attn_layers leaves out");
        }
        kinds
    }

    /// What no single key shows.
    fn relations(&mut self, config: &Config, layers: usize) {
        self.only(
            Place::Text,
            "num_key_value_heads",
            &Node::Integer(config.mla.heads as i128),
        );
        let moe = &config.moe;
        if moe.top_k > MAX_TOP_K || moe.top_k > moe.experts {
            self.problem(format_args!(
                "num_experts_per_token {} is more than num_experts {} or than {MAX_TOP_K}",
                moe.top_k, moe.experts
            ));
        }
        if moe.experts > MAX_EXPERTS {
            self.problem(format_args!(
                "num_experts {} is more than {MAX_EXPERTS}",
                moe.experts
            ));
        }
        if config.dense_layers > layers {
            self.problem(format_args!(
                "first_k_dense_replace {} is more than num_hidden_layers {layers}",
                config.dense_layers
            ));
        }
        if config.kda.heads > config.kda.head_dim {
            self.problem(format_args!(
                "num_heads {} is more than head_dim {}, but A_log stores head_dim values, one a head",
                config.kda.heads, config.kda.head_dim
            ));
        }
        if !sizes_fit(config) {
            self.problem("the sizes multiply to more than any file can hold");
        }
    }
}

/// Whether every tensor of the model, and the sum of a layer's experts, has fewer than 2^56 elements, so that no size
/// in bytes computed from this configuration wraps around.
fn sizes_fit(config: &Config) -> bool {
    let (kda, mla, moe, hidden) = (&config.kda, &config.mla, &config.moe, config.hidden);
    let query = mla.nope_dim.checked_add(mla.rope_dim);
    let keys_values = mla.nope_dim.checked_add(mla.v_dim);
    let cache = mla.kv_rank.checked_add(mla.rope_dim);
    let (Some(query), Some(keys_values), Some(cache)) = (query, keys_values, cache) else {
        return false;
    };
    let tensors: [&[usize]; 11] = [
        &[config.vocab, hidden],
        &[kda.heads, kda.head_dim, hidden],
        &[kda.heads, kda.head_dim, kda.head_dim],
        &[kda.heads, kda.head_dim, kda.conv_kernel],
        &[mla.q_rank, hidden],
        &[mla.heads, query, mla.q_rank],
        &[cache, hidden],
        &[mla.heads, keys_values, mla.kv_rank.max(hidden)],
        &[config.dense_inner, hidden],
        &[moe.experts, moe.latent.max(hidden), moe.inner.max(1)],
        &[moe.shared, moe.inner, hidden],
    ];
    let latent = [moe.latent, hidden];
    tensors.into_iter().chain([&latent[..]]).all(|sizes| {
        let product = sizes
            .iter()
            .try_fold(1u64, |product, &size| product.checked_mul(size as u64));
        product.is_some_and(|product| product < 1 << 56)
    })
}

fn read(root: &Object) -> Result<Config, Vec<String>> {
    let mut r = Reader::new(root);
    let hidden = r.size("hidden_size");
    let before = r.problems.len();
    let layers = r.size("num_hidden_layers");
    if layers > MAX_LAYERS {
        r.problem(format_args!(
            "num_hidden_layers {layers} is more than {MAX_LAYERS}"
        ));
    }
    // The lists of layers are held against the number of layers only when that is sound itself.
    let most = if r.problems.len() == before {
        layers
    } else {
        MAX_LAYERS
    };
    let (full, kda) = (r.full_attention(most), r.kda_layers(most));
    let mut config = Config {
        hidden,
        vocab: r.size("vocab_size"),
        norm_eps: r.positive(&["rms_norm_eps"]),
        kda: KdaShape {
            heads: r.integer(Place::Linear, &["num_heads", "kda_num_heads"], 1),
            head_dim: r.integer(Place::Linear, &["head_dim", "kda_head_dim"], 1),
            conv_kernel: r.integer(Place::Linear, &["short_conv_kernel_size"], 1),
            gate_lower_bound: r.float(
                Place::Linear,
                &["gate_lower_bound"],
                "a finite number below 0",
                |x| x < 0.0,
            ),
        },
        mla: MlaShape {
            heads: r.size("num_attention_heads"),
            q_rank: r.size("q_lora_rank"),
            kv_rank: r.size("kv_lora_rank"),
            nope_dim: r.size("qk_nope_head_dim"),
            rope_dim: r.integer(Place::Text, &["qk_rope_head_dim"], 0),
            v_dim: r.size("v_head_dim"),
            output_gate: r.switch("mla_use_output_gate"),
            lora_norm_eps: LORA_NORM_EPS,
        },
        moe: MoeShape {
            experts: r.size("num_experts"),
            top_k: r.size("num_experts_per_token"),
            shared: r.size("num_shared_experts"),
            latent: r.size("routed_expert_hidden_size"),
            inner: r.size("moe_intermediate_size"),
            scaling: r.float(
                Place::Text,
                &["routed_scaling_factor"],
                "a finite number",
                |_| true,
            ),
            renormalize: r.switch("moe_renormalize"),
            latent_norm: r.switch("latent_moe_use_norm"),
        },
        dense_layers: r.integer(Place::Text, &["first_k_dense_replace"], 0),
        dense_inner: r.size("intermediate_size"),
        block: r.size("attn_res_block_size"),
        situ: Situ {
            beta: r.positive(&["activation_situ_beta", "situ_beta"]),
            linear_beta: r.positive(&["activation_situ_linear_beta", "situ_linear_beta"]),
        },
        attention: Vec::new(),
        max_positions: r.note("max_position_embeddings"),
        bos: r.note("bos_token_id"),
        eos: r.note("eos_token_id"),
        pad: r.note("pad_token_id"),
        vision: root
            .get("vision_config")
            .is_some_and(|node| *node != Node::Null),
    };
    r.architecture();
    // With a key missing its placeholder would only cause problems that are none.
    if r.problems.is_empty() {
        config.attention = r.attention(layers, &full, kda.as_deref());
        r.relations(&config, layers);
    }
    if r.problems.is_empty() {
        Ok(config)
    } else {
        Err(r.problems)
    }
}

#[cfg(test)]
mod tests;
