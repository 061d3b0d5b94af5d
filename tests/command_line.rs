//! `k3` as a script sees it: exit codes, standard output, result files.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn k3() -> Command {
    let mut command = Command::cargo_bin("k3").unwrap();
    command.env_remove("K3_ORACLE");
    command
}

/// A fixture checkpoint's folder.
fn tiny() -> &'static str {
    concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tiny-a")
}

/// Runs with these arguments and gives exit code, standard output and standard error.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = k3().args(arguments).output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_synthetic_model_gives_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (
        folder.path().join("a model"),
        folder.path().join("result.json"),
    );
    let config = format!("{}/config.json", tiny());
    let (code, _, error) = run(&[
        "synth",
        model.to_str().unwrap(),
        "--config",
        &config,
        "--seed",
        "7",
    ]);
    assert_eq!(code, 0, "{error}");

    let (code, text, error) = run(&[
        "run",
        model.to_str().unwrap(),
        "--ids",
        "1,2 3",
        "--gen",
        "5",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(code, 0, "{error}");
    let result = json(&out);
    let generated: Vec<String> = result["generated_ids"]
        .as_array()
        .unwrap()
        .iter()
        .map(Value::to_string)
        .collect();
    assert_eq!(generated.len(), 5);
    assert_eq!(
        text.trim_end(),
        generated.join(" "),
        "ids go to standard output"
    );
    assert_eq!(result["full_ids"].as_array().unwrap().len(), 8);
    assert_eq!(result["prompt_ids"], serde_json::json!([1, 2, 3]));
    assert_eq!(result["expert_drops"], 0);
    assert!(result["generated_text"].is_null() && result["stopped_at"].is_null());
    assert!(result["seconds_per_token"].as_f64().unwrap() > 0.0);
    for field in [
        "layers",
        "seconds_prefill",
        "wall_seconds",
        "seconds_load",
        "seconds_wait_trunk",
        "seconds_wait_experts",
        "seconds_disk_wait",
        "seconds_compute",
        "seconds_compute_trunk",
        "seconds_compute_experts",
        "seconds_compute_attention",
        "seconds_other",
        "threads",
        "trunk_bytes_read",
        "trunk_bytes_pinned",
        "trunk_gb_per_s",
        "ring_slots",
        "expert_requests",
        "expert_bytes_requested",
        "expert_bytes_read",
        "lm_head_bytes_read",
        "embedding_bytes_read",
    ] {
        assert!(result[field].is_number(), "{field}");
    }
    assert!(result["plan"].is_object());
    // The breakdown adds up to the whole.
    let seconds = |field: &str| result[field].as_f64().unwrap();
    let parts = ["load", "disk_wait", "compute", "other"].map(|p| seconds(&format!("seconds_{p}")));
    assert!((parts.iter().sum::<f64>() - seconds("wall_seconds")).abs() < 1e-6);
    assert!(parts[2] > 0.0);
    let kinds =
        ["trunk", "experts", "attention"].map(|kind| seconds(&format!("seconds_compute_{kind}")));
    assert!(kinds.iter().all(|time| *time > 0.0));
    assert!(kinds.iter().sum::<f64>() <= parts[2]);
    assert!(seconds("seconds_wait_trunk") + seconds("seconds_wait_experts") <= parts[1]);
}

#[test]
fn every_way_of_computing_gives_the_same_tokens() {
    let ids = |more: &[&str]| {
        let mut arguments = vec!["run", tiny(), "--ids", "5,7,11,13", "--gen", "6"];
        arguments.extend(more);
        let (code, text, error) = run(&arguments);
        assert_eq!(code, 0, "{error}");
        text
    };
    let plain = ids(&[]);
    assert_eq!(ids(&["--recompute"]), plain);
    assert_eq!(ids(&["--threads", "1"]), plain);
    assert_eq!(ids(&["--incremental"]), plain);
    assert_eq!(ids(&["--no-stream-text"]), "");
}

#[test]
fn a_stop_id_ends_the_run_and_stays_in_it() {
    let first = run(&["run", tiny(), "--ids", "5", "--gen", "4"]).1;
    let ids: Vec<&str> = first.split_whitespace().collect();
    let (code, text, _) = run(&[
        "run",
        tiny(),
        "--ids",
        "5",
        "--gen",
        "4",
        "--stop-id",
        ids[1],
        "--out",
        "-",
    ]);
    assert_eq!(code, 0);
    let result: Value =
        serde_json::from_str(&text).expect("with --out - standard output is JSON and nothing else");
    let at = ids.iter().position(|id| *id == ids[1]).unwrap();
    assert_eq!(result["generated_ids"].as_array().unwrap().len(), at + 1);
    assert_eq!(result["stopped_at"].to_string(), ids[1]);
}

#[test]
fn nothing_generated_is_still_valid_json() {
    let (code, text, _) = run(&["run", tiny(), "--ids", "5,6", "--gen", "0", "--out", "-"]);
    assert_eq!(code, 0);
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["seconds_per_token"], 0.0);
    assert_eq!(result["generated_ids"], serde_json::json!([]));
}

