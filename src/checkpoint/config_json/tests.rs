//! Every refusal of a `config.json`, and what the good ones mean.

use serde_json::{Value, json};

use super::*;

fn flat() -> Value {
    json!({
        "hidden_size": 128, "num_hidden_layers": 13, "vocab_size": 256, "rms_norm_eps": 1e-5,
        "kda_num_heads": 4, "kda_head_dim": 16, "short_conv_kernel_size": 4, "gate_lower_bound": -5.0,
        "num_attention_heads": 4, "q_lora_rank": 64, "kv_lora_rank": 32, "qk_nope_head_dim": 24,
        "qk_rope_head_dim": 8, "v_head_dim": 16, "mla_use_output_gate": true,
        "num_experts": 8, "num_experts_per_token": 2, "num_shared_experts": 2,
        "routed_expert_hidden_size": 64, "moe_intermediate_size": 48, "routed_scaling_factor": 1.0,
        "moe_renormalize": true, "latent_moe_use_norm": true, "first_k_dense_replace": 1,
        "intermediate_size": 96, "attn_res_block_size": 3, "situ_beta": 4.0, "situ_linear_beta": 25.0,
        "full_attn_layers": [4, 8, 12, 13],
    })
}

fn nested() -> Value {
    let Value::Object(mut text) = flat() else {
        unreachable!()
    };
    let mut linear =
        json!({"kda_layers": [1, 2, 3, 5, 6, 7, 9, 10, 11], "use_full_rank_gate": true});
    for (from, to) in [
        ("kda_num_heads", "num_heads"),
        ("kda_head_dim", "head_dim"),
        ("short_conv_kernel_size", "short_conv_kernel_size"),
        ("gate_lower_bound", "gate_lower_bound"),
        ("full_attn_layers", "full_attn_layers"),
    ] {
        linear[to] = text.remove(from).unwrap();
    }
    for (from, to) in [
        ("situ_beta", "activation_situ_beta"),
        ("situ_linear_beta", "activation_situ_linear_beta"),
    ] {
        let value = text.remove(from).unwrap();
        text.insert(to.to_owned(), value);
    }
    text.insert("linear_attn_config".to_owned(), linear);
    text.insert("num_key_value_heads".to_owned(), json!(4));
    text.insert("quantization_config".to_owned(), quantization());
    json!({"model_type": "kimi_k3", "text_config": text})
}

fn quantization() -> Value {
    json!({
        "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized",
        "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
            "num_bits": 4, "group_size": 32, "type": "float", "symmetric": true, "strategy": "group"}}}
    })
}

fn parse(value: &Value) -> Result<Config, Vec<String>> {
    Config::parse(value.to_string().as_bytes(), Path::new("dir/config.json")).map_err(|error| {
        assert!(
            error.to_string().starts_with("dir/config.json: "),
            "{error}"
        );
        match error {
            Error::Config { problems, .. } => problems,
            other => panic!("{other}"),
        }
    })
}

/// Parses the flat configuration with one key changed (or removed, when the value is `None`).
fn with(key: &str, value: Option<Value>) -> Result<Config, Vec<String>> {
    let mut config = flat();
    let members = config.as_object_mut().unwrap();
    match value {
        Some(value) => members.insert(key.to_owned(), value),
        None => members.remove(key),
    };
    parse(&config)
}

/// The one problem that a changed key causes.
fn problem(key: &str, value: Value) -> String {
    let shown = value.to_string();
    let problems = with(key, Some(value))
        .err()
        .unwrap_or_else(|| panic!("{key} {shown} is accepted"));
    assert_eq!(problems.len(), 1, "{key} {shown}: {problems:?}");
    problems.into_iter().next().unwrap()
}

