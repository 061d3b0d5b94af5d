//! What the system can do to a program: calls that fail, once or from then on. Whatever fails and when: the program ends in
//! words and not by a panic, what it says is done is right, every file is whole or as it was, and when the system is well again
//! the same command gives the same result.

use std::collections::BTreeMap;
use std::path::Path;

use crate::draw::XorShift;
use crate::{Blow, can_trace, chat, counted, k3, packs, states, striking, watching};

/// Calls, and what they fail with: a full drive, one that became read-only, one that is gone, no handles, no memory, no threads,
/// an interruption.
const FAULTS: [(&str, &[&str]); 14] = [
    ("openat", &["EMFILE", "EROFS", "EACCES", "EIO"]),
    ("read", &["EIO"]),
    ("pread64", &["EIO", "EINTR", "ENODEV"]),
    ("write", &["ENOSPC", "EIO", "EROFS"]),
    ("fsync", &["EIO", "ENOSPC"]),
    ("fdatasync", &["EIO", "ENOSPC"]),
    ("ftruncate", &["EIO"]),
    ("rename", &["ENOSPC", "EROFS"]),
    ("renameat", &["ENOSPC", "EROFS"]),
    ("unlink", &["EROFS"]),
    ("mkdir", &["ENOSPC", "EROFS"]),
    ("mmap", &["ENOMEM"]),
    ("clone3", &["EAGAIN"]),
    ("flock", &["ENOLCK"]),
];

/// Calls that the system's loader makes before the program begins: nothing that fails there is the program's.
const LOADER: [(&str, usize); 4] = [("openat", 5), ("read", 8), ("pread64", 4), ("mmap", 40)];

/// That a program ended by itself with an exit code of its own, and without a panic. Where there is no memory at all, the
/// language's runtime ends the process: that is an end without words of ours, and only allowed for want of memory.
/// `mute`: its words cannot be written either.
pub fn ended_in_words(killed: bool, code: Option<i32>, err: &str, place: &str, mute: bool) {
    if code == Some(127) && err.contains("error while loading shared libraries") {
        // How often the loader looks for them depends on the machine.
        return;
    }
    assert!(!err.contains("panicked"), "{place}: {err}");
    let no_memory = err.contains("memory allocation of");
    assert!(!killed || no_memory, "{place}: {err}");
    if let Some(code) = code {
        assert!(
            (0..=5).contains(&code) || no_memory,
            "{place}: {code}: {err}"
        );
        let said = mute || !err.trim().is_empty();
        assert!(code == 0 || said, "{place}: {code} without a word");
    }
}

/// A fault, drawn from those whose calls the program makes.
fn drawn(
    draw: &mut XorShift,
    calls: &BTreeMap<&'static str, usize>,
) -> Option<(&'static str, usize, Blow)> {
    let (call, errors) = FAULTS[draw.below(FAULTS.len())];
    let first = LOADER.iter().find(|(name, _)| *name == call);
    let first = first.map_or(1, |(_, count)| count + 1);
    let most = *calls.get(call).filter(|most| **most >= first)?;
    let n = first + draw.below(most - first + 1);
    let error = errors[draw.below(errors.len())];
    // An interruption is over when it was told; a call that is interrupted for ever is no fault of any drive.
    let blow = match draw.below(2) == 0 || error == "EINTR" {
        true => Blow::Once(error),
        false => Blow::Always(error),
    };
    Some((call, n, blow))
}

/// Counts the calls of a run of `k3`.
fn calls(arguments: &[&str]) -> BTreeMap<&'static str, usize> {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("calls");
    let kinds = FAULTS.map(|(call, _)| call);
    let ended = k3(&watching(&kinds, &log, &[]), arguments);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    counted(&kinds, &log)
}

/// How many faults there were, by call, and how many a program ended by.
#[derive(Debug, Default)]
struct Faults {
    by: BTreeMap<&'static str, usize>,
    ended: usize,
}

