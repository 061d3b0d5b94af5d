//! `k3 run --save-state --out` killed while it computes and writes: both files are as they were before or as they will be,
//! never in between.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::draw::XorShift;
use crate::{Blow, CALLS, Tally, can_trace, counted, k3, names, striking, tracer};

/// What runs.
pub const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tiny-a");

/// The two runs of every case; the second writes over what the first wrote.
pub const RUNS: [&str; 2] = ["--ids 5,7,11 --gen 2", "--ids 3,8 --gen 6"];

/// The words of a run.
pub fn words<'w>(run: &'w str, state: &'w str, out: &'w str) -> Vec<&'w str> {
    let mut words = vec!["run", MODEL, "--save-state", state, "--out", out];
    words.extend(run.split(' '));
    words
}

/// What the runs write when nothing kills them: the state, and the ids of the result.
pub struct Right {
    states: [Vec<u8>; 2],
    ids: [serde_json::Value; 2],
    calls: BTreeMap<&'static str, usize>,
}

fn ids(out: &Path) -> serde_json::Value {
    let result: serde_json::Value = serde_json::from_slice(&fs::read(out).unwrap()).unwrap();
    result["full_ids"].clone()
}

/// Whether `got` is a beginning of `all`.
fn begins(all: &serde_json::Value, got: &serde_json::Value) -> bool {
    let (Some(all), Some(got)) = (all.as_array(), got.as_array()) else {
        return false;
    };
    all.starts_with(got)
}

impl Right {
    /// Runs both, and counts calls.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let [state, out, log] = ["s", "o", "calls"].map(|name| folder.path().join(name));
        let mut calls = BTreeMap::new();
        let right = RUNS.map(|run| {
            let words = words(run, state.to_str().unwrap(), out.to_str().unwrap());
            let ended = k3(&tracer(&log, &[]), &words);
            assert_eq!(ended.code, Some(0), "{}", ended.err);
            calls = counted(&CALLS, &log);
            (fs::read(&state).unwrap(), ids(&out))
        });
        assert_eq!(names(folder.path()), ["calls", "o", "s"]);
        let [first, second] = right;
        assert!(first.0 != second.0 && first.1 != second.1);
        Self {
            states: [first.0, second.0],
            ids: [first.1, second.1],
            calls,
        }
    }

    /// Both files are those of run number `run` or of one before it; whatever else is there has a name of its own. One that
    /// ended by an error (`failed`) says in its result what it had until then.
    pub fn check(&self, folder: &Path, run: usize, failed: bool) {
        let [state, out] = ["s", "o"].map(|name| folder.join(name));
        if let Ok(there) = fs::read(&state) {
            assert!(self.states[..=run].contains(&there), "a state in between");
            let state = state.to_str().unwrap();
            let loaded = k3(&[], &["run", MODEL, "--load-state", state, "--gen", "1"]);
            assert_eq!(loaded.code, Some(0), "{}", loaded.err);
        }
        if out.exists() {
            let got = ids(&out);
            let runs = &self.ids[..=run];
            let begun = failed && runs.iter().any(|all| begins(all, &got));
            let there = begun || runs.contains(&got);
            assert!(there, "a result in between: {got}");
        }
        for name in names(folder) {
            let temporary = name.starts_with(".k3-state") || name.starts_with(".o.");
            assert!(["s", "o"].contains(&name.as_str()) || temporary, "{name}");
        }
    }

    /// Whether both files are those of run number `run`.
    pub fn is_done(&self, folder: &Path, run: usize) -> bool {
        let state = fs::read(folder.join("s")).is_ok_and(|state| state == self.states[run]);
        let out = folder.join("o");
        state && out.exists() && ids(&out) == self.ids[run]
    }

    fn case(&self, draw: &mut XorShift, tally: &mut Tally) {
        let folder = tempfile::tempdir().unwrap();
        let [state, out] = ["s", "o"].map(|name| folder.path().join(name));
        let [state_name, out_name] = [&state, &out].map(|path| path.to_str().unwrap());
        let calls: Vec<_> = self.calls.iter().collect();
        for (run, command) in RUNS.iter().enumerate() {
            let (call, most) = calls[draw.below(calls.len())];
            let tracer = striking(call, 1 + draw.below(*most), Blow::Kill);
            let ended = k3(&tracer, &words(command, state_name, out_name));
            assert!(ended.killed || ended.code == Some(0), "{}", ended.err);
            tally.note(call, ended.killed);
            self.check(folder.path(), run, false);
        }
        let ended = k3(&[], &words(RUNS[1], state_name, out_name));
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(self.is_done(folder.path(), 1));
    }
}

fn campaign(seed: u32, kills: usize) {
    if !can_trace() {
        println!("kills of k3 run: NOT RUN, there is no strace that may trace");
        return;
    }
    let right = Right::new();
    let (mut draw, mut tally) = (XorShift::new(seed), Tally::default());
    while tally.kills < kills {
        right.case(&mut draw, &mut tally);
    }
    println!("run, seed {seed}: {tally:?}");
}

#[test]
fn a_killed_run_leaves_whole_files_or_none() {
    campaign(20_261_130, 12);
}

#[test]
#[ignore = "takes a minute: cargo test --test kills -- --ignored --nocapture"]
fn what_three_hundred_kills_of_a_run_leave() {
    campaign(3, 300);
}