#[test]
fn nested_and_flat_mean_the_same() {
    let config = parse(&flat()).unwrap();
    assert_eq!(config, parse(&nested()).unwrap());
    assert_eq!(
        (config.hidden, config.vocab, config.layers(), config.block),
        (128, 256, 13, 3)
    );
    assert_eq!(
        (
            config.kda.heads,
            config.kda.head_dim,
            config.kda.conv_kernel
        ),
        (4, 16, 4)
    );
    assert_eq!(
        (config.mla.q_rank, config.mla.kv_rank, config.mla.nope_dim),
        (64, 32, 24)
    );
    assert_eq!(
        (config.mla.heads, config.mla.rope_dim, config.mla.v_dim),
        (4, 8, 16)
    );
    assert_eq!(
        (config.moe.experts, config.moe.top_k, config.moe.shared),
        (8, 2, 2)
    );
    assert_eq!((config.moe.latent, config.moe.inner), (64, 48));
    assert_eq!((config.dense_layers, config.dense_inner), (1, 96));
    assert_eq!((config.situ.beta, config.situ.linear_beta), (4.0, 25.0));
    assert_eq!(
        (
            config.norm_eps,
            config.mla.lora_norm_eps,
            config.kda.gate_lower_bound
        ),
        (1e-5, 1e-6, -5.0)
    );
    let full: Vec<usize> = (0..13)
        .filter(|&layer| config.attention[layer] == Attention::Mla)
        .collect();
    assert_eq!(full, [3, 7, 11, 12]);
    assert!(!config.vision && config.max_positions.is_none() && config.eos.is_none());
}

/// The linear-attention object may stand at the root beside a `text_config`, too.
#[test]
fn the_linear_attention_object_may_stand_at_the_root() {
    let mut config = nested();
    let linear = config["text_config"]
        .as_object_mut()
        .unwrap()
        .remove("linear_attn_config")
        .unwrap();
    config["linear_attn_config"] = linear;
    assert_eq!(parse(&config).unwrap(), parse(&flat()).unwrap());
}

const OPTIONAL: [&str; 3] = [
    "mla_use_output_gate",
    "moe_renormalize",
    "latent_moe_use_norm",
];

#[test]
fn every_missing_key_is_named_at_once() {
    let keys: Vec<String> = flat().as_object().unwrap().keys().cloned().collect();
    let required: Vec<&String> = keys
        .iter()
        .filter(|key| !OPTIONAL.contains(&key.as_str()))
        .collect();
    assert_eq!(required.len(), 26);
    let problems = parse(&json!({})).unwrap_err();
    assert_eq!(problems.len(), 26, "{problems:?}");
    for key in required {
        let of_key =
            |problem: &&String| problem.contains(key.as_str()) && problem.ends_with("is missing");
        assert!(
            problems.iter().any(|problem| of_key(&problem)),
            "{key}: {problems:?}"
        );
        let alone = with(key, None).unwrap_err();
        assert!(
            alone.len() == 1 && alone.iter().any(|problem| of_key(&problem)),
            "{key}: {alone:?}"
        );
    }
}

#[test]
fn wrong_types_are_refused() {
    for (key, value) in flat().as_object().unwrap() {
        for wrong in [json!("7"), json!(null), json!({}), json!([true])] {
            assert!(problem(key, wrong).contains(key.as_str()), "{key}");
        }
        let by_type = match value {
            Value::Bool(_) => vec![json!(1), json!(0.0)],
            Value::Array(_) => vec![
                json!(4),
                json!(true),
                json!([4, 8, "12", 13]),
                json!([4, 8.0, 13]),
            ],
            Value::Number(number) if number.is_f64() => {
                vec![json!(true), json!(1e39), json!(-1e39)]
            }
            _ => vec![
                json!(true),
                json!(1.0),
                json!(1.5),
                json!(-1),
                json!(1e30),
                json!(u64::MAX),
            ],
        };
        for wrong in by_type {
            let shown = wrong.to_string();
            let found = with(key, Some(wrong))
                .err()
                .unwrap_or_else(|| panic!("{key} {shown} is accepted"));
            assert!(
                found.iter().any(|problem| problem.contains(key.as_str())),
                "{key} {shown}: {found:?}"
            );
        }
    }
}

#[test]
fn sizes_must_be_above_zero_except_two() {
    for (key, value) in flat().as_object().unwrap() {
        if !value.is_u64() {
            continue;
        }
        if ["qk_rope_head_dim", "first_k_dense_replace"].contains(&key.as_str()) {
            assert!(with(key, Some(json!(0))).is_ok(), "{key}");
        } else {
            assert!(problem(key, json!(0)).contains("at least 1"), "{key}");
        }
    }
}