fn of_packs(seed: u32, count: usize) -> Faults {
    let right = packs::Right::new();
    let scratch = tempfile::tempdir().unwrap();
    let calls = calls(&[
        "pack",
        packs::MODEL,
        scratch.path().join("p").to_str().unwrap(),
    ]);
    let (mut draw, mut faults) = (XorShift::new(seed), Faults::default());
    while faults.by.values().sum::<usize>() < count {
        let Some((call, n, blow)) = drawn(&mut draw, &calls) else {
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("pack");
        let place = format!("k3 pack, {call} {n}, {blow:?}");
        let ended = k3(
            &striking(call, n, blow),
            &["pack", packs::MODEL, out.to_str().unwrap()],
        );
        ended_in_words(
            ended.killed,
            ended.code,
            &ended.err,
            &place,
            call == "write",
        );
        let whole = right.check(&out);
        assert!(whole || ended.code != Some(0), "{place}: {}", ended.err);
        right.finish(&out);
        *faults.by.entry(call).or_default() += 1;
        faults.ended += usize::from(ended.code != Some(0));
    }
    faults
}

fn of_runs(seed: u32, count: usize) -> Faults {
    let right = states::Right::new();
    let scratch = tempfile::tempdir().unwrap();
    let [state, out] =
        ["s", "o"].map(|name| scratch.path().join(name).to_str().unwrap().to_owned());
    let calls = calls(&states::words(states::RUNS[0], &state, &out));
    let (mut draw, mut faults) = (XorShift::new(seed), Faults::default());
    while faults.by.values().sum::<usize>() < count {
        let folder = tempfile::tempdir().unwrap();
        let [state, out] =
            ["s", "o"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
        let mut failed = false;
        for (run, words) in states::RUNS.iter().enumerate() {
            let Some((call, n, blow)) = drawn(&mut draw, &calls) else {
                continue;
            };
            let place = format!("k3 run, {call} {n}, {blow:?}");
            let ended = k3(
                &striking(call, n, blow),
                &states::words(words, &state, &out),
            );
            ended_in_words(
                ended.killed,
                ended.code,
                &ended.err,
                &place,
                call == "write",
            );
            failed |= ended.code != Some(0);
            right.check(folder.path(), run, failed);
            let done = right.is_done(folder.path(), run);
            assert!(done || ended.code != Some(0), "{place}: {}", ended.err);
            *faults.by.entry(call).or_default() += 1;
            faults.ended += usize::from(ended.code != Some(0));
        }
        let ended = k3(&[], &states::words(states::RUNS[1], &state, &out));
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(right.is_done(folder.path(), 1));
    }
    faults
}

fn of_chats(seed: u32, count: usize) -> Faults {
    let whole = chat::Whole::new();
    let calls = chat_calls(whole.home());
    let (mut draw, mut faults) = (XorShift::new(seed), Faults::default());
    while faults.by.values().sum::<usize>() < count {
        let Some((call, n, blow)) = drawn(&mut draw, &calls) else {
            continue;
        };
        faults.ended += usize::from(whole.fault(call, n, blow));
        *faults.by.entry(call).or_default() += 1;
    }
    faults
}

/// Calls of a chat in which one thing is said; more answers only make more of them.
fn chat_calls(home: &Path) -> BTreeMap<&'static str, usize> {
    let log = home.join("fault-calls");
    let kinds = FAULTS.map(|(call, _)| call);
    chat::short(home, &watching(&kinds, &log, &[]));
    counted(&kinds, &log)
}

type Campaign = fn(u32, usize) -> Faults;

fn campaign(name: &str, of: Campaign, seed: u32, count: usize) {
    if !can_trace() {
        println!("faults of {name}: NOT RUN, there is no strace that may trace");
        return;
    }
    let faults = of(seed, count);
    println!("faults of {name}, seed {seed}: {faults:?}");
}

#[test]
fn faults_of_the_system_while_packing_end_in_words_and_whole_files() {
    campaign("k3 pack", of_packs, 20_261_130, 16);
}

#[test]
fn faults_of_the_system_while_running_end_in_words_and_whole_files() {
    campaign("k3 run", of_runs, 20_261_130, 24);
}

#[test]
fn faults_of_the_system_while_talking_end_in_words_and_lose_nothing() {
    campaign("k3 chat", of_chats, 20_261_130, 8);
}

#[test]
#[ignore = "takes minutes: cargo test --test kills -- --ignored --nocapture"]
fn what_four_hundred_faults_leave_of_packing() {
    campaign("k3 pack", of_packs, 5, 400);
}

#[test]
#[ignore = "takes minutes: cargo test --test kills -- --ignored --nocapture"]
fn what_four_hundred_faults_leave_of_a_run() {
    campaign("k3 run", of_runs, 6, 400);
}

#[test]
#[ignore = "takes minutes: cargo test --test kills -- --ignored --nocapture"]
fn what_two_hundred_faults_leave_of_a_chat() {
    campaign("k3 chat", of_chats, 7, 200);
}

/// Address space as `ulimit -v` gives it, from far too little to enough.
#[test]
fn a_run_with_too_little_memory_ends_in_words_or_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("o");
    let (mut right, mut refused) = (0, 0);
    for megabytes in [10, 20, 30, 40, 60, 80, 120, 200, 400, 1000, 4000] {
        let _ = std::fs::remove_file(&out);
        let limit = |words: &str| format!("ulimit -v {}; exec \"$0\" {words}", megabytes * 1024);
        let shell = |words: &str| {
            std::process::Command::new("sh")
                .args(["-c", &limit(words), env!("CARGO_BIN_EXE_k3"), states::MODEL])
                .arg(&out)
                .output()
                .unwrap()
        };
        // Below some size the system cannot even begin a program.
        if !shell("--version").status.success() {
            continue;
        }
        let output = shell("run \"$1\" --ids 5,7,11 --gen 3 --out \"$2\"");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let killed = output.status.code().is_none();
        ended_in_words(
            killed,
            output.status.code(),
            &err,
            &format!("{megabytes} MB"),
            false,
        );
        match output.status.code() {
            Some(0) => right += 1,
            _ => refused += 1,
        }
        assert_eq!(
            output.status.success(),
            out.exists(),
            "{megabytes} MB: {err}"
        );
    }
    println!("limits of memory: {right} right, {refused} ended");
    assert!(right > 0, "no limit was enough");
}
