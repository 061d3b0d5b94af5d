//! Packed trunks, ours and the C engine's: the same bits as from the shards, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(unix)]

mod support;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assert_cmd::Command;
use k3::checkpoint::{Checkpoint, layout, names};
use k3::kernels::Isa;
use k3::model::{Blueprint, Compute, Network};
use k3::stream::pack::{self, Checked, Pack, Packed};
use k3::stream::{Error, TrunkPlan, open_with_pack};
use serde_json::{Value, json};
use support::checkpoint;
use support::models::{Model, models, outcome, plainest};
use support::packs::{quiet, write, write_c_engine};
use tempfile::TempDir;

/// A fixture and its pack of ours.
fn packed(fixture: &str) -> (Arc<Checkpoint>, TempDir) {
    let checkpoint = checkpoint(&support::fixtures().join(fixture));
    let out = tempfile::tempdir().unwrap();
    assert!(matches!(
        write(&checkpoint, out.path()),
        Ok(Packed::Written { kept: 0, .. })
    ));
    (checkpoint, out)
}

/// A fixture and its pack of the C engine's kind.
fn c_engine(fixture: &str) -> (Arc<Checkpoint>, TempDir) {
    let checkpoint = checkpoint(&support::fixtures().join(fixture));
    let out = tempfile::tempdir().unwrap();
    write_c_engine(&checkpoint, out.path(), true);
    (checkpoint, out)
}

/// A copy of a checkpoint whose shards have zeros in place of every tensor of the trunk that `packed` names. Headers are
/// not touched, so it is the same checkpoint by its identity.
fn hollow(model: &Model, packed: impl Fn(&str) -> bool) -> (Arc<Checkpoint>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    for item in fs::read_dir(model.folder()).unwrap() {
        let item = item.unwrap();
        fs::copy(item.path(), folder.path().join(item.file_name())).unwrap();
    }
    let config = model.checkpoint.config();
    for entry in layout::trunk(config, config.layers()) {
        if packed(&entry.name) {
            let tensor = model.checkpoint.tensor(&entry.name).unwrap();
            let shard = model.checkpoint.shard_path(tensor.shard);
            let shard = folder.path().join(shard.file_name().unwrap());
            let shard = fs::File::options().write(true).open(shard).unwrap();
            let zeros = vec![0; tensor.bytes as usize];
            shard.write_all_at(&zeros, tensor.offset).unwrap();
        }
    }
    (checkpoint(folder.path()), folder)
}

/// A network whose trunk comes from a pack.
fn over(checkpoint: &Arc<Checkpoint>, pack: &Path, plan: &TrunkPlan) -> Network {
    let blueprint = Blueprint::new(checkpoint.config().clone(), usize::MAX);
    let files = open_with_pack(checkpoint, pack).unwrap();
    let compute = Compute::new(2, Isa::detect()).unwrap();
    Network::over_files(checkpoint, files, blueprint, plan, 4, compute).unwrap()
}

/// From packs, pinned and streamed through rings, over shards in which the packed weights are gone: so they are read from
/// the pack and nowhere else.
#[test]
fn the_same_bits_from_shards_and_from_both_kinds_of_pack() {
    for model in models() {
        let want = plainest(&model);
        let ours = tempfile::tempdir().unwrap();
        write(&model.checkpoint, ours.path()).unwrap();
        let theirs = tempfile::tempdir().unwrap();
        write_c_engine(&model.checkpoint, theirs.path(), true);
        let (all_but_rows, _ours) = hollow(&model, |name| name != names::EMBEDDING);
        // The C engine's pack is recognised by one vector a layer.
        let (layers, _theirs) = hollow(&model, |name| {
            names::is_in_layer(name) && !name.ends_with("input_layernorm.weight")
        });
        let walk = model.blueprint().walk;
        let plans = [(1000, 2, 5), (300, 4, 2), (1 << 30, 4, 3), (5000, 1, 1)];
        let plans = plans.map(|(segment_bytes, ring_slots, every)| TrunkPlan {
            segment_bytes,
            pinned: (0..walk.segments(segment_bytes).len())
                .map(|i| i % every == 1)
                .collect(),
            ring_slots,
        });
        for plan in plans.iter().chain([&TrunkPlan::resident(&walk)]) {
            for (kind, checkpoint, pack) in [
                ("ours", &all_but_rows, &ours),
                ("the C engine's", &layers, &theirs),
            ] {
                let mut network = over(checkpoint, pack.path(), plan);
                let got = outcome(&mut network, &model.prompt, 17);
                assert!(got == want, "{}: {kind}", model.name);
            }
        }
    }
}

