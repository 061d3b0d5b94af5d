//! `k3 verify` as a script sees it: exit codes, the line of each fault, digests, and going on after a stop.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

const SHARD: &str = "model-00002-of-000003.safetensors";

/// A copy of a fixture, and a cache of its own.
struct Copy {
    dir: TempDir,
}

impl Copy {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let model = dir.path().join("my model");
        fs::create_dir(&model).unwrap();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tiny-a");
        for item in fs::read_dir(fixture).unwrap() {
            let item = item.unwrap();
            fs::copy(item.path(), model.join(item.file_name())).unwrap();
        }
        Self { dir }
    }

    fn model(&self) -> PathBuf {
        self.dir.path().join("my model")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_k3"));
        command
            .arg("verify")
            .arg(self.model())
            .args(arguments)
            .env("HOME", self.dir.path())
            .env("XDG_CACHE_HOME", self.dir.path().join("cache"));
        command
    }

    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        told(&self.command(arguments).output().unwrap())
    }
}

fn told(output: &Output) -> (i32, String, String) {
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout.clone()).unwrap(),
        String::from_utf8(output.stderr.clone()).unwrap(),
    )
}

fn sha256(path: &Path) -> String {
    let digest = Sha256::digest(fs::read(path).unwrap());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The list that `sha256sum *` would write.
fn list(folder: &Path) -> String {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|item| item.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
        .iter()
        .map(|name| format!("{}  {name}\n", sha256(&folder.join(name))))
        .collect()
}

#[test]
fn a_whole_model_is_right_and_headers_are_said_to_be_all_that_was_read() {
    let copy = Copy::new();
    let (code, out, error) = copy.run(&[]);
    assert_eq!((code, out.as_str()), (0, ""), "{error}");
    assert!(
        error.contains("3 shards") && error.contains("--full reads every byte"),
        "{error}"
    );
    let (code, out, _) = copy.run(&["--json"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (code, &report["right"], &report["shards"]),
        (0, &true.into(), &3.into())
    );
    assert_eq!(report["faults"], serde_json::json!([]));
    assert_eq!(report["bytes"], Value::Null);
}

#[test]
fn each_fault_is_a_line_with_the_file_and_what_to_do() {
    let copy = Copy::new();
    let shard = copy.model().join(SHARD);
    let whole = fs::read(&shard).unwrap();
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 99\n";
    for (content, word, remedy) in [
        (
            Some(&pointer[..]),
            "Git LFS pointer",
            "delete it and fetch it again",
        ),
        (
            Some(b"<html>no</html>"),
            "web page",
            "delete it and fetch it again",
        ),
        (
            Some(&whole[..whole.len() - 7]),
            "incomplete",
            "delete it and fetch it again",
        ),
        (Some(&[0; 5000]), "zeros", "delete it and fetch it again"),
        (None, "is not here", "fetch it"),
    ] {
        match content {
            Some(content) => fs::write(&shard, content).unwrap(),
            None => fs::remove_file(&shard).unwrap(),
        }
        let (code, _, error) = copy.run(&[]);
        assert_eq!(code, 1, "{error}");
        let line = error
            .lines()
            .find(|line| line.contains(&format!("{SHARD}: ")))
            .unwrap();
        assert!(line.contains(word) && line.contains(remedy), "{line}");
        assert!(error.contains("1 fault found"), "{error}");
        let (code, out, _) = copy.run(&["--json"]);
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &report["right"]), (1, &false.into()));
        assert_eq!(report["faults"][0]["file"], SHARD);
    }
}

#[test]
fn without_digests_the_list_is_printed_and_said_to_be_compared_with_nothing() {
    let copy = Copy::new();
    let (code, out, error) = copy.run(&["--full", "--readers", "3"]);
    assert_eq!((code, out), (0, list(&copy.model())), "{error}");
    assert!(error.contains("NOTHING was compared"), "{error}");
}

#[test]
fn a_flipped_byte_of_the_weights_is_found_by_a_list_only() {
    let (copy, other) = (Copy::new(), Copy::new());
    let sums = copy.dir.path().join("sums");
    fs::write(&sums, copy.run(&["--full"]).1).unwrap();
    let sums = sums.to_str().unwrap();
    let (code, _, error) = other.run(&["--full", "--digests", sums]);
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("5 files were read and compared"), "{error}");

    let shard = other.model().join(SHARD);
    let mut bytes = fs::read(&shard).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&shard, bytes).unwrap();
    assert_eq!(other.run(&[]).0, 0, "headers do not tell");
    let (code, out, error) = other.run(&["--full", "--digests", sums, "--json"]);
    assert_eq!(code, 1);
    assert!(error.contains(&format!("{SHARD}: has SHA-256")), "{error}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["bytes"]["compared"], 5);
    let files = report["bytes"]["files"].as_array().unwrap();
    let file = files.iter().find(|file| file["name"] == SHARD).unwrap();
    assert_eq!(file["sha256"], sha256(&shard));
    assert_eq!(file["expected_by"], "list");

    // A file of the list that is not here is a fault too.
    fs::remove_file(other.model().join("model.safetensors.index.json")).unwrap();
    let (_, _, error) = other.run(&["--full", "--digests", sums]);
    assert!(error.contains("index.json: cannot be read"), "{error}");
}

