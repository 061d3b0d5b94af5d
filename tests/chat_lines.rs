//! `k3 chat` line by line: its commands, signals, and a turn that did not end, through pipes and on a terminal.
#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use k3::chat::{Header, Store, now};
use k3::text::{Message, history};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

/// A folder for a conversation and everything else that a program leaves.
struct Talk {
    folder: tempfile::TempDir,
}

impl Talk {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn arguments(&self, more: &[&str]) -> Vec<String> {
        let (history, states) = (self.file("talk"), self.file("states"));
        let own = ["chat", "--demo", "--thinking-effort", "low", "--history"];
        let files = [
            history.to_str().unwrap(),
            "--state-dir",
            states.to_str().unwrap(),
        ];
        let all = own.iter().chain(&files).chain(more);
        all.map(|word| (*word).to_owned()).collect()
    }

    fn start(&self, more: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_k3"))
            .args(self.arguments(more))
            .env("HOME", self.folder.path())
            .env("XDG_CACHE_HOME", self.folder.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs with these lines; standard output and standard error.
    fn run(&self, more: &[&str], lines: &str) -> (String, String) {
        let mut child = self.start(more);
        child
            .stdin
            .take()
            .unwrap()
            .write_all(lines.as_bytes())
            .unwrap();
        let Output {
            status,
            stdout,
            stderr,
        } = child.wait_with_output().unwrap();
        let err = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(0), "{err}");
        (String::from_utf8(stdout).unwrap(), err)
    }

    fn messages(&self) -> Vec<Message> {
        history::read(&self.file("talk")).unwrap()
    }

    /// Makes the files that a kill leaves after ten tokens of the answer to `hello`. Gives the whole answer.
    fn killed(&self) -> Message {
        self.killed_after(Some(10))
    }

    /// The same after so many tokens, or all of them: the history was not saved any more.
    fn killed_after(&self, tokens: Option<usize>) -> Message {
        let whole = Self::new();
        whole.run(&[], "hello\n");
        let (_store, opened) = Store::open(&whole.file("talk")).unwrap();
        let made = opened.facts[1].clone().unwrap().answer.unwrap();
        let header = Header {
            model: made.model,
            thinking: made.thinking,
            sampling: made.sampling,
            turn: 1,
            goes_on_from: None,
            when: now(),
        };
        let (mut store, _) = Store::open(&self.file("talk")).unwrap();
        let messages = &opened.messages[..1];
        store.save(messages, &[None]).unwrap();
        store
            .begin_turn(
                messages,
                &header,
                &made.ids[..tokens.unwrap_or(made.ids.len())],
            )
            .unwrap();
        opened.messages[1].clone()
    }

    fn terminal(&self) -> Terminal {
        let pair = native_pty_system().openpty(PtySize::default()).unwrap();
        let mut reader = pair.master.try_clone_reader().unwrap();
        let (send, shown) = channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            while let Ok(1) = reader.read(&mut byte)
                && send.send(byte[0]).is_ok()
            {}
        });
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_k3"));
        command.args(self.arguments(&[]));
        command.env("HOME", self.folder.path());
        command.env("XDG_CACHE_HOME", self.folder.path());
        Terminal {
            child: pair.slave.spawn_command(command).unwrap(),
            shown,
            writer: pair.master.take_writer().unwrap(),
            _master: pair.master,
        }
    }
}

/// `k3 chat` on a terminal.
struct Terminal {
    child: Box<dyn portable_pty::Child + Send + Sync>,
    shown: Receiver<u8>,
    writer: Box<dyn Write + Send>,
    _master: Box<dyn portable_pty::MasterPty + Send>,
}

impl Terminal {
    /// Reads until it shows this; what was shown until then.
    fn until(&mut self, text: &str) -> String {
        let mut shown = Vec::new();
        while !String::from_utf8_lossy(&shown).ends_with(text) {
            // Far more than anything takes: only a failure waits so long.
            let Ok(byte) = self.shown.recv_timeout(Duration::from_secs(60)) else {
                let _ = self.child.kill();
                panic!("no {text:?} in {}", String::from_utf8_lossy(&shown));
            };
            shown.push(byte);
        }
        String::from_utf8(shown).unwrap()
    }

