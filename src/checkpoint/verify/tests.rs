//! Each kind of damage, one at a time, to a synthetic checkpoint.

use std::path::PathBuf;

use super::*;
use crate::checkpoint::synth::{self, SynthOptions};

/// A checkpoint of two layers whose experts are wide enough for samples.
fn model(sparse: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let config = serde_json::json!({
        "hidden_size": 40, "num_hidden_layers": 2, "vocab_size": 50, "rms_norm_eps": 1e-5,
        "kda_num_heads": 3, "kda_head_dim": 8, "short_conv_kernel_size": 3, "gate_lower_bound": -4.0,
        "num_attention_heads": 2, "q_lora_rank": 12, "kv_lora_rank": 10, "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 4, "v_head_dim": 5, "num_experts": 2, "num_experts_per_token": 2,
        "num_shared_experts": 1, "routed_expert_hidden_size": 256, "moe_intermediate_size": 1024,
        "routed_scaling_factor": 1.5, "first_k_dense_replace": 1, "intermediate_size": 28,
        "attn_res_block_size": 2, "situ_beta": 3.0, "situ_linear_beta": 20.0,
        "full_attn_layers": [2], "kda_layers": [1],
    });
    let options = SynthOptions {
        sparse,
        ..SynthOptions::default()
    };
    synth::write(dir.path(), config.to_string().as_bytes(), options).unwrap();
    dir
}

/// The shard with the experts: the largest.
fn largest(dir: &Path) -> PathBuf {
    let paths = shards::names(dir).unwrap().into_iter();
    let paths = paths.map(|name| dir.join(name));
    paths
        .max_by_key(|path| fs::metadata(path).unwrap().len())
        .unwrap()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The only fault.
fn fault(dir: &Path) -> Fault {
    let mut faults = examine(dir).unwrap().faults;
    assert_eq!(faults.len(), 1, "{faults:#?}");
    faults.remove(0)
}

#[test]
fn a_whole_checkpoint_has_no_faults_and_is_counted() {
    let dir = model(false);
    let examined = examine(dir.path()).unwrap();
    assert_eq!(examined.faults, []);
    assert_eq!((examined.notes.len(), examined.missing.len()), (0, 0));
    let config = Config::load(&dir.path().join("config.json")).unwrap();
    let checkpoint = Checkpoint::open(dir.path(), config).unwrap();
    assert_eq!(examined.tensors, checkpoint.tensor_count());
    assert_eq!(examined.bytes, checkpoint.bytes());
    assert_eq!(examined.shards, usize::from(checkpoint.shard_count()));
}

#[test]
fn a_missing_shard_is_named_by_the_index_or_by_the_numbers() {
    let dir = model(false);
    let gone = largest(dir.path());
    fs::remove_file(&gone).unwrap();
    let one = fault(dir.path());
    assert_eq!((one.file, one.remedy), (name(&gone), FETCH));
    fs::remove_file(dir.path().join(INDEX_FILE)).unwrap();
    let examined = examine(dir.path()).unwrap();
    assert_eq!(examined.missing, [name(&gone)]);
    assert!(
        examined.notes[0].contains("numbers"),
        "{:?}",
        examined.notes
    );
}

#[test]
fn what_stands_in_place_of_a_shard_is_told() {
    for (content, word) in [
        (
            &b"version https://git-lfs.github.com/spec/v1\nsize 5\n"[..],
            "Git LFS pointer",
        ),
        (b"<!doctype html>", "web page"),
        (&[0; 9000], "zeros"),
        (b"", "empty"),
        (b"abc", "too few"),
        (&[0xff; 100], "not a valid safetensors file"),
    ] {
        let dir = model(false);
        let shard = largest(dir.path());
        fs::write(&shard, content).unwrap();
        let fault = fault(dir.path());
        assert_eq!((&fault.file, fault.remedy), (&name(&shard), AGAIN));
        assert!(fault.problem.contains(word), "{fault}");
    }
}

#[test]
fn a_shard_that_was_cut_is_named() {
    let dir = model(false);
    let shard = largest(dir.path());
    let file = fs::File::options().write(true).open(&shard).unwrap();
    let len = file.metadata().unwrap().len();
    for left in [len - 1, len / 2, 200] {
        file.set_len(left).unwrap();
        assert_eq!(fault(dir.path()).file, name(&shard), "{left}");
    }
}

#[test]
fn a_part_that_was_never_written_is_found() {
    let dir = model(false);
    let shard = largest(dir.path());
    let mut bytes = fs::read(&shard).unwrap();
    let from = bytes.len() / 2;
    bytes[from..].fill(0);
    fs::write(&shard, bytes).unwrap();
    let fault = fault(dir.path());
    assert!(fault.problem.contains("never written"), "{fault}");
    // The full shape in holes has no weights at all.
    let sparse = model(true);
    let faults = examine(sparse.path()).unwrap().faults;
    let zeros = faults.iter().find(|fault| fault.file == name(&shard));
    let words: Vec<&str> = zeros.unwrap().problem.split(' ').collect();
    assert_eq!(words[..5], ["holds", "nothing", "but", "zeros", "in"]);
    assert!(words[5] == words[7] && words[5] != "0", "{words:?}");
}

#[test]
fn a_shard_of_another_revision_is_told_from_a_damaged_one() {
    let dir = model(false);
    let index = dir.path().join(INDEX_FILE);
    let text = fs::read_to_string(&index).unwrap();
    // The index knows a name that the shard has not, and not one that it has.
    fs::write(
        &index,
        text.replace("experts.0.w1.weight_packed", "experts.0.w9.weight_packed"),
    )
    .unwrap();
    let faults = examine(dir.path()).unwrap().faults;
    let said: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("holds language_model") && said[0].contains("one revision"));
    assert!(said[1].contains("does not hold") && said[1].contains("w9"));

    fs::write(&index, &text).unwrap();
    fs::copy(largest(dir.path()), dir.path().join("stray.safetensors")).unwrap();
    let one = fault(dir.path());
    assert!(
        one.file == "stray.safetensors" && one.remedy.contains("move it"),
        "{one}"
    );
}

#[test]
fn an_index_that_is_no_index_and_a_wrong_total_are_faults() {
    let dir = model(false);
    let index = dir.path().join(INDEX_FILE);
    let text = fs::read_to_string(&index).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["metadata"]["total_size"] = 7.into();
    fs::write(&index, value.to_string()).unwrap();
    assert!(fault(dir.path()).problem.contains("states 7 bytes"));
    fs::write(&index, "{\"weight_map\": 5}").unwrap();
    assert_eq!(fault(dir.path()).file, INDEX_FILE);
    fs::write(&index, "<html>").unwrap();
    assert!(fault(dir.path()).problem.contains("web page"));
}

#[test]
fn a_missing_or_useless_configuration_is_a_fault() {
    let dir = model(false);
    let config = dir.path().join("config.json");
    fs::write(&config, "{}").unwrap();
    assert_eq!(fault(dir.path()).file, "config.json");
    fs::remove_file(&config).unwrap();
    assert!(fault(dir.path()).problem.contains("is not here"));
    let empty = tempfile::tempdir().unwrap();
    let faults = examine(empty.path()).unwrap().faults;
    assert!(faults[0].problem.contains("no *.safetensors"), "{faults:?}");
    assert!(examine(&empty.path().join("none")).is_err());
}