#[test]
fn logits_are_dumped_for_the_last_and_for_every_position() {
    let folder = tempfile::tempdir().unwrap();
    let (last, all) = (
        folder.path().join("last.f32"),
        folder.path().join("all.f32"),
    );
    // More positions than a chunk holds.
    let prompt = (0..70)
        .map(|i| (i % 90).to_string())
        .collect::<Vec<_>>()
        .join(",");
    let (code, _, error) = run(&[
        "run",
        tiny(),
        "--ids",
        &prompt,
        "--gen",
        "1",
        "--dump-logits",
        last.to_str().unwrap(),
        "--dump-all-logits",
        all.to_str().unwrap(),
    ]);
    assert_eq!(code, 0, "{error}");
    let (last, all) = (std::fs::read(last).unwrap(), std::fs::read(all).unwrap());
    assert_eq!(last.len(), 101 * 4);
    assert_eq!(all.len(), 70 * 101 * 4);
    assert_eq!(all[69 * 101 * 4..], last);
}

#[test]
fn fewer_layers_are_another_model_and_say_so() {
    let (code, text, error) = run(&["run", tiny(), "--ids", "5", "--layers", "3", "--out", "-"]);
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("only the first 3 of 7 layers"), "{error}");
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["layers"], 3);
}

#[test]
fn what_cannot_be_used_is_refused_with_2_and_says_what_to_do() {
    for (arguments, says) in [
        (
            vec!["run", "no/such/folder", "--ids", "1"],
            "does not exist",
        ),
        (
            vec!["run", tiny(), "--ids", "abc"],
            "`abc` is no token id: ids are whole numbers from 0 to 100",
        ),
        (
            vec!["run", tiny(), "--ids", "1,101"],
            "`101` is no token id",
        ),
        (vec!["run", tiny(), "--ids", ""], "the prompt is empty"),
        (vec!["run", tiny()], "--ids"),
        (
            vec!["run", tiny(), "--ids", "1", "--prompt", "x"],
            "cannot be used with",
        ),
        (vec!["run", tiny(), "--prompt", "x"], "--tok"),
        (
            vec!["run", tiny(), "--ids", "1", "--layers", "0"],
            "the model has 1 to 7",
        ),
        (
            vec!["run", tiny(), "--ids", "1", "--layers", "999"],
            "the model has 1 to 7",
        ),
        (
            vec!["run", tiny(), "--ids", "1", "--threads", "0"],
            "at least 1 is needed",
        ),
        (
            vec!["run", tiny(), "--ids", "1", "--stop-id", "101"],
            "`101` is no token id",
        ),
        (vec!["run", tiny(), "--ids", "1", "--stop-id", "-1"], "-1"),
        (
            vec!["run", tiny(), "--ids", "1", "--gen", "9999999999999"],
            "positions",
        ),
        (vec!["run", tiny(), "--ids", "1", "--nope"], "--nope"),
        (
            vec!["run", tiny(), "--ids", "1", "--recompute", "--incremental"],
            "cannot be used with",
        ),
        (vec![tiny(), "--ids", "1"], "type `k3 run"),
        (vec![tiny(), "--chat"], "type `k3 chat"),
        (vec!["--list-presets"], "k3 presets"),
        (vec!["run", tiny(), "--ultra-low-memory"], "--preset ultra"),
        (
            vec!["run", tiny(), "--dump-cache-trace", "x"],
            "k3 run --trace",
        ),
        (vec![], "Usage"),
    ] {
        let (code, out, error) = run(&arguments);
        assert_eq!(code, 2, "{arguments:?}: {error}");
        assert!(error.contains(says), "{arguments:?}: {error}");
        assert_eq!(out, "", "{arguments:?}");
    }
}