    fn send(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    fn end(mut self) -> u32 {
        self.child.wait().unwrap().exit_code()
    }
}

fn interrupt(child: &Child) {
    let id = Pid::from_raw(child.id().cast_signed()).unwrap();
    kill_process(id, Signal::INT).unwrap();
}

fn is_beginning(part: &Message, whole: &Message) -> bool {
    let thought = |message: &Message| message.reasoning_content.clone().unwrap_or_default();
    whole.content.starts_with(&part.content) && thought(whole).starts_with(&thought(part))
}

#[test]
fn help_lists_the_commands() {
    let talk = Talk::new();
    let (_, listed) = talk.run(&[], "/help\n");
    let help = Command::new(env!("CARGO_BIN_EXE_k3"))
        .args(["chat", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    for command in [
        "/help",
        "/reset",
        "/effort E",
        "/think on",
        "/system TEXT",
        "/exit",
    ] {
        assert!(
            listed.contains(command) && help.contains(command),
            "{command}"
        );
    }
}

#[test]
fn settings_are_taken_and_told() {
    let talk = Talk::new();
    let lines = "/system Be kind.\n/temp 0.5\n/seed 4\n/temp 0\nhello\n/system\n";
    let (_, err) = talk.run(&["--seed", "3", "--incremental"], lines);
    let told = [
        "8192 positions, drawing with temperature 1, top-p 0.95, seed 3;",
        "the system message is changed",
        "drawing with temperature 0.5, top-p 0.95, seed 3",
        "drawing with temperature 0.5, top-p 0.95, seed 4",
        "always the most probable token",
        "tokens again",
    ];
    let mut rest = err.as_str();
    for says in told {
        let at = rest.find(says);
        rest = &rest[at.unwrap_or_else(|| panic!("no {says:?} in {err}"))..];
    }
    assert_eq!(talk.messages()[0], Message::user("hello"));
}

#[test]
fn an_answer_has_as_many_tokens_as_gen_allows() {
    let talk = Talk::new();
    let (out, err) = talk.run(&["--gen", "2"], "hello\n");
    assert!(
        err.contains("2 and 0 tokens") && err.contains("/continue goes on"),
        "{err}"
    );
    let (more, err) = talk.run(&["--gen", "2"], "/continue\n");
    // Stopped at a limit, not interrupted: nothing goes on by itself.
    assert!(!err.contains("going on with it"), "{err}");
    let open = |text: &str| text.trim_end().trim_end_matches("</think>").to_owned();
    let (whole, _) = Talk::new().run(&[], "hello\n");
    let both = open(&out) + open(&more).trim_start_matches("<think>");
    assert!(whole.starts_with(&both), "{both:?} in {whole:?}");
}

#[test]
fn spellings_of_the_c_engine_are_answered_with_what_to_type() {
    for (arguments, says) in [
        (&["--chat", "model"][..], "k3 chat model"),
        (&["model", "--chat", "--tok", "x"], "k3 chat model"),
        (&["model", "--chat", "--ultra-low-memory"], "--preset ultra"),
        (&["--list-presets"], "k3 presets"),
        (&["chat", "--dump-cache-trace=x"], "k3 run --trace"),
    ] {
        let run = Command::new(env!("CARGO_BIN_EXE_k3"))
            .args(arguments)
            .output()
            .unwrap();
        let err = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(2), "{err}");
        assert!(err.contains(says), "{err}");
    }
}

#[test]
fn a_signal_between_two_answers_ends_with_5() {
    let talk = Talk::new();
    let mut child = talk.start(&[]);
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut banner = String::new();
    err.read_line(&mut banner).unwrap();
    assert!(banner.contains("/help lists the commands"), "{banner}");
    interrupt(&child);
    let mut rest = String::new();
    err.read_to_string(&mut rest).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5), "{rest}");
    assert!(rest.contains("interrupted"), "{rest}");
}

