//! Checkpoints through the public surface of the library: real files, written, opened, checked and read.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use std::fs;
use std::path::Path;

use common::{
    config, edit, model, nested, open, oracle, put_together, refusal, replace, shard, synth,
};
use k3::checkpoint::names::{self, ExpertPart};
use k3::checkpoint::synth::SynthOptions;
use k3::checkpoint::{Checkpoint, Config, Dtype, ExpertAt};
use serde_json::{Value, json};

fn bf16(value: f32) -> [u8; 2] {
    ((value.to_bits() >> 16) as u16).to_le_bytes()
}

#[test]
fn a_synthetic_checkpoint_is_what_its_config_says() {
    for (config, shards, ignored) in [(config(), 6, 0), (nested(), 8, 168)] {
        let dir = tempfile::tempdir().unwrap();
        let report = synth(dir.path(), &config, SynthOptions::default()).unwrap();
        let checkpoint = open(dir.path()).unwrap();
        checkpoint.check(5).unwrap();
        let layers = 3 * 20 + 2 * 14 + 3 + 4 * 8;
        assert_eq!(checkpoint.tensor_count(), layers + 5 + 4 * 4 * 6 + ignored);
        assert_eq!(checkpoint.tensor_count(), report.tensors);
        assert_eq!(
            (checkpoint.ignored_count(), checkpoint.shard_count()),
            (ignored, shards)
        );
        assert_eq!(report.shards, usize::from(shards));
        assert_eq!(checkpoint.missing_shards().0, 0);
        let sum: u64 = fs::read_dir(dir.path())
            .unwrap()
            .map(|item| item.unwrap().metadata().unwrap().len())
            .sum();
        assert_eq!(sum, report.bytes, "and nothing else is in the folder");

        let conv = checkpoint
            .tensor(&names::in_layer(2, names::K_CONV))
            .unwrap();
        assert_eq!(
            (conv.dims(), conv.dtype, conv.bytes),
            (&[24, 1, 3][..], Dtype::F32, 288)
        );
        assert!(
            checkpoint
                .shard_path(conv.shard)
                .to_str()
                .unwrap()
                .ends_with(&format!("model-00003-of-{shards:06}.safetensors"))
        );
        let norm = checkpoint.tensor(names::FINAL_NORM).unwrap();
        assert_eq!(
            (norm.dims(), norm.dtype, norm.shard),
            (&[40][..], Dtype::Bf16, 5)
        );
    }
}

/// Experts lie in one run, in the order of the release, and each tensor's values depend on its name alone.
#[test]
fn experts_are_one_run_of_their_six_tensors() {
    let dir = model();
    let checkpoint = open(dir.path()).unwrap();
    let layout = checkpoint.expert_layout().clone();
    assert_eq!(layout.bytes(), 3 * (32 * 64 / 2 + 32 * 64 / 32));
    let (header, data) = common::take_apart(&shard(dir.path(), 3));
    let base = fs::metadata(shard(dir.path(), 3)).unwrap().len() - data.len() as u64;
    for expert in 0..4 {
        let place = checkpoint.expert(2, expert).unwrap();
        let ExpertAt::Run { offset } = place.at else {
            panic!("not a run")
        };
        for part in ExpertPart::ALL {
            let entry = &header[&names::expert(2, expert, part)];
            assert_eq!(
                entry["data_offsets"][0].as_u64().unwrap(),
                offset + layout.part(part).offset - base
            );
        }
        let mut run = vec![0; layout.bytes() as usize];
        checkpoint.read(place.shard, offset, &mut run).unwrap();
        assert!(run == data[(offset - base) as usize..][..run.len()]);
        let scales = &run[layout.part(ExpertPart::W1Scale).offset as usize..][..64 * 32 / 32];
        assert!(
            scales.iter().all(|scale| (120..=127).contains(scale)),
            "{scales:?}"
        );
    }
    assert!(checkpoint.expert(0, 0).is_err(), "layer 0 is dense");
    assert!(checkpoint.expert(2, 4).is_err());
}

