//! Programs that are killed, told to end, or let down by the system at seeded moments while they work, and are started again.
//! Moments are counted in system calls and in bytes that were printed, never in time. A few always run; a thousand kills and as
//! many faults are asked for:
//!
//!     cargo test --test kills -- --ignored --nocapture
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../support/draw.rs"]
#[allow(dead_code)]
mod draw;

mod chat;
mod faults;
mod outputs;
mod packs;
mod states;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// What moments are counted in. A name that this machine has no call of is skipped (`?`).
const CALLS: [&str; 9] = [
    "write",
    "fdatasync",
    "fsync",
    "ftruncate",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
];

/// What comes over a program as it begins a call for the n-th time.
#[derive(Clone, Copy, Debug)]
enum Blow {
    /// It is killed.
    Kill,
    /// It gets this signal.
    Signal(&'static str),
    /// The call fails with this error.
    Once(&'static str),
    /// The call fails with this error, and so does every later one of its kind.
    Always(&'static str),
}

/// What calls are watched with; `more` says what is done about them.
fn tracer(log: &Path, more: &[String]) -> Vec<String> {
    watching(&CALLS, log, more)
}

/// The same for these calls.
fn watching(calls: &[&str], log: &Path, more: &[String]) -> Vec<String> {
    let calls: Vec<String> = calls.iter().map(|call| format!("?{call}")).collect();
    let calls = calls.join(",");
    let log = log.to_str().unwrap();
    let mut words = ["strace", "-f", "-qq", "-o", log]
        .map(String::from)
        .to_vec();
    words.extend(["-e".into(), format!("trace={calls}")]);
    words.extend_from_slice(more);
    words
}

/// The tracer that strikes as a thread begins this call for the n-th time.
fn striking(call: &str, n: usize, blow: Blow) -> Vec<String> {
    let what = match blow {
        Blow::Kill => format!("inject={call}:signal=SIGKILL:when={n}"),
        Blow::Signal(signal) => format!("inject={call}:signal={signal}:when={n}"),
        Blow::Once(error) => format!("inject={call}:error={error}:when={n}"),
        Blow::Always(error) => format!("inject={call}:error={error}:when={n}+"),
    };
    watching(&[call], Path::new("/dev/null"), &["-e".into(), what])
}

/// Whether calls can be watched on this machine.
fn can_trace() -> bool {
    let words = tracer(Path::new("/dev/null"), &[]);
    let run = Command::new(&words[0])
        .args(&words[1..])
        .arg("true")
        .output();
    run.is_ok_and(|output| output.status.success())
}

/// The most that one thread made of each call, by the tracer's log.
fn counted(kinds: &[&'static str], log: &Path) -> BTreeMap<&'static str, usize> {
    let log = std::fs::read_to_string(log).unwrap();
    let mut calls = BTreeMap::new();
    for &call in kinds {
        let mut threads = BTreeMap::<&str, usize>::new();
        for line in log.lines() {
            if let Some((thread, rest)) = line.split_once(' ')
                && rest.trim_start().starts_with(&format!("{call}("))
            {
                *threads.entry(thread).or_default() += 1;
            }
        }
        if let Some(most) = threads.into_values().max() {
            calls.insert(call, most);
        }
    }
    calls
}

/// How a run of `k3` ended.
struct Ended {
    killed: bool,
    code: Option<i32>,
    err: String,
}

/// Runs `k3` under a tracer, or by itself where there are no words for one.
fn k3(tracer: &[String], arguments: &[&str]) -> Ended {
    let program = env!("CARGO_BIN_EXE_k3");
    let mut words = tracer.iter().map(String::as_str).chain([program]);
    let output = Command::new(words.next().unwrap())
        .args(words)
        .args(arguments)
        // With Cargo's the loader would look for libraries in many folders, and count.
        .env_remove("LD_LIBRARY_PATH")
        .output()
        .unwrap();
    Ended {
        killed: output.status.signal().is_some(),
        code: output.status.code(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Names in a folder, in order; none where there is no folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Figures of a campaign.
#[derive(Debug, Default)]
struct Tally {
    kills: usize,
    /// By what they were counted in.
    by: BTreeMap<&'static str, usize>,
    /// Runs that ended before their moment came.
    survived: usize,
    /// Kills that left a part: of an answer, of a pack; of a state file none can be found.
    partial: usize,
}

impl Tally {
    fn note(&mut self, by: &'static str, killed: bool) {
        if !killed {
            self.survived += 1;
            return;
        }
        self.kills += 1;
        *self.by.entry(by).or_default() += 1;
    }
}
