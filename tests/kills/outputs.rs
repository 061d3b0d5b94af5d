//! Whoever listens goes away, or stops the program for a while, or closes the terminal: nothing is lost, and where it can go on
//! it does.

use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use k3::chat::Store;
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

use crate::chat::{HISTORY, SAID, Whole, command};

/// Far more than anything takes: only a failure waits so long.
const LONG: Duration = Duration::from_secs(120);

fn lines() -> String {
    SAID.map(|line| format!("{line}\n")).concat()
}

fn start(whole: &Whole, folder: &std::path::Path) -> Child {
    let mut child = command(folder, whole.home(), &[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut typed = child.stdin.take().unwrap();
    typed.write_all(lines().as_bytes()).unwrap();
    child
}

fn first_bytes(child: &mut Child, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut bytes)
        .unwrap();
    bytes
}

#[test]
fn a_reader_of_the_answers_that_goes_away_costs_nothing() {
    let whole = Whole::new();
    for printed in [1, 40, 200] {
        let folder = tempfile::tempdir().unwrap();
        let mut child = start(&whole, folder.path());
        first_bytes(&mut child, printed);
        drop(child.stdout.take());
        let mut err = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut err)
            .unwrap();
        let status = child.wait().unwrap();
        crate::faults::ended_in_words(
            status.code().is_none(),
            status.code(),
            &err,
            "a closed pipe",
            false,
        );
        whole.finish(folder.path(), "a closed pipe");
    }
}

#[test]
fn a_reader_of_the_messages_that_goes_away_is_not_needed() {
    let whole = Whole::new();
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(&whole, folder.path());
    drop(child.stderr.take());
    let mut out = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut out)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(out, whole.out());
    whole.finish(folder.path(), "no standard error");
}

/// The letter that `/proc` has for what a process does.
fn condition(child: &Child) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let (_, rest) = stat.rsplit_once(')').unwrap();
    rest.trim_start().chars().next().unwrap()
}

#[test]
fn a_program_that_sleeps_for_a_while_goes_on_as_if_nothing_had_been() {
    let whole = Whole::new();
    let folder = tempfile::tempdir().unwrap();
    let mut child = start(&whole, folder.path());
    let id = Pid::from_child(&child);
    let (mut out, mut sleeps) = (Vec::new(), 0);
    for more in [1, 30, 90] {
        out.extend(first_bytes(&mut child, more));
        // Not TSTP: of that a group that no shell looks after is spared.
        kill_process(id, Signal::STOP).unwrap();
        let begun = Instant::now();
        // On a fast machine it may have ended before it was asked.
        let mut now = condition(&child);
        while !['T', 'Z'].contains(&now) {
            assert!(begun.elapsed() < LONG, "it does not sleep");
            std::thread::yield_now();
            now = condition(&child);
        }
        sleeps += usize::from(now == 'T');
        kill_process(id, Signal::CONT).unwrap();
    }
    assert!(sleeps > 0, "it never slept");
    child.stdout.take().unwrap().read_to_end(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(String::from_utf8(out).unwrap(), whole.out());
    whole.finish(folder.path(), "a sleep");
}

#[test]
fn a_history_that_another_program_has_is_refused_and_left_alone() {
    let whole = Whole::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(HISTORY);
    std::fs::write(&path, "{\"role\":\"user\",\"content\":\"mine\"}\n").unwrap();
    let before = std::fs::read(&path).unwrap();
    let (held, _) = Store::open(&path).unwrap();
    let mut child = start(&whole, folder.path());
    let mut err = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut err)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{err}");
    assert!(err.contains(HISTORY) && err.contains("another k3"), "{err}");
    assert_eq!(std::fs::read(&path).unwrap(), before);
    drop(held);
}

/// The window is closed in the middle of an answer: both programs end by themselves, and what was said is there.
#[test]
fn a_terminal_that_is_closed_ends_the_program_and_loses_nothing() {
    let whole = Whole::new();
    let programs: [(&str, &[&str]); 2] = [
        (env!("CARGO_BIN_EXE_k3"), &["chat"]),
        (env!("CARGO_BIN_EXE_k3-tui"), &[]),
    ];
    for (program, first) in programs {
        let folder = tempfile::tempdir().unwrap();
        let history = folder.path().join(HISTORY);
        let size = PtySize {
            rows: 30,
            cols: 100,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(program);
        command.args(first);
        command.args(["--demo", "--thinking-effort", "max", "--history"]);
        command.arg(&history);
        command.env("TERM", "xterm-256color");
        command.env_remove("TMUX");
        for name in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env(name, whole.home());
        }
        let mut child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let mut reader = pair.master.try_clone_reader().unwrap();
        let mut writer = pair.master.take_writer().unwrap();
        // Both say when they are ready, and show what was typed.
        let mut until = |words: &[&str]| {
            let mut seen = Vec::new();
            let mut bytes = [0; 4096];
            let has =
                |seen: &[u8], word: &str| seen.windows(word.len()).any(|w| w == word.as_bytes());
            while !words.iter().any(|word| has(&seen, word)) {
                let count = reader.read(&mut bytes).unwrap();
                assert!(count > 0, "it ended: {}", String::from_utf8_lossy(&seen));
                seen.extend_from_slice(&bytes[..count]);
            }
        };
        until(&["user> ", "idle"]);
        writer.write_all(b"what is the ring?\r").unwrap();
        until(&["<think>", "answering", "thinking,"]);
        drop((reader, writer, pair.master));
        let begun = Instant::now();
        let code = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status.exit_code();
            }
            assert!(begun.elapsed() < LONG, "{program} does not end");
            std::thread::yield_now();
        };
        println!("{program}: exit code {code}");
        let (_, opened) = Store::open(&history).unwrap();
        assert_eq!(opened.messages[0].content, "what is the ring?");
    }
}