#[test]
fn seeds_and_cuts_keep_what_they_do_not_change() {
    let (whole, cut, other) = (
        model(),
        tempfile::tempdir().unwrap(),
        tempfile::tempdir().unwrap(),
    );
    let options = SynthOptions {
        layers: Some(4),
        experts: Some(1),
        ..Default::default()
    };
    synth(cut.path(), &nested(), options).unwrap();
    synth(
        other.path(),
        &config(),
        SynthOptions {
            seed: 1,
            ..Default::default()
        },
    )
    .unwrap();
    let (whole, cut, other) = (
        open(whole.path()).unwrap(),
        open(cut.path()).unwrap(),
        open(other.path()).unwrap(),
    );
    cut.check(4).unwrap();
    let config = cut.config();
    assert_eq!(
        (config.layers(), config.moe.experts, config.moe.top_k),
        (4, 1, 1)
    );
    assert!(config.vision && cut.ignored_count() == 168);
    for name in [
        names::in_layer(1, names::A_LOG),
        names::in_layer(3, names::KV_A_NORM),
        names::EMBEDDING.to_owned(),
    ] {
        assert_eq!(whole.vector(&name).unwrap(), cut.vector(&name).unwrap());
        assert_ne!(whole.vector(&name).unwrap(), other.vector(&name).unwrap());
    }
    let log_rates = whole.vector(&names::in_layer(1, names::A_LOG)).unwrap();
    assert!(log_rates[..3].iter().all(|&rate| rate > 0.0) && log_rates[3..] == [0.0; 5]);
}

#[test]
fn cuts_that_leave_no_model_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refuse = |options| {
        synth(dir.path(), &nested(), options)
            .unwrap_err()
            .to_string()
    };
    let layers = |n| {
        refuse(SynthOptions {
            layers: Some(n),
            ..Default::default()
        })
    };
    assert!(layers(3).contains("no full-attention layer; the first is layer 4: keep at least 4"));
    assert!(layers(0).contains("allows 1 to 5") && layers(6).contains("allows 1 to 5"));
    let experts = |n| {
        refuse(SynthOptions {
            experts: Some(n),
            ..Default::default()
        })
    };
    assert!(experts(0).contains("allows 1 to 4") && experts(5).contains("allows 1 to 4"));
    let mut narrow = config();
    narrow["moe_intermediate_size"] = json!(48);
    let message = synth(dir.path(), &narrow, SynthOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("moe_intermediate_size 48 is not a multiple of 32"),
        "{message}"
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_folder_with_another_model_is_left_alone() {
    let dir = model();
    let message = synth(dir.path(), &config(), SynthOptions::default())
        .unwrap_err()
        .to_string();
    assert!(message.contains(".safetensors already"), "{message}");
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), "{}").unwrap();
    assert!(
        synth(dir.path(), &config(), SynthOptions::default())
            .unwrap_err()
            .to_string()
            .contains("config.json")
    );
    assert_eq!(fs::read(dir.path().join("config.json")).unwrap(), b"{}");
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(synth(&file, &config(), SynthOptions::default()).is_err());
}

