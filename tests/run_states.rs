//! `k3 run` that stops and goes on: state files, signals, stop ids, sampling and teacher forcing as a script sees them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::{Value, json};

const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tiny-a");
const OTHER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tiny-b");

/// A temporary folder, and runs of `k3` that leave files in it.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// `k3` with these words; `@name` is a file of the folder. Exit code, standard output, standard error.
    fn k3(&self, line: &str) -> (i32, String, String) {
        let words = line
            .split_whitespace()
            .map(|word| match word.strip_prefix('@') {
                Some(name) => self.path(name).to_str().unwrap().to_owned(),
                None => word.to_owned(),
            });
        let mut command = Command::cargo_bin("k3").unwrap();
        let output = command.args(words).output().unwrap();
        (
            output.status.code().unwrap(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    }

    /// The result of `k3 run` on the tiny model.
    fn run(&self, line: &str) -> Value {
        let (code, out, error) = self.k3(&format!("run {TINY} --out - {line}"));
        assert_eq!(code, 0, "{line}: {error}");
        assert!(!out.contains("inf") && !out.contains("nan"), "{out}");
        serde_json::from_str(&out).unwrap()
    }

    /// That `k3 run` on the tiny model is refused with this exit code and reason, and computes nothing.
    fn refused(&self, line: &str, code: i32, says: &str) {
        let (got, out, error) = self.k3(&format!("run {TINY} {line}"));
        assert_eq!((got, out.as_str()), (code, ""), "{line}: {error}");
        assert!(error.contains(says), "{line}: {error}");
    }
}

fn ids(value: &Value) -> Vec<u64> {
    let ids = value.as_array().unwrap().iter();
    ids.map(|id| id.as_u64().unwrap()).collect()
}

#[test]
fn a_resumed_run_gives_the_same_tokens_as_an_uninterrupted_one() {
    let bench = Bench::new();
    // More positions than a chunk or a block of attention holds.
    let prompt: Vec<String> = (0..80).map(|i| (i * 7 % 101).to_string()).collect();
    let prompt = prompt.join(",");
    let whole = bench.run(&format!("--ids {prompt} --gen 9"));
    let first = bench.run(&format!("--ids {prompt} --gen 4 --save-state @s"));
    assert_eq!(
        ids(&first["generated_ids"]),
        ids(&whole["generated_ids"])[..4]
    );
    // Other capacities, budgets and threads than those of the writer; the file read may be the one that is written.
    for more in [
        "",
        "--context 300 --preset ultra",
        "--threads 1 --save-state @other",
    ] {
        let rest = bench.run(&format!("--load-state @s --gen 5 {more}"));
        assert_eq!(rest["full_ids"], whole["full_ids"], "{more}");
        assert_eq!(
            ids(&rest["generated_ids"]),
            ids(&whole["generated_ids"])[4..]
        );
        assert_eq!(rest["prompt_ids"], first["full_ids"]);
    }
    for _ in 0..5 {
        bench.run("--load-state @s --gen 1 --save-state @s");
    }
    let last = bench.run("--load-state @s --gen 0");
    assert_eq!(last["full_ids"], whole["full_ids"]);
    // Standing alone, the state knows what one that was never saved knows: to the bit.
    let full = bench.run("--load-state @s --gen 1 --dump-logits @resumed");
    let all: Vec<String> = ids(&whole["full_ids"]).iter().map(u64::to_string).collect();
    let again = bench.run(&format!(
        "--ids {} --gen 1 --dump-logits @anew",
        all.join(",")
    ));
    assert_eq!(full["full_ids"], again["full_ids"]);
    assert_eq!(
        fs::read(bench.path("resumed")).unwrap(),
        fs::read(bench.path("anew")).unwrap()
    );
}

/// The id that was made last and not fed is fed, before the new prompt.
#[test]
fn trouble_04_a_new_prompt_comes_after_the_pending_id() {
    let bench = Bench::new();
    let first = bench.run("--ids 5,7,11 --gen 3 --save-state @s");
    let said: Vec<String> = ids(&first["full_ids"]).iter().map(u64::to_string).collect();
    let resumed = bench.run("--load-state @s --ids 21,22 --gen 4 --dump-all-logits @fed");
    let anew = bench.run(&format!("--ids {},21,22 --gen 4", said.join(",")));
    assert_eq!(resumed["full_ids"], anew["full_ids"]);
    assert_eq!(resumed["generated_ids"], anew["generated_ids"]);
    // The pending id and the prompt were fed, and nothing else.
    assert_eq!(fs::metadata(bench.path("fed")).unwrap().len(), 3 * 101 * 4);
}

#[test]
fn trouble_05_a_state_saved_at_a_stop_id_stands_at_that_id() {
    let bench = Bench::new();
    let whole = bench.run("--ids 5 --gen 8");
    let made = ids(&whole["generated_ids"]);
    let stop = made[2];
    let at = made.iter().position(|id| *id == stop).unwrap();
    let stopped = bench.run(&format!("--ids 5 --gen 8 --stop-id {stop} --save-state @s"));
    assert_eq!(stopped["stopped_at"], stop);
    assert_eq!(ids(&stopped["generated_ids"]), made[..=at]);
    let rest = bench.run(&format!("--load-state @s --gen {}", 7 - at));
    assert_eq!(rest["full_ids"], whole["full_ids"]);
}

#[test]
fn trouble_13_ids_are_whole_numbers_of_the_vocabulary() {
    let bench = Bench::new();
    for bad in ["abc", "1,x", "+1", "1.0", "0x1", "101", "4294967297"] {
        bench.refused(&format!("--ids {bad}"), 2, "is no token id");
        bench.refused(&format!("--ids 1 --stop-id {bad}"), 2, "is no token id");
    }
}

#[test]
fn trouble_14_layers_that_are_not_there_are_refused() {
    let bench = Bench::new();
    for layers in [0, 8, 999] {
        bench.refused(&format!("--ids 1 --layers {layers}"), 2, "has 1 to 7");
    }
}

#[test]
fn trouble_15_what_cannot_be_written_is_known_before_the_run() {
    let bench = Bench::new();
    for flag in [
        "--out",
        "--save-state",
        "--dump-logits",
        "--dump-all-logits",
    ] {
        bench.refused(&format!("--ids 1 {flag} @no/such/file"), 3, "no/such/file");
    }
    bench.refused("--ids 1 --save-state @", 3, "cannot be saved");
}

/// 16: no `inf` and no `nan` (checked of every result). 17: the prompt is read, and what is saved saves reading it.
#[test]
fn trouble_16_and_17_a_prompt_is_read_once_and_nothing_made_of_it() {
    let bench = Bench::new();
    let read = bench.run("--ids 5,7,11 --gen 0 --save-state @s");
    assert_eq!(read["seconds_per_token"], 0.0);
    assert_eq!(read["generated_ids"], json!([]));
    assert!(read["stopped_at"].is_null());
    let rest = bench.run("--load-state @s --ids 13 --gen 3 --dump-all-logits @fed");
    let whole = bench.run("--ids 5,7,11,13 --gen 3");
    assert_eq!(rest["full_ids"], whole["full_ids"]);
    assert_eq!(fs::metadata(bench.path("fed")).unwrap().len(), 101 * 4);
    bench.refused("--load-state @s", 2, "give at least one token");
}

#[test]
fn trouble_18_stop_ids_end_the_run() {
    let bench = Bench::new();
    let made = ids(&bench.run("--ids 5 --gen 6")["generated_ids"]);
    let unused = (0..101).find(|id| !made.contains(id)).unwrap();
    let stops = format!("--stop-id {unused} --stop-id {}", made[3]);
    let stopped = bench.run(&format!("--ids 5 --gen 6 {stops}"));
    let at = made.iter().position(|id| *id == made[3]).unwrap();
    assert_eq!(ids(&stopped["generated_ids"]), made[..=at]);
    assert_eq!(stopped["stopped_at"], made[3]);
    let nine = " --stop-id 1".repeat(9);
    bench.refused(&format!("--ids 1{nine}"), 2, "more than 8 stop ids");
}

#[test]
fn a_state_that_does_not_belong_here_is_refused_before_the_model_is_loaded() {
    let bench = Bench::new();
    bench.run("--ids 5,7,11 --gen 2 --save-state @s");
    let good = fs::read(bench.path("s")).unwrap();
    bench.refused(
        "--load-state @s --layers 3",
        2,
        "made with 7 layers, 3 run here",
    );
    bench.refused("--load-state @s --context 3", 2, "--context 13");
    bench.refused("--load-state @none", 2, "cannot be read");
    bench.refused("--load-state @s --recompute", 2, "cannot be used with");

    let (code, out, error) = bench.k3(&format!("run {OTHER} --load-state @s"));
    assert_eq!((code, out.as_str()), (2, ""), "{error}");
    assert!(error.contains("another configuration"), "{error}");

    let config = fs::read_to_string(format!("{TINY}/config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&config).unwrap();
    let eps = match config.get("text_config") {
        Some(_) => &mut config["text_config"]["rms_norm_eps"],
        None => &mut config["rms_norm_eps"],
    };
    *eps = json!(0.125);
    fs::write(bench.path("config.json"), config.to_string()).unwrap();
    let other = "--load-state @s --config @config.json";
    bench.refused(other, 2, "another configuration");

    let mut flipped = good.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    for (bytes, says) in [
        (flipped, "it is damaged"),
        (good[..good.len() - 1].to_vec(), "it is cut"),
        ([&good[..], b"x"].concat(), "1 bytes too many"),
        (b"K3ST\x01\0\0\0".to_vec(), "C engine"),
        (Vec::new(), "it is cut"),
    ] {
        fs::write(bench.path("s"), bytes).unwrap();
        bench.refused("--load-state @s", 2, says);
    }
}

#[test]
fn other_weights_of_the_same_shape_are_another_model() {
    let bench = Bench::new();
    for seed in [1, 2] {
        let config = format!("{TINY}/config.json");
        let line = format!("synth @m{seed} --config {config} --seed {seed}");
        assert_eq!(bench.k3(&line).0, 0);
    }
    // Headers agree here, so the sizes of a shard must not: one more tensor that nobody reads.
    let (code, _, error) = bench.k3("run @m1 --ids 5 --gen 1 --save-state @s");
    assert_eq!(code, 0, "{error}");
    let shard = first_shard(&bench.path("m2"));
    let bytes = fs::read(&shard).unwrap();
    let header = 8 + u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    // Eight more bytes of padding in the header.
    let longer = [
        &(header as u64).to_le_bytes()[..],
        &bytes[8..header],
        &[b' '; 8],
        &bytes[header..],
    ]
    .concat();
    fs::write(&shard, longer).unwrap();
    let (code, _, error) = bench.k3("run @m2 --load-state @s");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("another model"), "{error}");
}

fn first_shard(model: &Path) -> PathBuf {
    let files = fs::read_dir(model)
        .unwrap()
        .map(|file| file.unwrap().path());
    let mut shards: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|e| e == "safetensors"))
        .collect();
    shards.sort();
    shards.swap_remove(0)
}