/// A pack is of all layers; a run of the first ones reads its parts of it.
#[test]
fn the_first_layers_run_from_a_pack_of_all() {
    let (checkpoint, pack) = packed("tiny-a");
    let blueprint = Blueprint::new(checkpoint.config().clone(), 2);
    let plan = TrunkPlan::resident(&blueprint.walk);
    let compute = || Compute::new(2, Isa::detect()).unwrap();
    let mut want = Network::open(&checkpoint, 2, compute()).unwrap();
    let files = open_with_pack(&checkpoint, pack.path()).unwrap();
    let mut got = Network::over_files(&checkpoint, files, blueprint, &plan, 4, compute()).unwrap();
    assert!(outcome(&mut got, &[1, 2, 3], 3) == outcome(&mut want, &[1, 2, 3], 3));
}

/// Stops after so many segments.
fn cut(checkpoint: &Checkpoint, out: &Path, segments: usize) {
    let walk = Blueprint::new(checkpoint.config().clone(), usize::MAX).walk;
    let mut written = 0;
    let mut progress = |what: &'static str, _, _| {
        written += usize::from(what == "packed");
        written < segments
    };
    let done = pack::write(checkpoint, &walk, out, &mut progress).unwrap();
    assert_eq!(done, Packed::Interrupted);
}

#[test]
fn packing_goes_on_after_a_cut_and_keeps_what_is_right() {
    let (checkpoint, whole) = packed("tiny-a");
    let manifest = json_of(&whole.path().join("pack.json"));
    let size = manifest["segment_bytes"].as_u64().unwrap();
    let count = manifest["sha256"].as_array().unwrap().len();
    assert!(
        count >= 4,
        "the fixture is too small for this test: {count}"
    );
    let want = fs::read(whole.path().join("trunk.bin")).unwrap();
    // Untouched; the second of three damaged; the last torn; the hashes' last line torn; another model's hashes.
    for (fault, kept) in [
        ("none", 3),
        ("byte", 1),
        ("torn", 2),
        ("hash", 2),
        ("stranger", 0),
        ("renamed", 3),
    ] {
        let out = tempfile::tempdir().unwrap();
        cut(&checkpoint, out.path(), 3);
        let error = Pack::open(out.path(), &checkpoint).err().unwrap();
        assert!(
            error.to_string().contains("holds no packed trunk"),
            "{error}"
        );
        let partial = out.path().join("trunk.bin.partial");
        let sums = out.path().join("trunk.bin.sums");
        let file = fs::File::options().write(true).open(&partial).unwrap();
        match fault {
            "byte" => {
                let byte = [want[size as usize + 5] ^ 1];
                file.write_all_at(&byte, size + 5).unwrap();
            }
            "torn" => file.set_len(3 * size - 1).unwrap(),
            "hash" => {
                let text = fs::read_to_string(&sums).unwrap();
                fs::write(&sums, &text[..text.len() - 9]).unwrap();
            }
            "stranger" => {
                let text = fs::read_to_string(&sums).unwrap();
                fs::write(&sums, format!("0{}", &text[1..])).unwrap();
                assert_ne!(text.as_bytes()[0], b'0', "choose another digit");
            }
            "renamed" => fs::rename(&partial, out.path().join("trunk.bin")).unwrap(),
            _ => {}
        }
        drop(file);
        let done = write(&checkpoint, out.path()).unwrap();
        let bytes = want.len() as u64;
        let kept = kept * size;
        assert_eq!(done, Packed::Written { bytes, kept }, "{fault}");
        assert!(fs::read(out.path().join("trunk.bin")).unwrap() == want);
        assert_eq!(json_of(&out.path().join("pack.json")), manifest);
        let mut left: Vec<_> = fs::read_dir(out.path())
            .unwrap()
            .map(|item| item.unwrap().file_name())
            .collect();
        left.sort();
        assert_eq!(left, ["pack.json", "trunk.bin"], "{fault}");
    }
}