#[test]
fn a_signal_stops_the_answer_and_keeps_what_was_said() {
    let talk = Talk::new();
    let mut child = talk.start(&[]);
    // Standard input stays open: it is the signal that ends the program.
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"what is the ring?\n").unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0; 8]).unwrap();
    interrupt(&child);
    out.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let kept = talk.messages();
    assert_eq!(kept.len(), 2);
    drop(input);
    let whole = Talk::new();
    whole.run(&[], "what is the ring?\n");
    assert!(is_beginning(&kept[1], &whole.messages()[1]), "{kept:?}");
    // The next start goes on with it, unless the signal came behind the last token.
    let (_, err) = talk.run(&[], "");
    assert_eq!(
        err.contains("going on with it"),
        kept != whole.messages(),
        "{err}"
    );
    assert_eq!(talk.messages(), whole.messages());
}

#[test]
fn without_a_terminal_a_killed_turn_goes_on_with_a_word() {
    let talk = Talk::new();
    let whole = talk.killed();
    let (out, err) = talk.run(&[], "");
    assert!(err.contains("ended after 10 tokens"), "{err}");
    assert!(
        err.contains("the last answer was interrupted; going on with it"),
        "{err}"
    );
    assert!(out.ends_with("</response>\n"), "{out}");
    assert_eq!(talk.messages(), [Message::user("hello"), whole]);
    // Once it is whole nothing goes on.
    let (out, err) = talk.run(&[], "");
    assert!(out.is_empty() && !err.contains("interrupted"), "{err}");
}

#[test]
fn a_turn_that_was_killed_behind_its_last_token_is_whole() {
    let talk = Talk::new();
    let whole = talk.killed_after(None);
    let (out, err) = talk.run(&[], "");
    assert!(
        err.contains("had come to its end") && !err.contains("interrupted"),
        "{err}"
    );
    assert_eq!(out, "");
    assert_eq!(talk.messages(), [Message::user("hello"), whole]);
}

#[test]
fn at_a_terminal_a_killed_turn_is_offered() {
    for (choice, left) in [("g", 2), ("k", 2), ("d", 0)] {
        let talk = Talk::new();
        let whole = talk.killed();
        let mut terminal = talk.terminal();
        let shown = terminal.until("g, k or d? ");
        assert!(shown.contains("ended after 10 tokens"), "{shown}");
        terminal.send("what?\r");
        terminal.until("g, k or d? ");
        terminal.send(&format!("{choice}\r"));
        terminal.until("user> ");
        terminal.send("\u{4}");
        assert_eq!(terminal.end(), 0);
        let kept = talk.messages();
        assert_eq!(kept.len(), left, "{choice}");
        if let Some(answer) = kept.last() {
            assert!(is_beginning(answer, &whole));
            assert_eq!(*answer == whole, choice == "g");
        }
    }
}

#[test]
fn at_a_terminal_an_unanswered_message_is_offered() {
    for (choice, left) in [("a", 2), ("d", 0)] {
        let talk = Talk::new();
        let line = "{\"role\":\"user\",\"content\":\"hello\"}\n";
        std::fs::write(talk.file("talk"), line).unwrap();
        let mut terminal = talk.terminal();
        terminal.until("a or d? ");
        terminal.send(&format!("{choice}\r"));
        terminal.until("user> ");
        terminal.send("/exit\r");
        assert_eq!(terminal.end(), 0);
        assert_eq!(talk.messages().len(), left, "{choice}");
    }
}

#[test]
fn at_a_terminal_ctrl_c_stops_the_answer_and_then_the_program() {
    let talk = Talk::new();
    let mut terminal = talk.terminal();
    terminal.until("user> ");
    terminal.send("what is the ring?\r");
    terminal.until("<think>");
    terminal.send("\u{3}");
    // Back at the prompt: the answer was stopped, the program goes on.
    terminal.until("user> ");
    terminal.send("/help\r");
    terminal.until("user> ");
    terminal.send("\u{3}");
    assert_eq!(terminal.end(), 5);
    assert_eq!(talk.messages().len(), 2);
}