/// A signal while tokens are made: exit 5, the result is written, and the saved state goes on as if nothing had happened.
#[cfg(unix)]
#[test]
fn a_signal_ends_the_run_at_a_safe_point_with_state_and_result_written() {
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;

    let bench = Bench::new();
    for keep in [true, false] {
        let mut command = std::process::Command::new(assert_cmd::cargo::cargo_bin("k3"));
        command.args(["run", TINY, "--ids", "5,7", "--gen", "4000", "--out"]);
        command.arg(bench.path("out"));
        if keep {
            command.arg("--save-state").arg(bench.path("s"));
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut shown = BufReader::new(child.stdout.take().unwrap());
        // Three ids were made: it is decoding.
        for _ in 0..3 {
            shown.read_until(b' ', &mut Vec::new()).unwrap();
        }
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let mut rest = String::new();
        shown.read_to_string(&mut rest).unwrap();
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(5), "{error}");
        let result = fs::read(bench.path("out")).unwrap();
        let result: Value = serde_json::from_slice(&result).unwrap();
        let made = ids(&result["generated_ids"]);
        assert!((3..4_000).contains(&made.len()), "{}", made.len());
        if keep {
            let whole = bench.run(&format!("--ids 5,7 --gen {}", made.len() + 3));
            let rest = bench.run("--load-state @s --gen 3");
            assert_eq!(rest["full_ids"], whole["full_ids"]);
        }
        fs::remove_file(bench.path("out")).unwrap();
    }
}

