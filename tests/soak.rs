//! A long evening with the demo model: turns, stops, resets, other conversations, other memory plans. Memory, open files, threads
//! and the processor's time for a token stay where they were when everything had happened once. A few rounds always run;
//! `K3_SOAK=3600` goes on for so many seconds:
//!
//!     K3_SOAK=3600 cargo test --release --test soak -- --nocapture
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod demo;
#[path = "support/draw.rs"]
#[allow(dead_code)]
mod draw;

use std::path::Path;
use std::time::{Duration, Instant};

use draw::XorShift;
use k3::engine::telemetry::status_bytes;
use k3::engine::{self, Command, Event, Handle};
use k3::stream::Preset;
use k3::text::Effort;

const SEED: u32 = 20_261_130;
/// Rounds that always run, and those after which everything has happened once.
const FEW: usize = 3;
const WARM: usize = 2;
/// Memory may move by so much: the allocator keeps what it was given in its own way.
const SLACK: u64 = 24 << 20;

const SAID: [&str; 6] = [
    "hello",
    "thanks",
    "what is the ring?",
    "how are you?",
    "what is a preset?",
    "tell me more",
];

/// What a process has.
#[derive(Clone, Copy, Debug)]
struct Held {
    memory: u64,
    files: usize,
    threads: usize,
}

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

fn held() -> Held {
    Held {
        memory: status_bytes("VmRSS:").unwrap(),
        files: entries("/proc/self/fd"),
        threads: entries("/proc/self/task"),
    }
}

/// Seconds that the processor worked for this process.
fn worked() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    let fields: Vec<f64> = rest
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // User and system time are the 14th and 15th field of the line, in hundredths of a second.
    (fields[10] + fields[11]) / 100.0
}

fn next(engine: &Handle) -> Event {
    // Far more than anything takes: only a failure waits so long.
    let event = engine.events.recv_timeout(Duration::from_secs(120));
    match event.expect("an event") {
        Event::Stopped(why) => panic!("the engine stopped: {why:?}"),
        Event::Warning(why) => panic!("{why}"),
        event => event,
    }
}

/// Asks, and takes events until the answer; how many tokens came on the way.
fn ask(engine: &Handle, command: Command, answer: impl Fn(&Event) -> bool) -> usize {
    engine.commands.send(command).unwrap();
    wait(engine, answer)
}

fn wait(engine: &Handle, answer: impl Fn(&Event) -> bool) -> usize {
    let mut tokens = 0;
    loop {
        let event = next(engine);
        tokens += usize::from(matches!(event, Event::Delta { .. }));
        if answer(&event) {
            return tokens;
        }
    }
}

fn ended(event: &Event) -> bool {
    matches!(event, Event::TurnEnded(_) | Event::Refused(_))
}

/// One round: every kind of thing once or more. How many turns and tokens there were.
fn round(engine: &Handle, folder: &Path, draw: &mut XorShift) -> (usize, usize) {
    let (mut turns, mut tokens) = (0, 0);
    for preset in [Preset::Ultra, Preset::Laptop] {
        ask(engine, Command::Preset(preset), |event| {
            matches!(event, Event::Planned { .. } | Event::Refused(_))
        });
        for _ in 0..3 {
            let text = SAID[draw.below(SAID.len())].to_owned();
            tokens += ask(engine, Command::Send(text), ended);
            turns += 1;
        }
        tokens += ask(engine, Command::Regenerate, ended);
        turns += 1;
        // A turn that is stopped after a token or two, and gone on with.
        let text = SAID[draw.below(SAID.len())].to_owned();
        let delta = |event: &Event| matches!(event, Event::Delta { .. }) || ended(event);
        tokens += ask(engine, Command::Send(text), delta);
        // It may end by itself first; then the wish is refused behind it.
        engine.commands.send(Command::Cancel).unwrap();
        tokens += wait(engine, ended);
        tokens += ask(engine, Command::Effort(Effort::Low), |event| {
            matches!(event, Event::ThinkingIs { .. })
        });
        let other = folder.join(format!("talk-{}.jsonl", draw.below(3)));
        ask(engine, Command::Load(other), |event| {
            matches!(event, Event::Loaded { .. } | Event::Refused(_))
        });
        ask(engine, Command::Reset, |event| {
            matches!(event, Event::Reset { .. })
        });
    }
    (turns, tokens)
}

