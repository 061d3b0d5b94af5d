//! `k3 doctor`: what it finds out, that it is no failure when something is wrong, and that the drive is measured and not the
//! page cache.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use k3::stream::measure::{Case, EXPERT_BYTES, measure_direct};
use k3::stream::{DirectFile, ReadAt};
use serde_json::Value;
use tempfile::TempDir;

/// Large enough to be measured with.
const NOISE: usize = 80 << 20;

/// A file of bytes that no file system can pack.
fn noise(path: &Path, bytes: usize) {
    let mut file = fs::File::create(path).unwrap();
    let mut state = 1u64;
    let mut chunk = vec![0; 1 << 20];
    for _ in 0..bytes.div_ceil(chunk.len()) {
        for word in chunk.chunks_exact_mut(8) {
            // Marsaglia's xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes());
        }
        file.write_all(&chunk).unwrap();
    }
    file.sync_all().unwrap();
}

/// A copy of a fixture.
fn model() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("my model");
    fs::create_dir(&model).unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tiny-a");
    for item in fs::read_dir(fixture).unwrap() {
        let item = item.unwrap();
        fs::copy(item.path(), model.join(item.file_name())).unwrap();
    }
    (dir, model)
}

fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_k3"));
    let output = command
        .arg("doctor")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

/// The JSON of a doctor of these arguments, who measures nothing.
fn report(folder: &Path, arguments: &[&str]) -> Value {
    measured(folder, arguments, "0")
}

/// The JSON of a doctor of these arguments, who measures for so many seconds.
fn measured(folder: &Path, arguments: &[&str], seconds: &str) -> Value {
    let arguments = [arguments, &["--json", "--seconds", seconds]].concat();
    let (code, out, error) = run(folder, &arguments);
    assert_eq!(code, 0, "{error}");
    serde_json::from_str(&out).unwrap()
}

fn warns(report: &Value, word: &str) -> bool {
    let warnings = report["warnings"].as_array().unwrap();
    warnings.iter().any(|w| w.as_str().unwrap().contains(word))
}

#[test]
fn the_machine_alone_is_measured_with_the_sizes_of_the_release() {
    let dir = tempfile::tempdir().unwrap();
    noise(&dir.path().join("noise"), NOISE);
    // By far the largest file, and nothing of it on the drive: holes are not measured as a fast one.
    let sparse = fs::File::create(dir.path().join("sparse")).unwrap();
    sparse.set_len(10 << 30).unwrap();
    let report = measured(dir.path(), &[], "0.1");
    if cfg!(unix) {
        let file = report["drives"][0]["measured"]["file"].as_str().unwrap();
        assert_eq!(Path::new(file).file_name(), Some("noise".as_ref()));
    }
    let machine = &report["machine"];
    assert!(machine["cores"].as_u64().unwrap() > 0);
    assert!(
        machine["memory_bytes_per_s"].as_f64().unwrap() > 1e8,
        "{machine:#}"
    );
    assert!(
        machine["mxfp4_bytes_per_s"].as_f64().unwrap() > 1e6,
        "{machine:#}"
    );
    let rows = report["drives"][0]["measured"]["rows"].as_array().unwrap();
    let row = |pattern: &str| -> Vec<(u64, u64)> {
        let of = rows.iter().filter(|row| row["pattern"] == pattern);
        of.map(|row| {
            (
                row["in_flight"].as_u64().unwrap(),
                row["read_bytes"].as_u64().unwrap(),
            )
        })
        .collect()
    };
    let expert = EXPERT_BYTES as u64;
    assert_eq!(row("random"), [(1, expert), (4, expert), (16, expert)]);
    assert_eq!(row("sequential"), [(4, 32 << 20)]);
    assert_eq!(report["model"]["sizes_of_the_release"], true);
    assert_eq!(report["model"]["layers"], 93);
    let advice = &report["advice"];
    assert_eq!(advice["plan"]["kv_bytes_per_position"], 55_296);
    let seconds = advice["prediction"]["seconds_per_token"].as_f64().unwrap();
    for change in advice["changes"].as_array().unwrap() {
        assert!(
            change["seconds_per_token"].as_f64().unwrap() <= seconds + 1e-9,
            "{change}"
        );
    }
    assert!(report["commands"][0].as_str().unwrap().contains("--demo"));
}

#[test]
fn a_whole_model_gets_a_command_that_can_be_pasted() {
    let (dir, model) = model();
    let report = report(dir.path(), &["my model"]);
    assert_eq!(report["model"]["faults"], serde_json::json!([]));
    // The fixture has no tokenizer: chats cannot begin, which is said.
    assert!(warns(&report, "tokenizer cannot be used"), "{report:#}");
    assert_eq!(report["commands"][0], "k3 verify 'my model'");
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/demo/model");
    for item in fs::read_dir(&demo).unwrap() {
        let item = item.unwrap();
        fs::copy(item.path(), model.join(item.file_name())).unwrap();
    }
    let report = self::report(dir.path(), &["my model"]);
    assert_eq!(report["model"]["whole"], true, "{:#}", report["model"]);
    assert_eq!(report["commands"][0], "k3-tui 'my model' --preset auto");
    assert_eq!(report["advice"]["plan"]["trunk_read_bytes_per_token"], 0);
    let digests = report["model"]["tokenizer"].as_array().unwrap();
    assert!(
        digests
            .iter()
            .all(|file| file["sha256"].as_str().unwrap().len() == 64)
    );
}