/// The full shape of a large model in holes: it opens and checks like a real one, reads as zeros, and space is
/// reckoned by what is allocated. Without the holes the same model is refused, since no disk is that large.
#[test]
fn sparse_checkpoints_take_little_space() {
    let mut large = nested();
    large["text_config"]["vocab_size"] = json!(1u64 << 31);
    large["text_config"]["hidden_size"] = json!(1 << 20);
    let dir = tempfile::tempdir().unwrap();
    let full = synth(dir.path(), &large, SynthOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        full.contains("too full") && full.contains("GB needed") && full.contains("GB free"),
        "{full}"
    );

    // Files of this length are beyond what some file systems can hold; a terabyte is not.
    large["text_config"]["vocab_size"] = json!(1 << 18);
    large["text_config"]["hidden_size"] = json!(1 << 20);
    let report = synth(
        dir.path(),
        &large,
        SynthOptions {
            sparse: true,
            ..Default::default()
        },
    )
    .unwrap();
    assert!(
        report.bytes > 1 << 40 && report.allocated < 1 << 20,
        "{report:?}"
    );
    let checkpoint = open(dir.path()).unwrap();
    checkpoint.check(5).unwrap();
    assert!(checkpoint.bytes() > 1 << 40);
    assert_eq!(
        checkpoint
            .vector(&names::in_layer(0, names::O_NORM))
            .unwrap(),
        [0.0; 8]
    );
}

/// Faults T1 to T4 of a whole file, and the untouched control.
#[test]
fn damaged_shards_are_refused() {
    let dir = model();
    let path = shard(dir.path(), 2);
    let whole = fs::read(&path).unwrap();
    open(dir.path()).unwrap().check(5).unwrap();

    let damage = |bytes: &[u8]| {
        fs::write(&path, bytes).unwrap();
        let message = open(dir.path()).err().unwrap().to_string();
        assert!(
            message.contains("model-00002-of-000006.safetensors: "),
            "{message}"
        );
        message
    };
    assert!(damage(&whole[..4]).contains("too few for a header's length"));
    assert!(damage(&[]).contains("0 bytes are too few"));
    let mut endless = whole.clone();
    endless[..8].fill(0xff);
    assert!(damage(&endless).contains("states a header of 18446744073709551615 bytes"));
    let mut list = whole.clone();
    list[8] = b'[';
    assert!(damage(&list).contains("does not begin with '{'"));
    let header_len = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    assert!(
        damage(&whole[..8 + header_len]).contains("holds only 0 bytes of data: it is incomplete")
    );
    assert!(damage(&whole[..whole.len() - 1]).contains("it is incomplete"));
    assert!(damage(&whole[..100]).contains("it was cut off"));
    assert!(damage(&[&whole[..], b"x"].concat()).contains("1 bytes follow the last tensor"));

    fs::write(&path, &whole).unwrap();
    open(dir.path()).unwrap().check(5).unwrap();
}

#[test]
fn a_name_twice_is_refused_in_one_header_and_across_shards() {
    let dir = model();
    let entry = |name: &str, at: usize| {
        format!(
            "\"{name}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[{at},{}]}}",
            at + 1
        )
    };
    for name in [
        "language_model.x",
        "x",
        &names::expert(1, 0, ExpertPart::W1Packed),
    ] {
        let header = format!("{{{},{}}}", entry(name, 0), entry(name, 1));
        put_together(
            &dir.path().join("x.safetensors"),
            header.as_bytes(),
            &[0; 2],
        );
        let message = open(dir.path()).err().unwrap().to_string();
        assert!(message.contains(name), "{message}");
    }
    for name in [
        names::FINAL_NORM.to_owned(),
        names::expert(3, 1, ExpertPart::W3Scale),
    ] {
        put_together(
            &dir.path().join("x.safetensors"),
            format!("{{{}}}", entry(&name, 0)).as_bytes(),
            &[0],
        );
        let message = open(dir.path()).err().unwrap().to_string();
        assert!(
            message.contains("x.safetensors: ") && message.contains("is here and in model-0000"),
            "{message}"
        );
    }
    // Names that nobody reads count as well, and so does a copy of a whole shard.
    put_together(
        &dir.path().join("x.safetensors"),
        format!("{{{}}}", entry("vision_tower.a", 0)).as_bytes(),
        &[0],
    );
    open(dir.path()).unwrap();
    fs::copy(
        dir.path().join("x.safetensors"),
        dir.path().join("y.safetensors"),
    )
    .unwrap();
    assert!(
        open(dir.path())
            .err()
            .unwrap()
            .to_string()
            .contains("y.safetensors: tensor \"vision_tower.a\"")
    );
}