#[test]
fn an_evening_holds_no_more_than_its_first_minutes() {
    let seconds = std::env::var("K3_SOAK").ok().and_then(|n| n.parse().ok());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let folder = tempfile::tempdir().unwrap();
    let states = folder.path().join("states");
    let (history, states) = (folder.path().join("talk-0.jsonl"), states.to_str().unwrap());
    let flags = [
        "--no-think",
        "--gen",
        "24",
        "--history",
        history.to_str().unwrap(),
        "--state-dir",
        states,
    ];
    let plan = demo::chat(&flags);
    let engine = engine::start(move || plan.open()).unwrap();
    wait(&engine, |event| matches!(event, Event::Ready { .. }));
    let mut draw = XorShift::new(SEED);
    let mut rounds: Vec<(Held, f64)> = Vec::new();
    let (mut turns, mut tokens) = (0, 0);
    let goes_on = |done: usize| match until {
        Some(until) => Instant::now() < until || done < FEW,
        None => done < FEW,
    };
    while goes_on(rounds.len()) {
        let before = worked();
        let (more_turns, more) = round(&engine, folder.path(), &mut draw);
        (turns, tokens) = (turns + more_turns, tokens + more);
        rounds.push((held(), (worked() - before) / more.max(1) as f64));
        if rounds.len().is_power_of_two() {
            println!("round {}: {:?}", rounds.len(), rounds[rounds.len() - 1]);
        }
    }
    let (warm, rest) = rounds.split_at(WARM);
    let most = |rounds: &[(Held, f64)]| {
        let memory = rounds.iter().map(|(held, _)| held.memory).max();
        let files = rounds.iter().map(|(held, _)| held.files).max();
        let threads = rounds.iter().map(|(held, _)| held.threads).max();
        (memory.unwrap(), files.unwrap(), threads.unwrap())
    };
    let ((memory, files, threads), late) = (most(warm), most(rest));
    println!(
        "{turns} turns, {tokens} tokens, {} rounds; at first {:.1} MB, {files} files, {threads} threads; later at most \
         {:.1} MB, {} files, {} threads",
        rounds.len(),
        memory as f64 / 1e6,
        late.0 as f64 / 1e6,
        late.1,
        late.2
    );
    assert!(late.0 <= memory + SLACK, "memory grows");
    assert!(late.1 <= files, "files stay open");
    assert!(late.2 <= threads, "threads stay");
    if rest.len() >= 16 {
        let cost = |rounds: &[(Held, f64)]| {
            let mut costs: Vec<f64> = rounds.iter().map(|(_, cost)| *cost).collect();
            costs.sort_by(f64::total_cmp);
            costs[costs.len() / 2]
        };
        let quarter = rest.len() / 4;
        let (first, last) = (cost(&rest[..quarter]), cost(&rest[rest.len() - quarter..]));
        println!("processor: {first:.4} s a token in the first quarter, {last:.4} s in the last");
        assert!(last <= 1.5 * first, "a token costs more and more");
    }
    // Whoever says nothing costs nothing: no event comes, and hardly any time is worked.
    let before = worked();
    let nothing = engine.events.recv_timeout(Duration::from_secs(3));
    assert!(nothing.is_err(), "{nothing:?}");
    let idle = worked() - before;
    println!("idle for 3 s: {idle:.2} s of the processor");
    assert!(idle < 0.3, "{idle} s worked while nothing is asked");
    engine.commands.send(Command::Quit).unwrap();
    while !matches!(engine.events.recv().unwrap(), Event::Stopped(_)) {}
}