#[test]
fn floats_must_make_sense() {
    for key in ["rms_norm_eps", "situ_beta", "situ_linear_beta"] {
        for wrong in [json!(0), json!(-1.0), json!(1e-60)] {
            assert!(problem(key, wrong).contains("above 0"), "{key}");
        }
    }
    assert!(problem("gate_lower_bound", json!(0)).contains("below 0"));
    assert_eq!(
        with("gate_lower_bound", Some(json!(-3)))
            .unwrap()
            .kda
            .gate_lower_bound,
        -3.0
    );
    assert_eq!(
        with("routed_scaling_factor", Some(json!(2.5)))
            .unwrap()
            .moe
            .scaling,
        2.5
    );
}

#[test]
fn switches_are_on_when_the_file_is_silent() {
    let mut config = flat();
    for key in OPTIONAL {
        config.as_object_mut().unwrap().remove(key);
        assert!(with(key, Some(json!(false))).is_ok());
    }
    assert_eq!(parse(&config).unwrap(), parse(&flat()).unwrap());
    assert!(
        !with("mla_use_output_gate", Some(json!(false)))
            .unwrap()
            .mla
            .output_gate
    );
    assert!(
        !with("moe_renormalize", Some(json!(false)))
            .unwrap()
            .moe
            .renormalize
    );
    assert!(
        !with("latent_moe_use_norm", Some(json!(false)))
            .unwrap()
            .moe
            .latent_norm
    );
}

#[test]
fn the_layer_map_is_checked() {
    let map = |list: Value| problem("full_attn_layers", list);
    assert!(map(json!([])).contains("empty"));
    assert!(map(json!([0, 4])).contains("holds 0, outside 1 to 13"));
    assert!(map(json!([4, 14])).contains("holds 14, outside 1 to 13"));
    assert!(map(json!([4, -8])).contains("holds -8"));
    assert!(map(json!([4, 4])).contains("once"));
    assert!(map(json!([8, 4])).contains("ascend"));
    assert!(map(json!((1..=13).collect::<Vec<_>>())).contains("leaves no KDA layer"));
    let mut config = flat();
    config["num_hidden_layers"] = json!(300);
    config["full_attn_layers"] = json!((1..=128).collect::<Vec<_>>());
    assert!(parse(&config).is_ok());
    config["full_attn_layers"] = json!((1..=129).collect::<Vec<_>>());
    assert!(parse(&config).unwrap_err()[0].contains("more than 128"));
}

#[test]
fn kda_layers_must_be_the_exact_complement() {
    let with_kda = |list: Value| {
        let mut config = nested();
        config["text_config"]["linear_attn_config"]["kda_layers"] = list;
        parse(&config)
    };
    assert!(with_kda(json!(null)).is_ok());
    for wrong in [
        json!([1, 2, 3, 5, 6, 7, 9, 10]),
        json!([1, 2, 3, 4, 5, 6, 7, 9, 10, 11]),
        json!([0, 1, 2, 4, 5, 6, 8, 9, 10]),
        json!([]),
        json!("all"),
    ] {
        assert!(with_kda(wrong).unwrap_err()[0].contains("kda_layers"));
    }
}

#[test]
fn relations_between_sizes_are_checked() {
    assert!(problem("num_experts_per_token", json!(9)).contains("num_experts_per_token 9"));
    let mut config = flat();
    config["num_experts"] = json!(100);
    config["num_experts_per_token"] = json!(64);
    assert!(parse(&config).is_ok());
    config["num_experts_per_token"] = json!(65);
    assert!(parse(&config).unwrap_err()[0].contains("than 64"));
    assert!(problem("kda_num_heads", json!(17)).contains("A_log"));
    assert!(problem("first_k_dense_replace", json!(14)).contains("first_k_dense_replace 14"));
    assert!(problem("num_experts", json!(1 << 20)).contains("num_experts 1048576"));
    assert!(problem("num_hidden_layers", json!(1u64 << 40)).contains("num_hidden_layers"));
}