#[test]
fn the_text_says_what_the_json_says() {
    let (dir, _) = model();
    let (code, text, error) = run(dir.path(), &["my model", "--seconds", "0"]);
    assert_eq!(code, 0, "{error}");
    for part in [
        "machine\n",
        "drive of experts and trunk\n",
        "model\n",
        "plan\n",
        "warnings\n",
        "next\n",
        "memory reads",
        "not measured",
        "ASSUMED",
        "the limit is",
        "one more GB of memory",
        "seconds a token",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // Progress goes to the other stream.
    let progress = "looking at the files";
    assert!(
        error.contains(progress) && !text.contains(progress),
        "{error}"
    );
}

#[test]
fn a_model_with_a_shard_missing_is_reported_and_no_failure() {
    let (dir, model) = model();
    let shard = "model-00002-of-000003.safetensors";
    fs::remove_file(model.join(shard)).unwrap();
    let report = report(dir.path(), &["my model"]);
    assert_eq!(
        report["model"]["missing_shards"],
        serde_json::json!([shard])
    );
    assert_eq!(report["model"]["whole"], false);
    assert!(warns(&report, shard), "{report:#}");
    assert_eq!(report["commands"][0], "k3 verify 'my model'");
    // A folder without a model is where one is to be.
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let report = self::report(dir.path(), &["empty"]);
    assert!(warns(&report, "no model here"), "{report:#}");
    assert_eq!(report["commands"][0], "k3 download empty");
}

#[test]
fn a_pack_on_another_drive_is_measured_by_itself() {
    let (dir, model) = model();
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        println!(
            "a_pack_on_another_drive_is_measured_by_itself: NOT RUN, there is no /dev/shm to write to"
        );
        return;
    };
    let trunk = memory.path().to_str().unwrap();
    let pack = Command::new(env!("CARGO_BIN_EXE_k3"))
        .args(["pack", "my model", trunk])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(pack.status.success(), "{pack:?}");
    noise(&memory.path().join("noise"), NOISE);
    noise(&model.join("noise"), NOISE);
    let report = measured(dir.path(), &["my model", "--trunk", trunk], "0.1");
    let drives = report["drives"].as_array().unwrap();
    assert_eq!(drives.len(), 2, "{drives:#?}");
    assert_eq!(drives[0]["holds"], serde_json::json!(["experts"]));
    assert_eq!(drives[1]["holds"], serde_json::json!(["trunk"]));
    assert_eq!(report["advice"]["speeds"]["two_drives"], true);
    if drives[1]["volume"]["file_system"] == "tmpfs" {
        // Memory is no drive: it is said, and not predicted with.
        assert_eq!(drives[1]["measured"]["direct"], false);
        assert!(warns(&report, "no direct reads"), "{report:#}");
        let assumed = report["advice"]["assumed"].as_array().unwrap();
        assert!(assumed.contains(&"trunk".into()), "{assumed:?}");
    }
    // On the same drive, or of another model, there is nothing apart.
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let report = self::report(dir.path(), &["my model", "--trunk", "empty"]);
    assert_eq!(report["drives"].as_array().unwrap().len(), 1);
    assert!(
        warns(&report, "the packed trunk cannot be used"),
        "{report:#}"
    );
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, word) in [
        (&["no such folder"][..], "does not exist"),
        (&["--seconds=-1"], "--seconds"),
        (&["--seconds", "nan"], "--seconds"),
        (&["--context", "0"], "--context"),
        (&["--context", "99999999"], "--context"),
        (&["--trunk", "x"], "MODEL"),
        (&["two", "folders"], "folders"),
    ] {
        let (code, out, error) = run(dir.path(), arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}");
        assert!(error.contains(word), "{error}");
    }
}

/// Bytes that this process had fetched from drives, by the kernel's own account: reads that the page cache answers are not
/// in it.
fn fetched() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/io").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("read_bytes: "))?;
    line.parse().ok()
}

#[test]
fn a_file_that_is_in_the_page_cache_is_fetched_from_the_drive_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("warm");
    noise(&path, NOISE);
    // Just written, and read once more.
    assert!(fs::read(&path).unwrap().len() >= NOISE);
    let file = DirectFile::open(&path).unwrap();
    let Some(before) = fetched() else {
        println!("NOT RUN: this system does not tell what was fetched from drives");
        return;
    };
    if !file.direct() {
        println!("NOT RUN: the temporary folder's file system has no direct reads");
        return;
    }
    let cases = Case::few();
    // For no time at all: every reader reads once.
    measure_direct(&file, &cases, 1, std::time::Duration::ZERO).unwrap();
    let once: usize = cases.iter().map(|case| case.bytes * case.in_flight).sum();
    let fetched = fetched().unwrap() - before;
    assert!(fetched >= once as u64, "{fetched} of {once} bytes");
}