#[test]
fn only_one_process_packs_into_a_folder() {
    let (checkpoint, _) = packed("tiny-a");
    let out = tempfile::tempdir().unwrap();
    let walk = Blueprint::new(checkpoint.config().clone(), usize::MAX).walk;
    let mut second = None;
    let mut progress = |_: &'static str, _, _| {
        second.get_or_insert_with(|| write(&checkpoint, out.path()).unwrap_err().to_string());
        true
    };
    pack::write(&checkpoint, &walk, out.path(), &mut progress).unwrap();
    let message = second.unwrap();
    assert!(
        message.contains("another k3 pack is writing it"),
        "{message}"
    );
    assert!(matches!(
        write(&checkpoint, out.path()),
        Ok(Packed::WasThere(_))
    ));
}

#[test]
fn a_pack_of_another_checkpoint_is_refused() {
    let (a, pack_a) = packed("tiny-a");
    let b = checkpoint(&support::fixtures().join("tiny-b"));
    let error = Pack::open(pack_a.path(), &b).err().unwrap().to_string();
    assert!(
        error.contains("pack.json") && error.contains("another checkpoint"),
        "{error}"
    );
    let error = write(&b, pack_a.path()).unwrap_err().to_string();
    assert!(error.contains("another checkpoint"), "{error}");
    assert!(matches!(write(&a, pack_a.path()), Ok(Packed::WasThere(_))));

    // The same shapes and other weights, as a tuned model has: the C engine's manifest does not name its checkpoint.
    let (a, theirs) = c_engine("tiny-a");
    let bin = theirs.path().join("trunk.bin");
    let manifest = json_of(&theirs.path().join("trunk.json"));
    let norm = &manifest["layers"][1]["tensors"][&names::in_layer(1, names::INPUT_NORM)];
    let at = manifest["layers"][1]["file_off"].as_u64().unwrap() + norm["off"].as_u64().unwrap();
    flip(&bin, at);
    let error = Pack::open(theirs.path(), &a).err().unwrap().to_string();
    assert!(
        error.contains("trunk.bin") && error.contains("another model"),
        "{error}"
    );
    let error = Pack::open(theirs.path(), &b).err().unwrap().to_string();
    assert!(error.contains("trunk.json"), "{error}");
}