#[test]
fn tensors_that_nobody_reads_are_ignored_under_any_prefix() {
    let dir = model();
    let before = open(dir.path()).unwrap();
    let names = [
        "vision_tower.a",
        "language_model.mm_projector.b",
        "x.vision_tower.c",
        "extra",
        &names::expert(9, 0, ExpertPart::W1Packed),
    ];
    let header: Vec<String> = names
        .iter()
        .map(|name| {
            format!("\"{name}\":{{\"dtype\":\"F16\",\"shape\":[0],\"data_offsets\":[0,0]}}")
        })
        .collect();
    put_together(
        &dir.path().join("x.safetensors"),
        format!("{{{}}}", header.join(",")).as_bytes(),
        &[],
    );
    let checkpoint = open(dir.path()).unwrap();
    checkpoint.check(5).unwrap();
    assert_eq!(checkpoint.ignored_count(), 5);
    assert_eq!(checkpoint.tensor_count(), before.tensor_count() + 5);
    assert!(checkpoint.tensor("vision_tower.a").is_err());
    assert_ne!(checkpoint.identity(), before.identity());
}

/// Shapes are compared, not numbers of elements, and each kind of tensor has its own allowed types.
#[test]
fn shapes_and_types_are_compared() {
    let dir = model();
    let path = shard(dir.path(), 2);
    let whole = fs::read(&path).unwrap();
    let q_proj = names::in_layer(1, names::Q_PROJ);
    let conv = names::in_layer(1, names::Q_CONV);
    let norm = names::in_layer(1, names::INPUT_NORM);
    let scale = names::expert(1, 2, ExpertPart::W2Scale);
    for (name, dtype, shape, wanted) in [
        (
            &q_proj,
            "BF16",
            &[40, 24][..],
            "has shape [40, 24], config.json gives [24, 40]",
        ),
        (
            &q_proj,
            "BF16",
            &[960],
            "has shape [960], config.json gives [24, 40]",
        ),
        (&q_proj, "BF16", &[24, 40, 1], "has shape [24, 40, 1]"),
        (&q_proj, "F32", &[24, 40], "is F32, must be BF16"),
        (&q_proj, "F16", &[24, 40], "is F16, must be BF16"),
        (
            &conv,
            "F32",
            &[24, 3],
            "has shape [24, 3], config.json gives [24, 1, 3]",
        ),
        (&conv, "F16", &[24, 1, 3], "is F16, must be BF16 or F32"),
        (&norm, "U8", &[40], "is U8, must be BF16 or F32"),
        (&norm, "BF16", &[1, 40], "has shape [1, 40]"),
        (&norm, "BF16", &[], "has shape []"),
        (
            &scale,
            "U8",
            &[2, 32],
            "is U8 [2, 32], config.json gives U8 [32, 2]",
        ),
        (
            &scale,
            "F16",
            &[32, 2],
            "is F16 [32, 2], config.json gives U8 [32, 2]",
        ),
    ] {
        let size = match dtype {
            "U8" => 1,
            "F32" => 4,
            _ => 2,
        };
        replace(
            &path,
            name,
            dtype,
            shape,
            &vec![0; shape.iter().product::<usize>() * size],
        );
        let message = refusal(dir.path());
        assert!(
            message.contains(name.as_str()) && message.contains(wanted),
            "{name} {dtype} {shape:?}: {message}"
        );
        assert!(
            message.starts_with(&format!("{}: ", dir.path().display())),
            "{message}"
        );
        open(dir.path()).unwrap().check(1).unwrap();
        assert!(
            open(dir.path())
                .unwrap()
                .check(6)
                .unwrap_err()
                .to_string()
                .contains("6 layers were asked for")
        );
        fs::write(&path, &whole).unwrap();
    }
    assert!(open(dir.path()).unwrap().expert(1, 2).is_ok());
}

