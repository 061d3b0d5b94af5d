//! `k3 sim-cache` as a script sees it, and what the policies keep of a real trace (where `K3_ORACLE` names the folder
//! that has one, else NOT RUN).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use assert_cmd::Command;
use common::oracle;
use k3::stream::simulate::{Replacement, Replayed, replay};
use k3::stream::trace::{Step, Trace, TraceWriter};
use serde_json::{Value, json};

/// Runs `k3 sim-cache` and gives exit code, standard output and standard error.
fn sim_cache(arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("k3").unwrap();
    let output = command.arg("sim-cache").args(arguments).output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn a_trace_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.bin");
    let mut writer = TraceWriter::create(&path).unwrap();
    // Two positions, then the same and one more.
    for tokens in [&[[1, 2], [3, 1]][..], &[[1, 2], [3, 1], [1, 5]]] {
        for layer in [1, 2] {
            for token in tokens {
                writer.record(layer, token).unwrap();
            }
        }
    }
    writer.finish().unwrap();
    let trace = path.to_str().unwrap();

    let decode = ["--policy", "lru", "--slots", "8", "--decode", "--json"];
    let (code, out, error) = sim_cache(&[&[trace], &decode[..]].concat());
    assert_eq!((code, error.as_str()), (0, ""));
    let want = json!({"policy": "lru", "slots": 8, "requests": 4, "retained": 0.5, "last": 0.5, "steps": 1});
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), want);

    let (code, out, _) = sim_cache(&[trace, "--slots", "8", "--json"]);
    assert_eq!(code, 0);
    // Passes as recorded: 6 of 8 requests are read first, then 2 of 12.
    let whole: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&whole["policy"], &whole["steps"]),
        (&json!("ours"), &json!(2))
    );
    assert_eq!(whole["requests"], 20);
    let near = |value: &Value, want: f64| (value.as_f64().unwrap() - want).abs() < 1e-12;
    assert!(near(&whole["last"], 10.0 / 12.0), "{out}");
    assert!(
        near(&whole["retained"], (0.25 + 10.0 / 12.0) / 2.0),
        "{out}"
    );

    let (code, out, _) = sim_cache(&[trace, "--gb", "0.2"]);
    assert_eq!(code, 0);
    assert!(
        out.starts_with("ours, 11 slots (0.2 GB): 54.17 % retained"),
        "{out}"
    );
}

#[test]
fn what_cannot_be_replayed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.bin");
    let trace = path.to_str().unwrap();
    let refused = |arguments: &[&str], why: &str| {
        let (code, out, error) = sim_cache(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{error}");
        assert!(error.contains(why), "{error}");
    };
    refused(&[trace], "t.bin: cannot read the trace");
    std::fs::write(&path, [0; 12]).unwrap();
    refused(&[trace], "t.bin: 12 bytes are no trace");
    std::fs::write(&path, [0; 16]).unwrap();
    refused(&[trace, "--decode"], "t.bin: it holds a single pass");
    refused(&[trace, "--slots", "0"], "--slots 0");
    refused(&[trace, "--gb", "0.01"], "--gb 0.01");
    refused(&[trace, "--gb", "1", "--slots", "4"], "cannot be used with");
}

fn decode_steps(test: &str) -> Option<Vec<Step>> {
    let path = oracle(test)?.join("upstream/expert_trace.bin");
    Some(Trace::load(&path).unwrap().decode_steps().unwrap())
}

/// Percent retained in each step after the prompt.
fn percent(steps: &[Step], replacement: Replacement, slots: usize) -> Vec<f64> {
    let replayed = replay(steps, replacement, slots);
    replayed[1..]
        .iter()
        .map(|step| 100.0 * step.retained())
        .collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// GB of cache, slots, and percent of the decode steps' bytes: what ours keeps at least, and what Belady keeps.
const SIZES: [(usize, usize, f64, f64); 10] = [
    (4, 227, 9.0, 15.0),
    (8, 455, 17.0, 29.0),
    (13, 740, 25.0, 41.0),
    (16, 911, 29.0, 45.0),
    (24, 1367, 36.0, 52.0),
    (28, 1594, 39.0, 54.0),
    (32, 1822, 41.0, 56.0),
    (48, 2734, 47.0, 58.0),
    (64, 3645, 50.0, 58.0),
    (109, 6208, 55.0, 58.0),
];

#[test]
fn the_real_trace_is_cut_as_published() {
    let Some(steps) = decode_steps("the_real_trace_is_cut_as_published") else {
        return;
    };
    let replayed = replay(&steps, Replacement::Lru, 6208);
    let requests: Vec<u64> = replayed.iter().map(|step| step.requests).collect();
    assert_eq!(requests, [5682, 1472, 1472, 1472, 1472, 1472, 1472, 1472]);
}

#[test]
fn lru_keeps_what_was_published_of_the_last_step() {
    let Some(steps) = decode_steps("lru_keeps_what_was_published_of_the_last_step") else {
        return;
    };
    for (slots, want) in [
        (2073, 29.89),
        (2802, 32.20),
        (3531, 33.08),
        (4386, 35.53),
        (6208, 43.75),
    ] {
        let last = percent(&steps, Replacement::Lru, slots)[6];
        assert!((last - want).abs() < 0.005, "{slots} slots: {last}");
    }
}

/// The trace as it was recorded, a request at a time: the published replay.
#[test]
fn lru_keeps_what_was_published_of_the_raw_trace() {
    let Some(folder) = oracle("lru_keeps_what_was_published_of_the_raw_trace") else {
        return;
    };
    let trace = Trace::load(&folder.join("upstream/expert_trace.bin")).unwrap();
    for (slots, want) in [(455, 36.24), (3647, 36.24), (7294, 49.19), (10941, 90.0)] {
        let replayed = replay(trace.steps(), Replacement::Lru, slots);
        let sum = |count: fn(&Replayed) -> u64| replayed.iter().map(count).sum::<u64>();
        let (requests, reads) = (sum(|r| r.requests), sum(|r| r.reads));
        assert_eq!(requests, 100_096);
        let kept = 100.0 * Replayed { requests, reads }.retained();
        assert!((kept - want).abs() < 0.005, "{slots} slots: {kept}");
    }
}

#[test]
fn ours_and_the_best_possible_on_the_real_trace() {
    let Some(steps) = decode_steps("ours_and_the_best_possible_on_the_real_trace") else {
        return;
    };
    println!("GB slots: LRU LFU S3-FIFO random ours Belady");
    for (gb, slots, least, belady) in SIZES {
        let kept = |replacement| mean(&percent(&steps, replacement, slots));
        let ours = kept(Replacement::Ours);
        let best = kept(Replacement::Belady);
        println!(
            "{gb} {slots}: {:.1} {:.1} {:.1} {:.1} {ours:.1} {best:.1}",
            kept(Replacement::Lru),
            kept(Replacement::Lfu),
            kept(Replacement::S3Fifo),
            kept(Replacement::Random),
        );
        assert!(ours >= least, "{gb} GB: {ours}");
        assert_eq!(best.round(), belady, "{gb} GB: {best}");
        assert!(ours <= best);
    }
}
