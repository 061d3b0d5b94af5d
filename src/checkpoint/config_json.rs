//! Reads `config.json` into a [`Config`], strictly: whatever is missing, wrong or unlike the one architecture that
//! this program computes is collected and refused in one message. Nothing is defaulted.

use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::Error;
use super::config::{Attention, Config, KdaShape, MlaShape, MoeShape, Situ};
use super::json::{Node, Object};

/// A larger file is not a configuration.
const MAX_FILE: u64 = 1 << 28;
/// Bounds on numbers that decide how much is allocated before any weight is looked at.
const MAX_LAYERS: usize = 4096;
const MAX_EXPERTS: usize = 1 << 16;
const MAX_TOP_K: usize = 64;
const MAX_FULL_ATTENTION: usize = 128;
/// Epsilon of the two low-rank norms of MLA in the official model. Its code builds them without an epsilon, so that
/// the default of the class holds and no key states it.
const LORA_NORM_EPS: f32 = 1e-6;

impl Config {
    /// Reads a `config.json`, in the nested layout of the release or in the flat one.
    ///
    /// # Errors
    /// [`Error::Io`] when the file cannot be read, [`Error::Config`] with every problem when it cannot be used.
    pub fn load(path: &Path) -> Result<Config, Error> {
        let mut bytes = Vec::new();
        File::open(path)
            .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
            .map_err(|source| Error::io(path, "read the model's configuration", source))?;
        Config::parse(&bytes, path)
    }

    /// The same from the bytes of a file; `path` is for messages only.
    ///
    /// # Errors
    /// [`Error::Config`] with every problem.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Config, Error> {
        let refuse = |problems| Error::Config {
            path: path.to_owned(),
            problems,
        };
        if bytes.len() as u64 > MAX_FILE {
            return Err(refuse(vec!["the file is larger than 256 MiB".to_owned()]));
        }
        let root: Node = serde_json::from_slice(bytes)
            .map_err(|error| refuse(vec![format!("not valid JSON: {error}")]))?;
        let Node::Object(root) = root else {
            return Err(refuse(vec![format!(
                "the whole must be an object, is {root}"
            )]));
        };
        read(&root).map_err(refuse)
    }
}

/// The objects in which a key is looked for.
#[derive(Clone, Copy)]
enum Place {
    /// `text_config`, then the root.
    Text,
    /// `linear_attn_config` first: `head_dim` and `num_heads` may also stand, with another meaning, in the text
    /// model's own keys.
    Linear,
}

struct Reader<'a> {
    text: Vec<&'a Object>,
    linear: Vec<&'a Object>,
    problems: Vec<String>,
}

impl<'a> Reader<'a> {
    fn new(root: &'a Object) -> Reader<'a> {
        let mut problems = Vec::new();
        let mut child = |parent: &'a Object, key: &str| match parent.get(key) {
            Some(Node::Object(object)) => Some(object),
            Some(other) => {
                problems.push(format!("{key} must be an object, is {other}"));
                None
            }
            None => None,
        };
        let text: Vec<&Object> = child(root, "text_config")
            .into_iter()
            .chain([root])
            .collect();
        let mut linear: Vec<&Object> = text
            .iter()
            .filter_map(|object| child(object, "linear_attn_config"))
            .collect();
        linear.extend(&text);
        Reader {
            text,
            linear,
            problems,
        }
    }

    fn problem(&mut self, text: impl Display) {
        self.problems.push(text.to_string());
    }

