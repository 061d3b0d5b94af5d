//! Cuts a `config.json` to fewer layers and experts, all keys that depend on them together.

use serde_json::Value;

use super::config::{Attention, Config};

/// The text of a `config.json`, cut. `full` is what the text says now. Without cuts the text stays as it is.
///
/// # Errors
/// What is wrong with the numbers, and which would do.
pub(super) fn cut(
    text: &[u8],
    full: &Config,
    layers: Option<usize>,
    experts: Option<usize>,
) -> Result<Vec<u8>, String> {
    if layers.is_none() && experts.is_none() {
        return Ok(text.to_owned());
    }
    let layers = layers.unwrap_or(full.layers());
    let experts = experts.unwrap_or(full.moe.experts);
    check_layers(full, layers)?;
    if !(1..=full.moe.experts).contains(&experts) {
        return Err(format!(
            "{experts} experts asked for; config.json allows 1 to {}",
            full.moe.experts
        ));
    }
    let mut root: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    cut_object(&mut root, full, layers, experts);
    let mut text = serde_json::to_vec_pretty(&root).map_err(|error| error.to_string())?;
    text.push(b'\n');
    Ok(text)
}

/// A model needs both kinds of attention.
fn check_layers(full: &Config, layers: usize) -> Result<(), String> {
    if !(1..=full.layers()).contains(&layers) {
        return Err(format!(
            "{layers} layers asked for; config.json allows 1 to {}",
            full.layers()
        ));
    }
    for (kind, name) in [(Attention::Mla, "full-attention"), (Attention::Kda, "KDA")] {
        let first = full
            .attention
            .iter()
            .position(|&attention| attention == kind)
            .map_or(0, |at| at + 1);
        if first > layers {
            return Err(format!(
                "{layers} layers leave no {name} layer; the first is layer {first}: keep at least {first}"
            ));
        }
    }
    Ok(())
}

/// Every place that a reader looks at is cut: the object itself and the two that may stand in it.
fn cut_object(object: &mut Value, full: &Config, layers: usize, experts: usize) {
    let Value::Object(members) = object else {
        return;
    };
    for (key, value) in members {
        match key.as_str() {
            "text_config" | "linear_attn_config" => cut_object(value, full, layers, experts),
            "num_hidden_layers" => *value = layers.into(),
            "num_experts" => *value = experts.into(),
            "num_experts_per_token" => *value = full.moe.top_k.min(experts).into(),
            "first_k_dense_replace" => *value = full.dense_layers.min(layers).into(),
            "full_attn_layers" | "kda_layers" => {
                if let Value::Array(list) = value {
                    list.retain(|layer| layer.as_u64().is_some_and(|layer| layer <= layers as u64));
                }
            }
            _ => {}
        }
    }
}