fn flip(path: &Path, at: u64) {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

#[test]
fn every_damaged_byte_is_found_by_the_check() {
    for (checkpoint, pack) in [packed("tiny-a"), c_engine("tiny-a")] {
        let right = pack::check(pack.path(), &checkpoint, &mut quiet).unwrap();
        assert!(matches!(right, Checked::Right(bytes) if bytes > 0));
        let bin = pack.path().join("trunk.bin");
        // The middle of the last layer's last tensor is no padding in either.
        let manifest = pack.path().join("trunk.json");
        let last = if manifest.exists() {
            let manifest = json_of(&manifest);
            let run = manifest["layers"]
                .as_array()
                .unwrap()
                .last()
                .unwrap()
                .clone();
            let parts = run["tensors"].as_object().unwrap().values();
            let ends = parts.map(|p| p["off"].as_u64().unwrap() + p["nbytes"].as_u64().unwrap());
            run["file_off"].as_u64().unwrap() + ends.max().unwrap() - 1
        } else {
            fs::metadata(&bin).unwrap().len() - 1
        };
        for at in [1, last / 2, last] {
            // In the C engine's pack byte 1 may be of the vector by which it is recognised.
            flip(&bin, at);
            match pack::check(pack.path(), &checkpoint, &mut quiet) {
                Err(Error::Damaged { path, .. }) => assert_eq!(path, bin),
                Err(Error::Pack { path, .. }) => assert_eq!(path, bin),
                // Padding between two layers is no weight.
                Ok(_) if manifest.exists() && at == last / 2 => {}
                other => panic!("byte {at}: {other:?}"),
            }
            flip(&bin, at);
        }
        assert_eq!(
            pack::check(pack.path(), &checkpoint, &mut quiet).unwrap(),
            right
        );
    }
}

#[test]
fn a_file_of_weights_that_was_cut_is_refused() {
    for (checkpoint, pack) in [packed("tiny-a"), c_engine("tiny-a")] {
        let bin = pack.path().join("trunk.bin");
        let len = fs::metadata(&bin).unwrap().len();
        for cut in [len - 1, len / 2, 0] {
            let file = fs::File::options().write(true).open(&bin).unwrap();
            file.set_len(cut).unwrap();
            let error = Pack::open(pack.path(), &checkpoint).err().unwrap();
            let message = error.to_string();
            assert!(
                message.contains("it was cut") && message.contains("trunk."),
                "{message}"
            );
        }
        fs::remove_file(&bin).unwrap();
        let error = Pack::open(pack.path(), &checkpoint).err().unwrap();
        assert!(error.to_string().contains("trunk.bin"), "{error}");
    }
}

fn json_of(path: &Path) -> Value {
    support::json(path)
}

/// A manifest after `change`, and what is said of it.
fn refusal(kind: &str, change: impl Fn(&mut Value) -> Option<String>) -> String {
    let ((checkpoint, pack), file) = match kind {
        "ours" => (packed("tiny-a"), "pack.json"),
        _ => (c_engine("tiny-a"), "trunk.json"),
    };
    let path = pack.path().join(file);
    let mut manifest = json_of(&path);
    let text = change(&mut manifest).unwrap_or_else(|| manifest.to_string());
    fs::write(&path, text).unwrap();
    let error = Pack::open(pack.path(), &checkpoint).err();
    let message = error.expect("a fault was not seen").to_string();
    assert!(message.contains(file), "{message}");
    message
}

#[test]
fn faults_of_the_c_engines_manifest_are_refused() {
    type Change = fn(&mut Value) -> Option<String>;
    let name = |layer| names::in_layer(layer, names::POST_NORM);
    let first = name(0);
    let part = move |manifest: &mut Value, field: &str, value: Value| {
        manifest["layers"][0]["tensors"][&first][field] = value;
        None
    };
    let run = |manifest: &mut Value, field: &str, value: Value| {
        manifest["layers"][1][field] = value;
        None::<String>
    };
    let plain: [(&str, Change); 13] = [
        ("missing field `layers`", |m| {
            m.as_object_mut().unwrap().remove("layers");
            None
        }),
        ("expected a sequence", |m| {
            m["layers"] = json!({});
            None
        }),
        ("n_layers is 2", |m| {
            m["n_layers"] = json!(2);
            None
        }),
        ("align is 0", |m| {
            m["align"] = json!(0);
            None
        }),
        ("layer 7 stands where layer 1 should", |m| {
            m["layers"][1]["layer"] = json!(7);
            None
        }),
        ("an object of tensors", |m| {
            m["layers"][1]["tensors"] = json!([]);
            None
        }),
        // Lossless blocks of a derived container: read plainly they would be noise.
        ("unknown field `stored_nbytes`", |m| {
            m["layers"][1]["stored_nbytes"] = json!(5);
            None
        }),
        ("is missing", |m| {
            m["layers"][1]["tensors"] = json!({});
            None
        }),
        ("stands in layer 1", |m| {
            let other = m["layers"][0]["tensors"].clone();
            m["layers"][1]["tensors"] = other;
            None
        }),
        ("not a manifest", |m| Some(m.to_string().split_off(1))),
        ("not a manifest", |_| Some(String::new())),
        ("trailing characters", |m| Some(format!("{m} {m}"))),
        ("is given twice", |m| {
            let name = names::in_layer(0, names::POST_NORM);
            let part = m["layers"][0]["tensors"][&name].to_string();
            let text = m.to_string();
            let at = text.find("\"tensors\":{").unwrap() + "\"tensors\":{".len();
            Some(format!("{}\"{name}\":{part},{}", &text[..at], &text[at..]))
        }),
    ];
    for (want, change) in plain {
        let message = refusal("theirs", change);
        assert!(message.contains(want), "{want}: {message}");
    }
    for (field, value) in [
        ("file_off", json!(-1)),
        ("file_off", json!(u64::MAX)),
        ("file_off", json!(1.5)),
        ("file_off", json!("0")),
        ("nbytes", json!(-4096)),
        ("nbytes", json!(u64::MAX)),
        ("nbytes", json!(1_u64 << 53)),
    ] {
        refusal("theirs", |m| run(m, field, value.clone()));
    }
    for (field, value) in [
        ("off", json!(-1)),
        ("off", json!(u64::MAX)),
        ("nbytes", json!(-2)),
        ("nbytes", json!(u64::MAX)),
        ("nbytes", json!(2)),
        ("dtype", json!("I8R")),
        ("dtype", json!("F32")),
        ("dtype", json!(16)),
        ("shape", json!([1, 1])),
        ("shape", json!([-1])),
    ] {
        refusal("theirs", |m| part(m, field, value.clone()));
    }
}

#[test]
fn faults_of_our_manifest_are_refused() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 10] = [
        ("version 2", |m| m["version"] = json!(2)),
        ("another format", |m| m["format"] = json!("another format")),
        ("unknown field", |m| m["more"] = json!(1)),
        ("another checkpoint", |m| m["identity"] = json!("00")),
        ("segments of 100 bytes", |m| m["segment_bytes"] = json!(100)),
        ("segments of 0 bytes", |m| m["segment_bytes"] = json!(0)),
        ("hashes, there must be", |m| {
            m["sha256"].as_array_mut().unwrap().pop();
        }),
        ("begins at byte 8", |m| m["tensors"][0]["offset"] = json!(8)),
        ("bytes", |m| m["tensors"][0]["bytes"] = json!(u64::MAX)),
        ("another model", |m| m["tensors"][0]["dtype"] = json!("F16")),
    ];
    for (want, change) in changes {
        let message = refusal("ours", |m| {
            change(m);
            None
        });
        assert!(message.contains(want), "{want}: {message}");
    }
    // A tensor that the pack should have and has not ends the opening of the trunk, not a pass.
    let (checkpoint, pack) = packed("tiny-a");
    let path = pack.path().join("pack.json");
    let mut manifest = json_of(&path);
    let tensors = manifest["tensors"].as_array_mut().unwrap();
    let second = tensors[1]["name"].clone();
    tensors[1]["name"] = tensors[0]["name"].clone();
    fs::write(&path, manifest.to_string()).unwrap();
    let error = Pack::open(pack.path(), &checkpoint)
        .err()
        .unwrap()
        .to_string();
    let twice = error.contains("twice") || error.contains("another model");
    assert!(twice, "{second}: {error}");
}