/// Whatever sizes are large together, they are refused before a product of them can wrap around.
#[test]
fn products_that_overflow_are_refused() {
    let large = json!((1u64 << 32) - 1);
    assert!(
        with("hidden_size", Some(large.clone())).is_ok(),
        "one alone overflows nothing"
    );
    for (key, value) in flat().as_object().unwrap() {
        assert!(!value.is_u64() || problem(key, json!(1u64 << 62)).contains("impossibly large"));
    }
    for pair in [
        ["hidden_size", "vocab_size"],
        ["hidden_size", "kda_head_dim"],
        ["kda_head_dim", "short_conv_kernel_size"],
        ["hidden_size", "q_lora_rank"],
        ["hidden_size", "kv_lora_rank"],
        ["hidden_size", "qk_rope_head_dim"],
        ["q_lora_rank", "num_attention_heads"],
        ["q_lora_rank", "qk_nope_head_dim"],
        ["q_lora_rank", "qk_rope_head_dim"],
        ["kv_lora_rank", "v_head_dim"],
        ["kv_lora_rank", "num_attention_heads"],
        ["hidden_size", "v_head_dim"],
        ["hidden_size", "intermediate_size"],
        ["hidden_size", "moe_intermediate_size"],
        ["hidden_size", "num_shared_experts"],
        ["moe_intermediate_size", "num_shared_experts"],
        ["hidden_size", "routed_expert_hidden_size"],
        ["routed_expert_hidden_size", "moe_intermediate_size"],
    ] {
        let mut config = flat();
        for key in pair {
            config[key] = large.clone();
        }
        let problems = parse(&config)
            .err()
            .unwrap_or_else(|| panic!("{pair:?} is accepted"));
        assert!(
            problems.iter().any(|problem| problem.contains("multiply")),
            "{problems:?}"
        );
    }
}

#[test]
fn another_architecture_is_refused() {
    for (key, wrong, right) in [
        ("hidden_act", json!("silu"), json!("situ")),
        ("mla_use_nope", json!(false), json!(true)),
        ("moe_layer_freq", json!(2), json!(1)),
        ("moe_layer_freq", json!(1.0), json!(null)),
        (
            "moe_router_activation_func",
            json!("softmax"),
            json!("sigmoid"),
        ),
        ("use_grouped_topk", json!(false), json!(true)),
        ("num_expert_group", json!(2), json!(1)),
        ("topk_group", json!(2), json!(1)),
        ("topk_method", json!("greedy"), json!("noaux_tc")),
        ("num_nextn_predict_layers", json!(1), json!(0)),
        ("tie_word_embeddings", json!(true), json!(false)),
        ("num_key_value_heads", json!(2), json!(4)),
        ("use_full_rank_gate", json!(false), json!(true)),
        ("quantization_config", json!("mxfp4"), quantization()),
    ] {
        assert!(problem(key, wrong.clone()).contains(key), "{key}");
        assert!(with(key, Some(right)).is_ok(), "{key}");
        let mut config = nested();
        config[key] = wrong;
        assert!(
            parse(&config).is_err(),
            "{key} at the root beside a text_config"
        );
    }
}

#[test]
fn another_quantisation_is_refused() {
    for (pointer, wrong) in [
        ("/format", json!("nvfp4-pack-quantized")),
        ("/quant_method", json!("gptq")),
        ("/config_groups", json!({})),
        ("/config_groups/group_0", json!(1)),
        ("/config_groups/group_0/weights", json!(null)),
        ("/config_groups/group_0/weights/num_bits", json!(8)),
        ("/config_groups/group_0/weights/group_size", json!(16)),
        ("/config_groups/group_0/weights/type", json!("int")),
        ("/config_groups/group_0/weights/symmetric", json!(false)),
        ("/config_groups/group_0/weights/strategy", json!("channel")),
    ] {
        let mut quantization = quantization();
        *quantization.pointer_mut(pointer).unwrap() = wrong;
        let last = pointer.rsplit('/').next().unwrap();
        assert!(
            problem("quantization_config", quantization).contains(last),
            "{pointer}"
        );
    }
}

