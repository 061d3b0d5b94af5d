//! Reading the fixtures of kimi-k3-in-c: JSON tensors under names of its own. Its norms inside MLA use eps 1e-5.

use std::path::Path;

use k3::checkpoint::layout::{self, Entry};
use k3::checkpoint::{Config, names};

use super::compare::Tolerance;
use super::memory::plain_expert;
use super::tensors::{Tensor, Tensors};
use super::{json, numbers};

/// One JSON file of tensors and plain numbers.
pub struct Fixture(serde_json::Value);

impl Fixture {
    /// `upstream/ops/NAME.json` of the oracle. A file that is not there fails the test.
    pub fn operator(oracle: &Path, name: &str) -> Self {
        Self(json(&oracle.join(format!("upstream/ops/{name}.json"))))
    }

    pub fn open(path: &Path) -> Self {
        Self(json(path))
    }

    pub fn value(&self, member: &str) -> &serde_json::Value {
        let value = &self.0[member];
        assert!(!value.is_null(), "no member {member}");
        value
    }

    pub fn number(&self, member: &str) -> f32 {
        self.value(member).as_f64().unwrap() as f32
    }

    pub fn count(&self, member: &str) -> usize {
        self.value(member).as_u64().unwrap() as usize
    }

    pub fn tensor(&self, member: &str) -> Tensor {
        let value = self.value(member);
        let shape: Vec<usize> = serde_json::from_value(value["shape"].clone()).unwrap();
        Tensor::f32(&shape, numbers(&value["data"]))
    }

    pub fn floats(&self, member: &str) -> Vec<f32> {
        self.tensor(member).floats()
    }

    /// The integers of a member, all below 256.
    pub fn bytes(&self, member: &str) -> Vec<u8> {
        serde_json::from_value(self.value(member)["data"].clone()).unwrap()
    }

    /// The tensors of a layer under their released names. `fixture_name` gives a member's name from the name that the
    /// upstream reference has for a tensor inside a layer, dots replaced.
    pub fn layer(
        &self,
        config: &Config,
        layer: usize,
        fixture_name: impl Fn(&str) -> Option<String>,
    ) -> Tensors {
        let mut all = Tensors::default();
        for (name, shape) in released(config, layer) {
            let inside = reference_name(&name);
            let inside = inside.trim_start_matches(&format!("layers_{layer}_"));
            if let Some(member) = fixture_name(inside) {
                bind(&mut all, &name, &shape, self.tensor(&member));
            }
        }
        all
    }
}

/// Names and shapes of a layer's tensors, experts as plain matrices included.
fn released(config: &Config, layer: usize) -> Vec<(String, Vec<usize>)> {
    let entry = |entry: Entry| (entry.name, entry.shape);
    let mut all: Vec<_> = layout::layer(config, layer)
        .into_iter()
        .map(entry)
        .collect();
    if !config.is_dense(layer) {
        let (latent, inner) = (config.moe.latent, config.moe.inner);
        for expert in 0..config.moe.experts {
            for (matrix, shape) in [
                ("w1", [inner, latent]),
                ("w3", [inner, latent]),
                ("w2", [latent, inner]),
            ] {
                all.push((plain_expert(layer, expert, matrix), shape.to_vec()));
            }
        }
    }
    all
}

/// What the upstream reference calls a released tensor, dots replaced by underscores.
fn reference_name(released: &str) -> String {
    let mut name = released.trim_start_matches(names::TEXT_MODEL).to_owned();
    for (from, to) in [
        ("model.", ""),
        (
            "block_sparse_moe.gate.e_score_correction_bias",
            "mlp.e_score_correction_bias",
        ),
        ("block_sparse_moe.routed_expert_down_proj", "mlp.down"),
        ("block_sparse_moe.routed_expert_up_proj", "mlp.up"),
        ("block_sparse_moe.routed_expert_norm", "mlp.norm"),
        ("block_sparse_moe.shared_experts.gate_proj", "mlp.shared.w1"),
        ("block_sparse_moe.shared_experts.up_proj", "mlp.shared.w3"),
        ("block_sparse_moe.shared_experts.down_proj", "mlp.shared.w2"),
        ("block_sparse_moe", "mlp"),
        (".", "_"),
    ] {
        name = name.replace(from, to);
    }
    name
}

/// Adds a tensor under its released name, in the released shape.
fn bind(all: &mut Tensors, name: &str, shape: &[usize], tensor: Tensor) {
    let mut values = tensor.floats();
    if name.ends_with(names::A_LOG) {
        // One value a head here; the release pads them to the width of a head.
        assert!(values.len() <= shape[0], "{name}");
        values.resize(shape[0], 0.0);
    } else {
        let flat = |shape: &[usize]| shape.iter().filter(|&&n| n != 1).copied().collect();
        let (got, want): (Vec<usize>, Vec<usize>) = (flat(&tensor.shape), flat(shape));
        assert_eq!(got, want, "{name}");
    }
    all.insert(name, Tensor::f32(shape, values));
}

/// The tiny configuration that all fixtures share.
pub fn config(oracle: &Path) -> Config {
    let path = oracle.join("upstream/ops/MANIFEST.json");
    let text = serde_json::to_vec(&json(&path)["config"]).unwrap();
    let mut config = Config::parse(&text, &path).unwrap();
    config.mla.lora_norm_eps = 1e-5;
    config
}

/// The tolerance that goes with the operator fixtures.
pub fn tolerance(oracle: &Path) -> Tolerance {
    let manifest = json(&oracle.join("upstream/ops/MANIFEST.json"));
    let part = |name: &str| manifest["tolerance"][name].as_f64().unwrap();
    let tolerance = Tolerance {
        abs: part("fp32_abs"),
        rel: part("fp32_rel"),
    };
    assert!(tolerance.abs <= 1e-5 && tolerance.rel <= 1e-4);
    tolerance
}

/// All weights of the 13-layer tiny model, from its index and one file of f32. Every tensor of the index is bound.
pub fn tiny_model(oracle: &Path, config: &Config) -> Tensors {
    let index = json(&oracle.join("upstream/tiny_k3.json"));
    let floats = super::floats(&oracle.join("kat/tiny_k3.bin"));
    assert_eq!(floats.len() as u64, index["total_floats"].as_u64().unwrap());
    let entries = index["tensors"].as_object().unwrap();
    let read = |name: &str| {
        let entry = entries.get(name).unwrap_or_else(|| panic!("no {name}"));
        let shape: Vec<usize> = serde_json::from_value(entry["shape"].clone()).unwrap();
        let start = entry["offset"].as_u64().unwrap() as usize;
        let end = start + shape.iter().product::<usize>();
        Tensor::f32(&shape, floats[start..end].to_vec())
    };
    let layers = (0..config.layers()).flat_map(|layer| released(config, layer));
    let outside = layout::outside_layers(config);
    let outside = outside.into_iter().map(|entry| (entry.name, entry.shape));
    let mut all = Tensors::default();
    for (name, shape) in layers.chain(outside) {
        bind(&mut all, &name, &shape, read(&reference_name(&name)));
    }
    assert_eq!(all.names().count(), entries.len(), "every tensor is bound");
    all
}