#[test]
fn drawn_tokens_come_again_with_their_seed() {
    let bench = Bench::new();
    let greedy = bench.run("--ids 5,7 --gen 12");
    let drawn = "--ids 5,7 --gen 12 --temperature 1.5 --top-p 1 --seed 3";
    let first = bench.run(drawn);
    assert_ne!(first["generated_ids"], greedy["generated_ids"]);
    assert_eq!(bench.run(drawn)["generated_ids"], first["generated_ids"]);
    assert_eq!(
        bench.run(&format!("{drawn} --recompute"))["generated_ids"],
        first["generated_ids"]
    );
    let overridden = bench.run(&format!("{drawn} --greedy"));
    assert_eq!(overridden["generated_ids"], greedy["generated_ids"]);
    let one = bench.run("--ids 5,7 --gen 12 --top-k 1 --seed 3");
    assert_eq!(one["generated_ids"], greedy["generated_ids"]);

    // A seed that was not given is shown, and gives the same again.
    let (code, out, error) = bench.k3(&format!("run {TINY} --ids 5,7 --temperature 2"));
    assert_eq!(code, 0, "{error}");
    let seed = error.split("--seed ").nth(1).unwrap();
    let seed = seed.split_whitespace().next().unwrap();
    let again = format!("run {TINY} --ids 5,7 --temperature 2 --seed {seed}");
    assert_eq!(bench.k3(&again).1, out);
    for wrong in [
        "--temperature 0",
        "--temperature nan",
        "--top-p 1.1",
        "--top-k 0",
        "--seed -1",
    ] {
        bench.refused(&format!("--ids 1 {wrong}"), 2, "needed");
    }
}