#[test]
fn nine_stop_ids_are_too_many() {
    let mut arguments = vec!["run", tiny(), "--ids", "1"];
    arguments.extend(["--stop-id", "1"].repeat(9));
    assert_eq!(run(&arguments).0, 2);
}

#[test]
fn a_result_that_could_not_be_written_is_3_before_anything_is_computed() {
    for flag in ["--out", "--dump-logits", "--dump-all-logits"] {
        let (code, out, error) = run(&["run", tiny(), "--ids", "1", flag, "/no/such/folder/file"]);
        assert_eq!(code, 3, "{flag}: {error}");
        assert!(
            error.contains("/no/such/folder/file cannot be written"),
            "{error}"
        );
        assert_eq!(out, "", "nothing was generated");
    }
}

#[test]
fn a_config_that_was_refused_names_every_problem() {
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(format!("{}/config.json", tiny())).unwrap();
    let file = folder.path().join("other.json");
    std::fs::write(
        &file,
        text.replace("\"vocab_size\"", "\"vocab\"")
            .replace("\"q_lora_rank\"", "\"q\""),
    )
    .unwrap();
    let (code, _, error) = run(&[
        "run",
        tiny(),
        "--ids",
        "1",
        "--config",
        file.to_str().unwrap(),
    ]);
    assert_eq!(code, 2);
    for says in ["other.json", "vocab_size", "q_lora_rank"] {
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_shard_that_was_cut_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (model, out) = (
        folder.path().join("model"),
        folder.path().join("result.json"),
    );
    let config = format!("{}/config.json", tiny());
    assert_eq!(
        run(&["synth", model.to_str().unwrap(), "--config", &config]).0,
        0
    );
    let shard = std::fs::read_dir(&model)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().contains("-00003-of-"))
        .unwrap();
    let whole = std::fs::read(&shard).unwrap();
    std::fs::write(&shard, &whole[..whole.len() - 1]).unwrap();
    let (code, _, error) = run(&[
        "run",
        model.to_str().unwrap(),
        "--ids",
        "1",
        "--out",
        out.to_str().unwrap(),
    ]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("-00003-of-"), "{error}");
    assert!(!out.exists());
}

#[test]
fn help_and_version_are_answered_at_once() {
    assert_eq!(
        run(&["--version"]),
        (
            0,
            format!("k3 {}\n", env!("CARGO_PKG_VERSION")),
            String::new()
        )
    );
    let (code, help, _) = run(&["--help"]);
    assert_eq!(code, 0);
    assert!(help.contains("run") && help.contains("synth"));
}