#[test]
fn two_places_that_disagree_are_refused() {
    let mut config = nested();
    config["text_config"]["head_dim"] = json!(16);
    assert!(parse(&config).is_ok(), "the same value twice is no harm");
    config["text_config"]["head_dim"] = json!(74);
    let problems = parse(&config).unwrap_err();
    assert!(
        problems[0].contains("head_dim")
            && problems[0].contains("is 16 in one place and 74 in another")
    );
    let mut config = nested();
    config["full_attn_layers"] = json!([4, 8, 12]);
    assert!(parse(&config).unwrap_err()[0].contains("full_attn_layers"));
    assert!(problem("activation_situ_beta", json!(3.0)).contains("situ_beta"));
}

/// Token ids and the longest context are noted, never compared with the release.
#[test]
fn notes_are_read() {
    let mut config = nested();
    config["text_config"]["eos_token_id"] = json!(7);
    config["eos_token_id"] = json!(9);
    config["bos_token_id"] = json!(null);
    config["text_config"]["max_position_embeddings"] = json!(4096);
    config["vision_config"] = json!({});
    let config = parse(&config).unwrap();
    assert_eq!((config.bos, config.eos, config.pad), (None, Some(7), None));
    assert_eq!((config.max_positions, config.vision), (Some(4096), true));
    for wrong in [
        json!("7"),
        json!(-1),
        json!(1.5),
        json!(1u64 << 40),
        json!([1]),
    ] {
        assert!(problem("eos_token_id", wrong).contains("eos_token_id"));
    }
}

#[test]
fn what_is_not_a_configuration_is_refused() {
    let refuse = |text: &str| {
        Config::parse(text.as_bytes(), Path::new("dir/config.json"))
            .unwrap_err()
            .to_string()
    };
    assert!(refuse("").contains("not valid JSON"));
    assert!(refuse("{\"hidden_size\": 128,").contains("not valid JSON"));
    assert!(refuse("[1, 2]").contains("must be an object, is a list"));
    assert!(refuse("{\"hidden_size\": 1, \"hidden_size\": 2}").contains("given twice"));
    assert!(refuse("{\"text_config\": 3}").contains("text_config must be an object"));
    assert!(
        refuse("{\"linear_attn_config\": []}").contains("linear_attn_config must be an object")
    );
    assert!(refuse(&json!({"config": flat()}).to_string()).contains("hidden_size is missing"));
}

#[test]
fn files_that_cannot_be_read_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    let missing = Config::load(&path).unwrap_err();
    assert!(matches!(missing, Error::Io { .. }) && missing.to_string().contains("config.json"));
    assert!(matches!(Config::load(dir.path()), Err(Error::Io { .. })));
    std::fs::File::create(&path)
        .unwrap()
        .set_len((1 << 28) + 1)
        .unwrap();
    assert!(
        Config::load(&path)
            .unwrap_err()
            .to_string()
            .contains("256 MiB")
    );
    std::fs::write(&path, flat().to_string()).unwrap();
    assert_eq!(Config::load(&path).unwrap(), parse(&flat()).unwrap());
}

#[test]
fn configurations_from_elsewhere() {
    let Some(oracle) = std::env::var_os("K3_ORACLE").map(std::path::PathBuf::from) else {
        return println!("NOT RUN: needs K3_ORACLE");
    };
    let official = Config::load(&oracle.join("chat/official-config.json")).unwrap();
    assert_eq!(
        (official.layers(), official.hidden, official.moe.experts),
        (93, 7168, 896)
    );
    assert_eq!(
        (official.eos, official.max_positions, official.vision),
        (Some(163_586), Some(1 << 20), true)
    );
    for (file, wanted) in [
        ("no_layermap", "full_attn_layers is missing"),
        ("bad_layer_index", "holds 999, outside 1 to 13"),
        ("bad_topk", "num_experts_per_token 128"),
    ] {
        let path = oracle.join("upstream/cfg").join(format!("{file}.json"));
        let message = Config::load(&path).unwrap_err().to_string();
        assert!(
            message.contains(wanted) && message.contains(file),
            "{message}"
        );
    }
}