#[test]
fn teacher_forcing_counts_what_greedy_decoding_would_have_said() {
    let bench = Bench::new();
    let made = bench.run("--ids 5,7 --gen 70");
    let all: Vec<String> = ids(&made["full_ids"]).iter().map(u64::to_string).collect();
    let checked = bench.run(&format!("--tf-check --ids {}", all.join(",")));
    assert_eq!(checked["tf_positions"], 71);
    // All that were made agree; what the prompt says after its first id may or may not.
    let matches = checked["tf_matches"].as_u64().unwrap();
    assert!(matches == 70 || matches == 71, "{matches}");
    let agreement = checked["tf_agreement"].as_f64().unwrap();
    assert!(
        (agreement - matches as f64 / 71.0).abs() < 1e-12,
        "{agreement}"
    );
    assert_eq!(checked["generated_ids"], json!([]));

    // One id in the middle changed: it is missed, and told.
    let mut other = ids(&made["full_ids"]);
    other[66] = (other[66] + 1) % 101;
    let other: Vec<String> = other.iter().map(u64::to_string).collect();
    let line = format!("run {TINY} --tf-check --out @out --ids {}", other.join(","));
    let (code, _, error) = bench.k3(&line);
    assert_eq!(code, 0, "{error}");
    let told = format!("position 66: {} predicted, {} in", all[66], other[66]);
    assert!(error.contains(&told), "{error}");
    let result: Value = serde_json::from_slice(&fs::read(bench.path("out")).unwrap()).unwrap();
    assert!(result["tf_matches"].as_u64().unwrap() < matches);
    bench.refused("--tf-check --ids 5", 2, "two tokens");
    let plain = bench.run("--ids 5,7");
    assert!(plain.get("tf_positions").is_none());
}

#[test]
fn speculation_has_bounds_and_changes_no_token() {
    let bench = Bench::new();
    for wrong in ["9", "-1", "x"] {
        bench.refused(&format!("--ids 1 --spec {wrong}"), 2, "--spec");
    }
    let plain = bench.run("--ids 5,7 --gen 5");
    let guessed = bench.run("--ids 5,7 --gen 5 --spec 4");
    assert_eq!(guessed["generated_ids"], plain["generated_ids"]);
}

#[test]
fn guesses_change_neither_tokens_nor_the_saved_state() {
    let bench = Bench::new();
    // The demo model repeats itself at times; the tiny one never does.
    let demo = k3::checkpoint::demo::unpack(bench.0.path()).unwrap();
    let run = |line: &str| {
        let (code, out, error) = bench.k3(&format!("run {} --out - {line}", demo.display()));
        assert_eq!(code, 0, "{line}: {error}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let repeated = ["17,204,33,90,5"; 6].join(",");
    let random: Vec<String> = (0..40).map(|i| (i * i * 37 % 1009).to_string()).collect();
    let mut saved = 0;
    for (text, prompt) in [("repetitive", repeated), ("random", random.join(","))] {
        for drawn in ["", "--temperature 0.3 --seed 5"] {
            let base = format!("--ids {prompt} --gen 90 {drawn}");
            let same = |more: &str| {
                let serial = run(&format!("{base} {more} --save-state @serial"));
                let guessed = run(&format!("{base} {more} --spec 4 --save-state @guessed"));
                assert_eq!(guessed["full_ids"], serial["full_ids"], "{text} {more}");
                assert_eq!(guessed["stopped_at"], serial["stopped_at"]);
                let (a, b) = (bench.path("serial"), bench.path("guessed"));
                assert_eq!(fs::read(a).unwrap(), fs::read(b).unwrap(), "{text} {more}");
                let passes = |run: &Value| run["passes"].as_u64().unwrap();
                (
                    ids(&serial["generated_ids"]),
                    passes(&serial),
                    passes(&guessed),
                )
            };
            let (made, serial, guessed) = same("");
            assert_eq!(serial, 89);
            println!("{text} {drawn}: {guessed} passes for 89 tokens");
            saved += serial - guessed;
            // Ids to stop at, some of them inside an accepted run.
            for at in [20, 45, 70, 88] {
                same(&format!("--stop-id {}", made[at]));
            }
        }
    }
    assert!(saved > 0, "some guesses were right");
    for bad in ["9", "-1", "x", "+1"] {
        bench.refused(&format!("--ids 1 --spec {bad}"), 2, "--spec");
    }
}