/// Report 12: an empty list of layers read the element before the first.
#[test]
fn report_12_an_empty_list_of_layers_is_refused() {
    let message = refusal("theirs", |m| {
        m["layers"] = json!([]);
        m["n_layers"] = json!(0);
        None
    });
    assert!(message.contains("it has no layers"), "{message}");
}

/// Report 33: runs whose length was not rounded to whole blocks ended in "short read on layer N" on small models. Report 32:
/// nor need they begin on one.
#[test]
fn report_33_runs_that_are_no_whole_blocks_are_read() {
    for model in models() {
        let pack = tempfile::tempdir().unwrap();
        write_c_engine(&model.checkpoint, pack.path(), false);
        let len = fs::metadata(pack.path().join("trunk.bin")).unwrap().len();
        assert!(!len.is_multiple_of(4096), "{}", model.name);
        let walk = model.blueprint().walk;
        let plan = TrunkPlan {
            segment_bytes: 3000,
            pinned: vec![false; walk.segments(3000).len()],
            ring_slots: 3,
        };
        let mut network = over(&model.checkpoint, pack.path(), &plan);
        let got = outcome(&mut network, &model.prompt, 17);
        assert!(got == plainest(&model), "{}", model.name);
    }
}

#[test]
fn what_is_not_ours_is_not_overwritten() {
    let (checkpoint, theirs) = c_engine("tiny-a");
    let before = fs::read(theirs.path().join("trunk.bin")).unwrap();
    let error = write(&checkpoint, theirs.path()).unwrap_err().to_string();
    assert!(error.contains("trunk.json: is there already"), "{error}");
    fs::remove_file(theirs.path().join("trunk.json")).unwrap();
    let error = write(&checkpoint, theirs.path()).unwrap_err().to_string();
    assert!(error.contains("trunk.bin: is there already"), "{error}");
    assert!(fs::read(theirs.path().join("trunk.bin")).unwrap() == before);
    // Two manifests and one file of weights.
    let (checkpoint, ours) = packed("tiny-a");
    fs::write(ours.path().join("trunk.json"), "{}").unwrap();
    let error = Pack::open(ours.path(), &checkpoint).err().unwrap();
    assert!(
        error.to_string().contains("pack.json and trunk.json"),
        "{error}"
    );
}