/// The small vectors may be BF16 or F32, each one for itself.
#[test]
fn small_vectors_are_read_from_both_types() {
    let dir = model();
    let path = shard(dir.path(), 2);
    let values: Vec<f32> = (0..40).map(|n| 0.5 - n as f32 / 8.0).collect();
    let narrow: Vec<u8> = values.iter().flat_map(|&value| bf16(value)).collect();
    let wide: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    let whole = fs::read(&path).unwrap();
    for (dtype, bytes) in [("BF16", narrow), ("F32", wide)] {
        for suffix in [names::POST_NORM, names::MLP_RES_PROJ] {
            let name = names::in_layer(1, suffix);
            let shape = if suffix == names::POST_NORM {
                vec![40]
            } else {
                vec![1, 40]
            };
            replace(&path, &name, dtype, &shape, &bytes);
            let checkpoint = open(dir.path()).unwrap();
            checkpoint.check(5).unwrap();
            assert_eq!(checkpoint.vector(&name).unwrap(), values);
            fs::write(&path, &whole).unwrap();
        }
    }
    let checkpoint = open(dir.path()).unwrap();
    let packed = names::in_layer(1, names::ROUTER_BIAS);
    assert_eq!(checkpoint.vector(&packed).unwrap().len(), 4);
}

/// `A_log` holds one value a head, padded with zeros. Values in the padding mean another model.
#[test]
fn the_padding_of_a_log_must_be_zero() {
    let dir = model();
    let name = names::in_layer(1, names::A_LOG);
    let mut values = [0.5f32; 8];
    let bytes = |values: &[f32]| {
        values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    replace(&shard(dir.path(), 2), &name, "F32", &[8], &bytes(&values));
    assert!(refusal(dir.path()).contains(&format!("{name} is not zero after its first 3 values")));
    edit(&shard(dir.path(), 2), |header, data| {
        values[3..].fill(0.0);
        let at = header[&name]["data_offsets"][0].as_u64().unwrap() as usize;
        data[at..at + 32].copy_from_slice(&bytes(&values));
    });
    open(dir.path()).unwrap().check(5).unwrap();
    edit(&shard(dir.path(), 2), |header, data| {
        let at = header[&name]["data_offsets"][0].as_u64().unwrap() as usize;
        data[at + 28..at + 32].copy_from_slice(&f32::NAN.to_le_bytes());
    });
    assert!(refusal(dir.path()).contains("is not zero"));
}

/// Experts in another order, or apart, are found and read into the same six parts.
#[test]
fn experts_in_another_order_are_found() {
    let dir = model();
    let path = shard(dir.path(), 2);
    let before = open(dir.path()).unwrap();
    let ExpertAt::Run { offset } = before.expert(1, 1).unwrap().at else {
        panic!("not a run")
    };
    let layout = before.expert_layout().clone();
    let mut run = vec![0; layout.bytes() as usize];
    before.read(1, offset, &mut run).unwrap();
    // Move w1's scales to the end of the file.
    let name = names::expert(1, 1, ExpertPart::W1Scale);
    let scale = layout.part(ExpertPart::W1Scale);
    let (from, to) = (scale.offset as usize, (scale.offset + scale.bytes) as usize);
    replace(
        &path,
        &name,
        "U8",
        &[scale.rows, scale.cols],
        &run[from..to],
    );

    let checkpoint = open(dir.path()).unwrap();
    checkpoint.check(5).unwrap();
    let place = checkpoint.expert(1, 1).unwrap();
    let ExpertAt::Parts { offsets } = place.at else {
        panic!("still a run")
    };
    let mut parts = vec![0; layout.bytes() as usize];
    for part in ExpertPart::ALL {
        let to = layout.part(part);
        let buf = &mut parts[to.offset as usize..(to.offset + to.bytes) as usize];
        checkpoint
            .read(place.shard, offsets[part as usize], buf)
            .unwrap();
    }
    assert!(parts == run);
    assert!(matches!(
        checkpoint.expert(1, 0).unwrap().at,
        ExpertAt::Run { .. }
    ));
    assert!(matches!(
        checkpoint.expert(1, 2).unwrap().at,
        ExpertAt::Run { .. }
    ));
}

#[test]
fn an_expert_must_be_in_one_shard() {
    let dir = model();
    let name = names::expert(1, 1, ExpertPart::W2Packed);
    edit(&shard(dir.path(), 2), |header, _| {
        let old = header.remove(&name).unwrap();
        header.insert("vision_tower.old".to_owned(), old);
    });
    let message = refusal(dir.path());
    assert!(message.contains(&format!("{name} is missing")), "{message}");
    assert!(
        open(dir.path())
            .unwrap()
            .expert(1, 1)
            .unwrap_err()
            .to_string()
            .contains(&name)
    );
    let header =
        format!("{{\"{name}\":{{\"dtype\":\"U8\",\"shape\":[32,32],\"data_offsets\":[0,1024]}}}}");
    put_together(
        &dir.path().join("x.safetensors"),
        header.as_bytes(),
        &[0; 1024],
    );
    let message = open(dir.path()).err().unwrap().to_string();
    assert!(
        message.contains("an expert must be in one shard") && message.contains("model-00002"),
        "{message}"
    );
}

/// The four reasons for a missing tensor.
#[test]
fn missing_tensors_are_explained() {
    let dir = model();
    let index = dir.path().join("model.safetensors.index.json");
    fs::remove_file(shard(dir.path(), 3)).unwrap();
    let checkpoint = open(dir.path()).unwrap();
    assert_eq!(
        checkpoint.missing_shards(),
        (1, vec!["model-00003-of-000006.safetensors".to_owned()])
    );
    checkpoint.check(2).unwrap();
    let name = names::in_layer(2, names::B_PROJ);

    let message = checkpoint.check(5).unwrap_err().to_string();
    assert!(
        message.contains("the index names model-00003-of-000006.safetensors, which is not here"),
        "{message}"
    );
    // Twenty-eight tensors and four experts.
    assert_eq!(message.matches("is missing").count(), 32, "{message}");
    let message = checkpoint.tensor(&name).unwrap_err().to_string();
    assert!(
        message.contains(&format!("{name} is missing")) && message.contains("incomplete"),
        "{message}"
    );

    for (text, wanted) in [
        ("{\"weight_map\": 3}", "cannot be used"),
        ("{\"metadata\": {}}", "no weight_map"),
        ("{\"weight_map\": {\"a\"", "cannot be used"),
    ] {
        fs::write(&index, text).unwrap();
        let message = checkpoint.tensor(&name).unwrap_err().to_string();
        assert!(
            message.contains(wanted) && message.contains("model-00003-of-000006.safetensors"),
            "{message}"
        );
    }
    fs::remove_file(&index).unwrap();
    let message = checkpoint.tensor(&name).unwrap_err().to_string();
    assert!(
        message.contains("there is no model.safetensors.index.json"),
        "{message}"
    );
    assert!(
        message.contains("by their numbers model-00003-of-000006.safetensors should be here"),
        "{message}"
    );

    let map = |value: Value| fs::write(&index, json!({"weight_map": value}).to_string()).unwrap();
    map(json!({name.as_str(): "model-00002-of-000006.safetensors"}));
    let message = checkpoint.tensor(&name).unwrap_err().to_string();
    assert!(
        message
            .contains("in model-00002-of-000006.safetensors, which is here but does not hold them"),
        "{message}"
    );
    map(json!({}));
    let message = checkpoint.tensor(&name).unwrap_err().to_string();
    assert!(
        message.contains(&format!("the index does not list {name}")),
        "{message}"
    );
}

#[test]
fn missing_shards_are_listed_up_to_four() {
    let dir = tempfile::tempdir().unwrap();
    synth(dir.path(), &nested(), SynthOptions::default()).unwrap();
    for number in [1, 3, 4, 5, 6, 8] {
        fs::remove_file(
            dir.path()
                .join(format!("model-{number:05}-of-000008.safetensors")),
        )
        .unwrap();
    }
    fs::remove_file(dir.path().join("model.safetensors.index.json")).unwrap();
    // No numbers, and numbers that no set of shards has.
    let one = dir.path().join("model-00002-of-000008.safetensors");
    fs::copy(&one, dir.path().join("spare")).unwrap();
    for name in [
        "extra-x-of-3.safetensors",
        "plain.safetensors",
        "big-00001-of-999999999999999.safetensors",
    ] {
        put_together(&dir.path().join(name), b"{}", &[]);
    }
    let checkpoint = open(dir.path()).unwrap();
    let (count, listed) = checkpoint.missing_shards();
    assert_eq!((count, listed.len()), (6 + 999_999_999_999_998, 4));
    assert_eq!(listed[0], "big-00002-of-999999999999999.safetensors");
    let message = checkpoint.check(5).unwrap_err().to_string();
    assert!(
        message.contains("\n  and ") && message.matches("is missing").count() == 32,
        "{message}"
    );
}

#[test]
fn identity_follows_config_names_sizes_and_headers() {
    let dir = model();
    let of = |dir: &Path| open(dir).unwrap().identity();
    let base = of(dir.path());
    assert_eq!(base, of(dir.path()));
    assert_eq!(base, of(model().path()));
    // Another layout of the same config.json is the same model; another constant is not.
    let config_path = dir.path().join("config.json");
    let mut text = nested();
    text.as_object_mut().unwrap().remove("vision_config");
    text["bos_token_id"] = json!(7);
    fs::write(&config_path, text.to_string()).unwrap();
    assert_eq!(base, of(dir.path()));
    text["text_config"]["situ_beta"] = json!(3.5);
    fs::write(&config_path, text.to_string()).unwrap();
    assert_ne!(base, of(dir.path()));
    fs::write(&config_path, config().to_string()).unwrap();

    let mut without_eps = Config::load(&config_path).unwrap();
    without_eps.mla.lora_norm_eps = 1e-5;
    assert_ne!(
        base,
        Checkpoint::open(dir.path(), without_eps)
            .unwrap()
            .identity()
    );

    fs::rename(shard(dir.path(), 6), dir.path().join("other.safetensors")).unwrap();
    assert_ne!(base, of(dir.path()));
    fs::rename(dir.path().join("other.safetensors"), shard(dir.path(), 6)).unwrap();
    edit(&shard(dir.path(), 6), |header, _| {
        drop(header.remove("__metadata__"))
    });
    assert_ne!(base, of(dir.path()));
}

/// A model whose folder has a space in its name beside one that differs by what comes after the space.
#[test]
fn a_path_with_a_space_is_one_path() {
    let dir = tempfile::tempdir().unwrap();
    let (mine, decoy) = (dir.path().join("my model"), dir.path().join("my"));
    synth(&mine, &config(), SynthOptions::default()).unwrap();
    synth(&decoy, &nested(), SynthOptions::default()).unwrap();
    let checkpoint = open(&mine).unwrap();
    assert_eq!(checkpoint.shard_count(), 6);
    assert_eq!(checkpoint.dir(), mine);
    fs::remove_file(shard(&mine, 1)).unwrap();
    assert!(refusal(&mine).contains("my model: "));
}

#[test]
fn official_models_open_and_pass_the_check() {
    let Some(oracle) = oracle("official_models_open_and_pass_the_check") else {
        return;
    };
    for model in ["A", "B", "E"] {
        let dir = oracle.join("official").join(model);
        let config = Config::load(&dir.join("config.json")).unwrap();
        let layers = config.layers();
        let checkpoint = Checkpoint::open(&dir, config).unwrap();
        checkpoint.check(layers).unwrap();
    }
}

/// Synthetic shards hold the very tensors, types and shapes that the official models' shards hold.
#[test]
fn synthetic_shards_hold_what_official_ones_hold() {
    let Some(oracle) = oracle("synthetic_shards_hold_what_official_ones_hold") else {
        return;
    };
    for model in ["A", "B", "E"] {
        let official = oracle.join("official").join(model);
        let mut config: Value =
            serde_json::from_slice(&fs::read(official.join("config.json")).unwrap()).unwrap();
        config.as_object_mut().unwrap().remove("vision_config");
        let dir = tempfile::tempdir().unwrap();
        synth(
            dir.path(),
            &config,
            SynthOptions {
                sparse: true,
                ..Default::default()
            },
        )
        .unwrap();
        let tensors = |dir: &Path| {
            let mut all = Vec::new();
            for item in fs::read_dir(dir).unwrap() {
                let path = item.unwrap().path();
                if path
                    .extension()
                    .is_some_and(|extension| extension == "safetensors")
                {
                    let header = common::take_apart(&path).0;
                    all.extend(header.into_iter().map(|(name, entry)| {
                        format!("{name} {} {}", entry["dtype"], entry["shape"])
                    }));
                }
            }
            all.sort_unstable();
            all.retain(|line| !line.starts_with("__metadata__"));
            all
        };
        let (theirs, ours) = (tensors(&official), tensors(dir.path()));
        assert_eq!(theirs.len(), ours.len(), "{model}");
        let differing: Vec<(String, String)> = theirs
            .into_iter()
            .zip(ours)
            .filter(|(a, b)| a != b)
            .collect();
        assert!(
            differing.is_empty(),
            "{model}: {:?}",
            &differing[..differing.len().min(5)]
        );
    }
}

/// Every tensor of the two fixture shards, bit for bit, read through the public surface.
#[test]
fn fixture_shards_are_read_bit_for_bit() {
    let Some(oracle) = oracle("fixture_shards_are_read_bit_for_bit") else {
        return;
    };
    let dir = oracle.join("upstream/st");
    let shards = k3::checkpoint::shards::Shards::open(&dir).unwrap();
    assert_eq!(shards.count(), 2);
    let mut seen = Vec::new();
    for number in 0..2 {
        let path = shards.path(number);
        let whole = fs::read(path).unwrap();
        let len = k3::checkpoint::header::length(
            path,
            whole[..8].try_into().unwrap(),
            shards.len(number),
        )
        .unwrap();
        let (header, data) = (&whole[8..8 + len], &whole[8 + len..]);
        k3::checkpoint::header::parse(path, header, data.len() as u64, |entry| {
            let mut bytes = vec![0; entry.bytes as usize];
            shards
                .read(number, (8 + len) as u64 + entry.start, &mut bytes)
                .unwrap();
            assert!(bytes == data[entry.start as usize..][..bytes.len()]);
            seen.push(format!(
                "{} {} {:?}",
                entry.name,
                entry.dtype,
                entry.shape.dims()
            ));
            Ok(())
        })
        .unwrap();
    }
    assert_eq!(seen.len(), 13);
    for wanted in [
        "plain.f32.2d F32 [16, 16]",
        "plain.bf16.1d BF16 [128]",
        "tricky.f16.1d F16 [64]",
        "packed.u8.2d U8 [7, 32]",
        "scalar.f32 F32 []",
        "empty.f32 F32 [0, 8]",
        "rank4.u8 U8 [2, 2, 2, 2]",
        "weird\\name.\"with\"quotes F32 [3]",
    ] {
        assert!(seen.iter().any(|line| line == wanted), "{wanted}: {seen:?}");
    }
}