#[test]
fn bench_io_refuses_what_it_cannot_measure_before_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("a small file");
    std::fs::write(&small, [0; 100]).unwrap();
    let small = small.to_str().unwrap();
    for (arguments, says) in [
        (vec!["bench", "io", small], "too few to measure"),
        (vec!["bench", "io", "no such file"], "cannot be read"),
        (
            vec!["bench", "io", small, "--seconds", "0"],
            "more than 0, and at most 3600",
        ),
        (vec!["bench", "disk", small], "disk"),
        (vec!["bench", "decode", tiny()], "too few to measure"),
        (vec!["bench", "decode", "no such folder"], "no such folder"),
    ] {
        let (code, text, error) = run(&arguments);
        assert_eq!((code, text.as_str()), (2, ""), "{error}");
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_trace_has_every_choice_and_the_simulator_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.bin");
    let (code, text, error) = run(&[
        "run",
        tiny(),
        "--ids",
        "5",
        "--gen",
        "4",
        "--trace",
        trace.to_str().unwrap(),
        "--out",
        "-",
    ]);
    assert_eq!(code, 0, "{error}");
    let result: Value = serde_json::from_str(&text).unwrap();
    // One token a pass, so every choice is a request.
    let requests = result["expert_requests"].as_u64().unwrap();
    assert!(requests > 0);
    assert_eq!(std::fs::metadata(&trace).unwrap().len(), 8 * requests);
    let (code, text, error) = run(&[
        "sim-cache",
        trace.to_str().unwrap(),
        "--slots",
        "1000",
        "--json",
    ]);
    assert_eq!(code, 0, "{error}");
    let replayed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(replayed["requests"].as_u64().unwrap(), requests);
    // An unwritable trace is found before anything is computed.
    let (code, out, _) = run(&[
        "run",
        tiny(),
        "--ids",
        "5",
        "--trace",
        "/no/such/folder/trace",
    ]);
    assert_eq!((code, out.as_str()), (3, ""));
}

/// `k3 chat` on the demo model, with a cache folder of its own.
fn chat(folder: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut command = k3();
    command
        .arg("chat")
        .arg("--demo")
        .args(arguments)
        .env("XDG_CACHE_HOME", folder)
        .env("HOME", folder);
    let output = command.write_stdin(input).output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn a_chat_through_a_pipe_thinks_answers_and_keeps_its_history() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("chat.jsonl");
    let arguments = ["--history", history.to_str().unwrap()];
    let (code, text, error) = chat(
        folder.path(),
        &arguments,
        "what is the ring?\n/think off\nhello\n/effort medium\n/exit\n",
    );
    assert_eq!(code, 0, "{error}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[0].starts_with("<think>") && lines[0].ends_with("</think>"),
        "{text}"
    );
    assert!(
        lines[1].starts_with("<response>") && lines[1].ends_with("</response>"),
        "{text}"
    );
    assert!(lines[2].starts_with("<response>"), "{text}");
    assert_eq!(lines.len(), 3, "{text}");
    assert!(error.contains("expected low, high or max"), "{error}");
    assert_eq!(
        std::fs::read_to_string(&history).unwrap().lines().count(),
        4
    );
    // The next session goes on from there.
    let (code, _, error) = chat(folder.path(), &arguments, "");
    assert_eq!(code, 0);
    assert!(error.contains("going on from 4 messages"), "{error}");
}

#[test]
fn a_history_with_an_error_is_opened_as_far_as_it_goes_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("chat.jsonl");
    let broken =
        "{\"role\":\"user\",\"content\":\"hello\"}\n{\"role\":\"user\",\"content\":\"b\"}\n";
    std::fs::write(&history, broken).unwrap();
    let (code, _, error) = chat(folder.path(), &["--history", history.to_str().unwrap()], "");
    assert_eq!(code, 0, "{error}");
    assert!(
        error.contains("line 2") && error.contains("damaged-1"),
        "{error}"
    );
    let kept = folder.path().join("chat.jsonl.damaged-1");
    assert_eq!(std::fs::read_to_string(kept).unwrap(), broken);
    // A file that is no history at all is left alone.
    std::fs::write(&history, "a shopping list\n").unwrap();
    let (code, _, error) = chat(folder.path(), &["--history", history.to_str().unwrap()], "");
    assert_eq!(code, 2, "{error}");
    assert_eq!(
        std::fs::read_to_string(&history).unwrap(),
        "a shopping list\n"
    );
}