/// A drive of 4 MiB, for as long as it lives.
struct SmallDrive(TempDir);

impl SmallDrive {
    /// None where the system does not let this process mount one.
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
            .arg(dir.path())
            .output();
        mounted
            .is_ok_and(|output| output.status.success())
            .then_some(Self(dir))
    }
}

impl Drop for SmallDrive {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg(self.0.path())
            .output();
    }
}

#[test]
fn a_full_drive_is_refused_before_anything_is_written() {
    let Some(drive) = SmallDrive::new() else {
        println!(
            "a full drive: NOT RUN, no small one can be mounted (space.rs tests the comparison)"
        );
        return;
    };
    let checkpoint = checkpoint(&support::fixtures().join("tiny-a"));
    let out = drive.0.path().join("pack");
    let error = write(&checkpoint, &out).unwrap_err();
    assert!(matches!(error, Error::Pack { .. }));
    let message = error.to_string();
    assert!(message.contains("the drive is too full"), "{message}");
    let partial = fs::metadata(out.join("trunk.bin.partial")).unwrap();
    assert_eq!(partial.len(), 0);
}

fn k3(arguments: &[&Path]) -> (i32, String, String) {
    let output = Command::cargo_bin("k3").unwrap().args(arguments).output();
    let output = output.unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn the_command_packs_checks_and_its_pack_is_run() {
    let flag = Path::new;
    let model: PathBuf = support::fixtures().join("tiny-a");
    let out = tempfile::tempdir().unwrap();
    let out = out.path().join("new folder");
    let (code, said, progress) = k3(&[flag("pack"), &model, &out]);
    assert_eq!((code, said.as_str()), (0, ""), "{progress}");
    assert!(progress.contains("packed ") && progress.contains("written and checked"));
    let (code, _, progress) = k3(&[flag("pack"), &model, &out]);
    assert!(
        code == 0 && progress.contains("was whole already"),
        "{progress}"
    );

    let run = [
        flag("run"),
        &model,
        flag("--ids"),
        flag("1,2,3"),
        flag("--trunk-gb"),
        flag("0"),
    ];
    let (code, want, _) = k3(&run);
    assert_eq!(code, 0);
    let with_pack: Vec<&Path> = run.into_iter().chain([flag("--trunk"), &out]).collect();
    let (code, got, error) = k3(&with_pack);
    assert_eq!((code, &got), (0, &want), "{error}");
    let (code, _, error) = k3(&[flag("plan"), &model, flag("--trunk"), &out]);
    assert_eq!(code, 0, "{error}");

    let other = support::fixtures().join("tiny-b");
    for command in [
        vec![
            flag("run"),
            &other,
            flag("--ids"),
            flag("1"),
            flag("--trunk"),
            &out,
        ],
        vec![flag("plan"), &other, flag("--trunk"), &out],
        vec![flag("pack"), &other, &out],
        vec![
            flag("run"),
            &model,
            flag("--ids"),
            flag("1"),
            flag("--trunk"),
            &model,
        ],
    ] {
        let (code, _, error) = k3(&command);
        assert_eq!(code, 2, "{error}");
    }

    let check = [flag("pack"), &model, &out, flag("--check")];
    let (code, _, progress) = k3(&check);
    assert!(code == 0 && progress.contains("are right"), "{progress}");
    flip(&out.join("trunk.bin"), 70_000);
    let (code, _, error) = k3(&check);
    assert_eq!(code, 1);
    assert!(
        error.contains("trunk.bin: segment ") && error.contains("run k3 pack again"),
        "{error}"
    );
}