#[test]
fn what_the_client_noted_is_compared_and_its_revision_told() {
    let copy = Copy::new();
    let notes = copy.model().join(".cache/huggingface/download");
    fs::create_dir_all(&notes).unwrap();
    let commit = "1234567890".repeat(4);
    let note = |tag: &str| {
        fs::write(
            notes.join(format!("{SHARD}.metadata")),
            format!("{commit}\n{tag}\n17.5\n"),
        )
        .unwrap();
    };
    note(&sha256(&copy.model().join(SHARD)));
    let (code, _, error) = copy.run(&["--full"]);
    assert_eq!(code, 0, "{error}");
    assert!(
        error.contains("1 of them compared") && error.contains(&commit),
        "{error}"
    );
    note(&"0".repeat(64));
    let (code, _, error) = copy.run(&["--full"]);
    assert_eq!(code, 1);
    assert!(error.contains("noted when it was fetched"), "{error}");
}

/// The file that comes last is all holes and so long that hashing it would take minutes: the stop comes during it.
#[cfg(target_os = "linux")]
#[test]
fn after_a_stop_files_that_were_read_are_not_read_again() {
    use rustix::process::{Pid, Signal, kill_process};
    let copy = Copy::new();
    let long = copy.model().join("z");
    fs::File::create(&long).unwrap().set_len(1 << 40).unwrap();
    let mut command = copy.command(&["--full", "--readers", "1"]);
    let child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let folder = copy.dir.path().join("cache/k3-tui/verify");
    let journal = || {
        let mut files = fs::read_dir(&folder).into_iter().flatten().flatten();
        files.next().map(|item| item.path())
    };
    // Until the last file before the long one is entered.
    let entered = loop {
        let Some(path) = journal() else { continue };
        let text = fs::read_to_string(&path).unwrap();
        if text.lines().count() == 5 && text.ends_with('\n') {
            break text;
        }
        std::thread::yield_now();
    };
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let (code, out, error) = told(&child.wait_with_output().unwrap());
    assert_eq!((code, out.as_str()), (5, ""), "{error}");
    assert!(
        error.contains("the same command goes on from here"),
        "{error}"
    );

    // A digest that is wrong in the journal comes out wrong: the file was not read.
    let right = sha256(&copy.model().join(SHARD));
    let wrong = "0".repeat(64);
    fs::write(journal().unwrap(), entered.replace(&right, &wrong)).unwrap();
    fs::write(&long, "short").unwrap();
    let (code, out, error) = copy.run(&["--full"]);
    assert_eq!(code, 0, "{error}");
    assert!(error.contains("going on after a stop"), "{error}");
    assert!(out.contains(&format!("{wrong}  {SHARD}\n")), "{out}");
    assert!(out.contains(&format!("{}  z\n", sha256(&long))), "{out}");
    // All were read: the journal is gone, and everything is read again.
    assert_eq!(journal(), None);
    assert_eq!(copy.run(&["--full"]).1, list(&copy.model()));
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let copy = Copy::new();
    let garbled = copy.dir.path().join("garbled");
    fs::write(&garbled, "this is no list\n").unwrap();
    for (arguments, word) in [
        (&["--answers"][..], "leave --answers out"),
        (&["--digests", "x"], "--full"),
        (&["--full", "--digests", "no such list"], "no such list"),
        (
            &["--full", "--digests", garbled.to_str().unwrap()],
            "line 1",
        ),
        (&["--readers", "0", "--full"], "--readers"),
    ] {
        let (code, out, error) = copy.run(arguments);
        assert_eq!((code, out.as_str()), (2, ""), "{arguments:?}: {error}");
        assert!(error.contains(word), "{error}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_k3"));
    let (code, _, error) = told(&command.args(["verify", "no such folder"]).output().unwrap());
    assert_eq!(code, 2);
    assert!(error.contains("no such folder does not exist"), "{error}");
}

#[test]
fn the_demo_model_inside_the_program_is_right() {
    let copy = Copy::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_k3"));
    command
        .args(["verify", "--full"])
        .env("HOME", copy.dir.path())
        .env("XDG_CACHE_HOME", copy.dir.path().join("cache"));
    let (code, out, error) = told(&command.output().unwrap());
    assert_eq!(code, 0, "{error}");
    assert_eq!(out.lines().count(), 7, "{out}");
}
