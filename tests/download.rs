//! `k3 download` with a client that a test writes: it notes what it is called with, copies files from a folder, and fails
//! when it is told to. Nothing of a network.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// What the client does: notes its arguments, finds out where to put what, copies from the folder `source`, and notes commit
/// and digest of what it copied as the real one does. `fail` ends it after the first shard, once; `hang` stops it there.
const CLIENT: &str = r#"#!/bin/sh
world=$(dirname "$(dirname "$0")")
echo "$*" >> "$world/calls"
shift
while [ $# -gt 0 ]; do
    case "$1" in
        --local-dir) dir=$2; shift ;;
        --revision) revision=$2; shift ;;
        --exclude) small=1; shift ;;
        config.json) only=config.json ;;
    esac
    shift
done
[ "$revision" = main ] && revision=$(cat "$world/main")
notes=$dir/.cache/huggingface/download
mkdir -p "$notes"
fetch() {
    cp "$1" "$dir/"
    name=$(basename "$1")
    printf '%s\n%s\n0\n' "$revision" "$(sha256sum < "$1" | cut -d' ' -f1)" > "$notes/$name.metadata"
}
for file in "$world"/source/*; do
    name=$(basename "$file")
    [ -n "$only" ] && [ "$name" != "$only" ] && continue
    case "$name" in *.safetensors) [ -n "$small" ] && continue ;; esac
    fetch "$file"
    case "$name" in
        *.safetensors)
            if [ -e "$world/fail" ]; then rm "$world/fail"; echo "the line is dead" >&2; exit 7; fi
            if [ -e "$world/hang" ]; then mv "$world/hang" "$world/hanging"; exec sleep 600; fi ;;
    esac
done
"#;

/// A client, what it fetches from, and a folder for the model.
struct World {
    dir: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        let (bin, source) = (world.path("bin"), world.path("source"));
        fs::create_dir(&bin).unwrap();
        fs::create_dir(&source).unwrap();
        let client = bin.join("hf");
        fs::write(&client, CLIENT).unwrap();
        fs::set_permissions(&client, fs::Permissions::from_mode(0o755)).unwrap();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tiny-a");
        for item in fs::read_dir(fixture).unwrap() {
            let item = item.unwrap();
            fs::copy(item.path(), source.join(item.file_name())).unwrap();
        }
        fs::write(world.path("main"), A).unwrap();
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn model(&self) -> PathBuf {
        self.path("my model")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_k3"));
        command
            .arg("download")
            .arg(self.model())
            .args(arguments)
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("HOME", self.dir.path())
            .env("XDG_CACHE_HOME", self.path("cache"));
        command
    }

    fn run(&self, arguments: &[&str]) -> (i32, String) {
        told(&self.command(arguments).output().unwrap())
    }

    /// What the client was called with, and what the folder is called in it.
    fn calls(&self) -> Vec<String> {
        let calls = fs::read_to_string(self.path("calls")).unwrap_or_default();
        let model = self.model().display().to_string();
        calls
            .lines()
            .map(|call| call.replace(&model, "DIR"))
            .collect()
    }
}

fn told(output: &Output) -> (i32, String) {
    let error = String::from_utf8(output.stderr.clone()).unwrap();
    (output.status.code().unwrap(), error)
}

fn fetches(revision: &str) -> [String; 2] {
    let call = format!("download moonshotai/Kimi-K3 --revision {revision} --local-dir DIR");
    [
        format!("{call} --exclude *.safetensors"),
        format!("{call} --max-workers 16"),
    ]
}

#[test]
fn a_commit_is_fetched_small_files_first_and_looked_at_afterwards() {
    let world = World::new();
    let (code, error) = world.run(&["--revision", A]);
    assert_eq!(code, 0, "{error}");
    assert_eq!(world.calls(), fetches(A));
    assert!(error.contains("nothing wrong was found"), "{error}");
    // A path with a blank can be pasted.
    let next = format!("k3 verify '{}' --full", world.model().display());
    assert!(error.contains(&next), "{error}");
    let pin = fs::read_to_string(world.model().join(".k3-download.json")).unwrap();
    assert!(
        pin.contains(A) && pin.contains("moonshotai/Kimi-K3"),
        "{pin}"
    );
}

#[test]
fn after_a_failure_the_same_revision_is_gone_on_with() {
    let world = World::new();
    fs::write(world.path("fail"), "").unwrap();
    let (code, error) = world.run(&["--revision", A]);
    assert_eq!(code, 1, "{error}");
    assert!(
        error.contains("the line is dead"),
        "its own words are shown: {error}"
    );
    assert!(
        error.contains("exit status: 7") && error.contains("goes on from there"),
        "{error}"
    );
    // Without a revision, what the folder has is meant, and not a default.
    let (code, error) = world.run(&["--full"]);
    assert_eq!(code, 0, "{error}");
    assert_eq!(world.calls(), [fetches(A), fetches(A)].concat());
    assert!(error.contains(&format!("all of revision {A}")), "{error}");
}

#[test]
fn a_branch_is_resolved_once() {
    let world = World::new();
    let (code, error) = world.run(&["--revision", "main"]);
    assert_eq!(code, 0, "{error}");
    let calls = world.calls();
    assert!(
        calls[0].starts_with("download moonshotai/Kimi-K3 config.json --revision main"),
        "{calls:?}"
    );
    assert_eq!(calls[1..], fetches(A));
    // The branch moves: what the folder has is another revision now.
    fs::write(world.path("main"), B).unwrap();
    let (code, error) = world.run(&["--revision", "main"]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains(A) && error.contains(B), "{error}");
    assert_eq!(world.calls().len(), 4, "only the branch was asked for");
    assert_eq!(world.run(&[]).0, 0);
    assert_eq!(world.calls()[4..], fetches(A));
    // Nothing of the asking is left.
    let left = fs::read_dir(world.model()).unwrap().flatten();
    assert!(
        !left
            .map(|item| item.file_name())
            .any(|name| name.to_string_lossy().contains("revision"))
    );
}

#[test]
fn what_came_wrong_is_a_fault() {
    let world = World::new();
    let shard = "model-00003-of-000003.safetensors";
    fs::write(
        world.path("source").join(shard),
        "version https://git-lfs.github.com/spec/v1\n",
    )
    .unwrap();
    let (code, error) = world.run(&["--revision", A]);
    assert_eq!(code, 1, "{error}");
    assert!(
        error.contains(&format!("{shard}: is a Git LFS pointer")),
        "{error}"
    );
}

#[test]
fn a_drive_that_is_too_full_is_refused_before_the_shards() {
    let world = World::new();
    let index = world.path("source").join("model.safetensors.index.json");
    let text = fs::read_to_string(&index).unwrap();
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    // More than any drive has.
    value["metadata"]["total_size"] = (1_u64 << 62).into();
    fs::write(&index, value.to_string()).unwrap();
    let (code, error) = world.run(&["--revision", A]);
    assert_eq!(code, 2, "{error}");
    assert!(
        error.contains("the drive is too full") && error.contains("are free"),
        "{error}"
    );
    assert_eq!(world.calls(), fetches(A)[..1]);
}

#[test]
fn without_a_client_the_steps_are_told() {
    let world = World::new();
    let mut command = world.command(&["--revision", A]);
    let (code, error) = told(&command.env("PATH", world.path("source")).output().unwrap());
    assert_eq!(code, 2, "{error}");
    for step in [
        "there is no `hf`",
        "pip install",
        &format!("--revision {A}"),
        "k3 verify '",
    ] {
        assert!(error.contains(step), "{step}: {error}");
    }
    assert!(!world.model().exists(), "nothing was begun");
}

#[test]
fn what_cannot_be_fetched_is_refused_before_the_client_is_called() {
    let world = World::new();
    for (arguments, word) in [
        (&["--revision", "two words"][..], "--revision"),
        (&["--revision=-x"], "--revision"),
        (&["--repository", "no-owner"], "OWNER/NAME"),
    ] {
        let (code, error) = world.run(arguments);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(word), "{error}");
    }
    fs::create_dir(world.model()).unwrap();
    fs::write(world.model().join(".k3-download.json"), "{").unwrap();
    assert_eq!(world.run(&[]).0, 2);
    let other = format!("{{\"repository\":\"an/other\",\"revision\":\"{A}\"}}");
    fs::write(world.model().join(".k3-download.json"), other).unwrap();
    let (code, error) = world.run(&[]);
    assert_eq!(code, 2);
    assert!(error.contains("holds an/other"), "{error}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_k3"));
    command.arg("download").arg(world.path("main"));
    assert_eq!(told(&command.output().unwrap()).0, 2, "a file is no folder");
    assert_eq!(world.calls(), [] as [String; 0]);
}

#[test]
fn a_signal_ends_the_client_too_and_is_gone_on_from() {
    use rustix::process::{Pid, Signal, kill_process};
    let world = World::new();
    fs::write(world.path("hang"), "").unwrap();
    let child = world
        .command(&["--revision", A])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !world.path("hanging").exists() {
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    // The output ends when the client, which shares it, has ended too.
    let (code, error) = told(&child.wait_with_output().unwrap());
    assert_eq!(code, 5, "{error}");
    let (code, error) = world.run(&[]);
    assert_eq!(code, 0, "{error}");
}