    /// Every value that a key has, in the order of the search.
    fn values(&self, place: Place, names: &[&str]) -> Vec<&'a Node> {
        let objects = match place {
            Place::Text => &self.text,
            Place::Linear => &self.linear,
        };
        objects
            .iter()
            .flat_map(|&object| names.iter().filter_map(|&name| object.get(name)))
            .collect()
    }

    /// The one value of a key. Two places that disagree are a problem, because nothing says which is meant.
    fn find(&mut self, place: Place, names: &[&str]) -> Option<&'a Node> {
        let values = self.values(place, names);
        let first = *values.first()?;
        if let Some(other) = values.iter().find(|other| !first.means_the_same(other)) {
            self.problem(format_args!(
                "{} is {first} in one place and {other} in another",
                label(names)
            ));
        }
        Some(first)
    }

    fn required(&mut self, place: Place, names: &[&str]) -> Option<&'a Node> {
        let found = self.find(place, names);
        if found.is_none() {
            self.problem(format_args!("{} is missing", label(names)));
        }
        found
    }

    /// A required integer that is at least `least`. After a problem the value is `least`; it is never used.
    fn integer(&mut self, place: Place, names: &[&str], least: usize) -> usize {
        let Some(node) = self.required(place, names) else {
            return least;
        };
        let Node::Integer(value) = *node else {
            self.problem(format_args!(
                "{} must be an integer, is {node}",
                label(names)
            ));
            return least;
        };
        match usize::try_from(value) {
            Ok(value) if value >= least => value,
            _ if value < least as i128 => {
                self.problem(format_args!(
                    "{} must be at least {least}, is {value}",
                    label(names)
                ));
                least
            }
            _ => {
                self.problem(format_args!(
                    "{} is impossibly large: {value}",
                    label(names)
                ));
                least
            }
        }
    }

    fn size(&mut self, name: &str) -> usize {
        self.integer(Place::Text, &[name], 1)
    }

    /// A required number that is finite as an f32 and for which `good` holds; `rule` says what that is.
    fn float(&mut self, place: Place, names: &[&str], rule: &str, good: fn(f32) -> bool) -> f32 {
        let Some(node) = self.required(place, names) else {
            return 1.0;
        };
        let Some(value) = node.number().map(|x| x as f32) else {
            self.problem(format_args!("{} must be a number, is {node}", label(names)));
            return 1.0;
        };
        if !value.is_finite() || !good(value) {
            self.problem(format_args!("{} must be {rule}, is {node}", label(names)));
        }
        value
    }

    fn positive(&mut self, names: &[&str]) -> f32 {
        self.float(Place::Text, names, "a finite number above 0", |x| x > 0.0)
    }

    /// A switch of the architecture that is on when the file does not speak of it.
    fn switch(&mut self, name: &str) -> bool {
        match self.find(Place::Text, &[name]) {
            None => true,
            Some(Node::Bool(value)) => *value,
            Some(other) => {
                self.problem(format_args!("{name} must be true or false, is {other}"));
                true
            }
        }
    }

    /// A key that this program reads only for what it says about the model: the first value that is not null.
    fn note<T: TryFrom<i128>>(&mut self, name: &str) -> Option<T> {
        let node = self
            .values(Place::Text, &[name])
            .into_iter()
            .find(|node| **node != Node::Null)?;
        let value = match node {
            Node::Integer(value) => T::try_from(*value).ok(),
            _ => None,
        };
        if value.is_none() {
            self.problem(format_args!(
                "{name} must be an integer that is not negative, is {node}"
            ));
        }
        value
    }

    /// A key that need not be there, but when it is, in whatever place, says one thing only.
    fn only(&mut self, place: Place, name: &str, wanted: &Node) {
        for node in self.values(place, &[name]) {
            if *node != Node::Null && !node.means_the_same(wanted) {
                self.problem(format_args!("{name} must be {wanted}, is {node}"));
            }
        }
    }

    /// A list of layers, counted from 1, in ascending order.
    fn layer_list(&mut self, name: &str, node: &Node, layers: usize) -> Vec<usize> {
        let Node::List(items) = node else {
            self.problem(format_args!("{name} must be a list of integers, is {node}"));
            return Vec::new();
        };
        let mut list = Vec::new();
        for item in items {
            match item {
                Node::Integer(n) if (1..=layers as i128).contains(n) => list.push(*n as usize),
                Node::Integer(n) => {
                    self.problem(format_args!(
                        "{name} holds {n}, outside 1 to {layers} (it counts from 1)"
                    ));
                }
                other => self.problem(format_args!(
                    "{name} must hold integers only, holds {other}"
                )),
            }
        }
        if !list.is_sorted_by(|a, b| a < b) {
            self.problem(format_args!("{name} must ascend and hold each layer once"));
        }
        list
    }

    /// The attention kind of every layer, from `full_attn_layers` (and `kda_layers`, which may say nothing else).
    fn attention(&mut self, layers: usize) -> Vec<Attention> {
        const NAME: &str = "full_attn_layers";
        let mut kinds = vec![Attention::Kda; layers];
        let Some(node) = self.required(Place::Linear, &[NAME]) else {
            return kinds;
        };
        let full = self.layer_list(NAME, node, layers);
        if matches!(node, Node::List(items) if items.is_empty()) {
            self.problem(format_args!("{NAME} is empty"));
        }
        if full.len() > MAX_FULL_ATTENTION {
            self.problem(format_args!(
                "{NAME} holds {} layers, more than {MAX_FULL_ATTENTION}",
                full.len()
            ));
        } else if full.len() >= layers {
            self.problem(format_args!(
                "{NAME} holds all {layers} layers and leaves no KDA layer"
            ));
        }
        for layer in full {
            kinds[layer - 1] = Attention::Mla;
        }
        if let Some(node) = self
            .find(Place::Linear, &["kda_layers"])
            .filter(|node| **node != Node::Null)
        {
            let before = self.problems.len();
            let listed = self.layer_list("kda_layers", node, layers);
            let expected = (1..=layers).filter(|layer| kinds[layer - 1] == Attention::Kda);
            if self.problems.len() == before && !expected.eq(listed) {
                self.problem(format_args!(
                    "kda_layers is not exactly the layers that {NAME} leaves out"
                ));
            }
        }
        kinds
    }

    /// What the release says about the way it is built, where a file says it: this program computes nothing else.
    fn architecture(&mut self, heads: usize) {
        let text = |s: &str| Node::Text(s.to_owned());
        for (name, wanted) in [
            ("hidden_act", text("situ")),
            ("mla_use_nope", Node::Bool(true)),
            ("moe_layer_freq", Node::Integer(1)),
            ("moe_router_activation_func", text("sigmoid")),
            ("use_grouped_topk", Node::Bool(true)),
            ("num_expert_group", Node::Integer(1)),
            ("topk_group", Node::Integer(1)),
            ("topk_method", text("noaux_tc")),
            ("num_nextn_predict_layers", Node::Integer(0)),
            ("tie_word_embeddings", Node::Bool(false)),
            ("num_key_value_heads", Node::Integer(heads as i128)),
        ] {
            self.only(Place::Text, name, &wanted);
        }
        self.only(Place::Linear, "use_full_rank_gate", &Node::Bool(true));
        for node in self.values(Place::Text, &["quantization_config"]) {
            match node {
                Node::Object(object) => self.quantization(object),
                Node::Null => {}
                other => self.problem(format_args!(
                    "quantization_config must be an object, is {other}"
                )),
            }
        }
    }

    /// Experts are MXFP4: 4-bit floats in groups of 32 under one power of two.
    fn quantization(&mut self, object: &Object) {
        let text = |s: &str| Node::Text(s.to_owned());
        self.member(
            "quantization_config",
            object,
            "format",
            &text("mxfp4-pack-quantized"),
            true,
        );
        self.member(
            "quantization_config",
            object,
            "quant_method",
            &text("compressed-tensors"),
            false,
        );
        let groups = match object.get("config_groups") {
            Some(Node::Object(groups)) if !groups.is_empty() => groups,
            _ => {
                return self.problem(
                    "quantization_config.config_groups must be an object with a group in it",
                );
            }
        };
        for (name, group) in groups {
            let Node::Object(group) = group else {
                self.problem(format_args!(
                    "quantization_config.config_groups.{name} must be an object"
                ));
                continue;
            };
            self.member(name, group, "format", &text("mxfp4-pack-quantized"), false);
            let Some(Node::Object(weights)) = group.get("weights") else {
                self.problem(format_args!(
                    "quantization_config.config_groups.{name}.weights must be an object"
                ));
                continue;
            };
            let name = format!("{name}.weights");
            self.member(&name, weights, "num_bits", &Node::Integer(4), true);
            self.member(&name, weights, "group_size", &Node::Integer(32), true);
            self.member(&name, weights, "type", &text("float"), true);
            self.member(&name, weights, "symmetric", &Node::Bool(true), false);
            self.member(&name, weights, "strategy", &text("group"), false);
            self.member(&name, weights, "dynamic", &Node::Bool(false), false);
        }
    }

    fn member(
        &mut self,
        object_name: &str,
        object: &Object,
        name: &str,
        wanted: &Node,
        required: bool,
    ) {
        match object.get(name) {
            Some(node) if node.means_the_same(wanted) => {}
            Some(node) => self.problem(format_args!(
                "{object_name}.{name} must be {wanted}, is {node}"
            )),
            None if required => self.problem(format_args!("{object_name}.{name} is missing")),
            None => {}
        }
    }

    /// What no single key shows.
    fn relations(&mut self, config: &Config) {
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
        if config.dense_layers > config.layers() {
            self.problem(format_args!(
                "first_k_dense_replace {} is more than num_hidden_layers {}",
                config.dense_layers,
                config.layers()
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

/// A key as messages show it, with the other name it may have.
fn label(names: &[&str]) -> String {
    match names {
        [name, alias] => format!("{name} (or {alias})"),
        _ => names.concat(),
    }
}

fn read(root: &Object) -> Result<Config, Vec<String>> {
    let mut r = Reader::new(root);
    let hidden = r.size("hidden_size");
    let mut layers = r.size("num_hidden_layers");
    if layers > MAX_LAYERS {
        r.problem(format_args!(
            "num_hidden_layers {layers} is more than {MAX_LAYERS}"
        ));
        layers = 1;
    }
    let config = Config {
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
        attention: r.attention(layers),
        max_positions: r.note("max_position_embeddings"),
        bos: r.note("bos_token_id"),
        eos: r.note("eos_token_id"),
        pad: r.note("pad_token_id"),
        vision: root
            .get("vision_config")
            .is_some_and(|node| *node != Node::Null),
    };
    r.architecture(config.mla.heads);
    // With a key missing its placeholder would only cause problems that are none.
    if r.problems.is_empty() {
        r.relations(&config);
    }
    if r.problems.is_empty() {
        Ok(config)
    } else {
        Err(r.problems)
    }
}
