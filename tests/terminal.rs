//! Whole sessions in a real terminal: a pseudo-terminal, a parser that knows what it shows, and the settings of the
//! terminal before and after.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod examples;
#[path = "support/server.rs"]
mod server;

use std::io::{Read, Write};
use std::num::NonZero;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use portable_pty::{
    Child, CommandBuilder, ExitStatus, MasterPty, PtySize, SlavePty, native_pty_system,
};
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// Far more than anything here takes; only a failure waits so long.
const DEADLINE: Duration = Duration::from_secs(60);

/// A terminal's size in characters.
fn size(columns: u16, rows: u16) -> PtySize {
    PtySize {
        rows,
        cols: columns,
        pixel_width: 0,
        pixel_height: 0,
    }
}

/// The screen on a scripted engine.
fn scripted() -> PathBuf {
    examples::example("scripted_screen")
}

/// What the terminal shows, and whether it shows something new.
struct Shown {
    parser: Mutex<vt100::Parser>,
    /// All bytes that came.
    bytes: Mutex<Vec<u8>>,
    news: Condvar,
}

fn cells(n: u16) -> NonZero<u16> {
    NonZero::new(n).unwrap()
}

/// A program in a terminal.
struct Session {
    master: Box<dyn MasterPty + Send>,
    /// Kept open, so that the settings can be read after the program has ended.
    _slave: Box<dyn SlavePty + Send>,
    writer: Box<dyn Write + Send>,
    child: Box<dyn Child + Send + Sync>,
    id: Pid,
    shown: Arc<Shown>,
    before: String,
    home: tempfile::TempDir,
}

impl Session {
    fn start(program: &Path, arguments: &[&str], size: (u16, u16)) -> Self {
        Self::start_with(program, arguments, size, &[])
    }

    fn start_with(
        program: &Path,
        arguments: &[&str],
        (columns, rows): (u16, u16),
        variables: &[(&str, &str)],
    ) -> Self {
        // Neither reads nor leaves anything in the folders of whoever runs the tests.
        let home = tempfile::tempdir().unwrap();
        Self::start_in(home, program, arguments, (columns, rows), variables)
    }

    fn start_in(
        home: tempfile::TempDir,
        program: &Path,
        arguments: &[&str],
        (columns, rows): (u16, u16),
        variables: &[(&str, &str)],
    ) -> Self {
        let pair = native_pty_system().openpty(size(columns, rows)).unwrap();
        let before = format!("{:?}", pair.master.get_termios().unwrap());
        let mut command = CommandBuilder::new(program);
        command.args(arguments);
        command.env("TERM", "xterm-256color");
        command.env("RUST_BACKTRACE", "0");
        for folder in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env(folder, home.path());
        }
        command.env_remove("TMUX");
        for (name, value) in variables {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        let id = i32::try_from(child.process_id().unwrap()).unwrap();
        let shown = Arc::new(Shown {
            parser: Mutex::new(vt100::Parser::new(cells(rows), cells(columns), 0)),
            bytes: Mutex::new(Vec::new()),
            news: Condvar::new(),
        });
        let mut reader = pair.master.try_clone_reader().unwrap();
        let parsed = Arc::clone(&shown);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut bytes) {
                parsed.bytes.lock().unwrap().extend(&bytes[..n]);
                parsed.parser.lock().unwrap().process(&bytes[..n]);
                parsed.news.notify_all();
            }
        });
        Self {
            writer: pair.master.take_writer().unwrap(),
            master: pair.master,
            _slave: pair.slave,
            child,
            id: Pid::from_raw(id).unwrap(),
            shown,
            before,
            home,
        }
    }

    /// The demo model, in a home of its own.
    fn demo(arguments: &[&str]) -> Self {
        Self::demo_in(tempfile::tempdir().unwrap(), arguments)
    }

    /// The demo model, in the home that another session left.
    fn demo_in(home: tempfile::TempDir, arguments: &[&str]) -> Self {
        let program = Path::new(env!("CARGO_BIN_EXE_k3-tui"));
        let arguments = [&["--demo"], arguments].concat();
        let session = Self::start_in(home, program, &arguments, (80, 24), &[]);
        session.wait_for("idle");
        session
    }

    /// Its home, for the next session.
    fn leave_home(&mut self) -> tempfile::TempDir {
        std::mem::replace(&mut self.home, tempfile::tempdir().unwrap())
    }

    /// Asks something and halts the answer.
    fn ask_and_halt(&mut self, question: &str) {
        self.send(&format!("{question}\r"));
        self.wait_for(&format!("# on: {question}"));
        self.send("/pause\r");
        self.wait_for("halted");
    }

    /// Whether these bytes were sent to the terminal.
    fn sent(&self, bytes: &str) -> bool {
        let all = self.shown.bytes.lock().unwrap();
        all.windows(bytes.len())
            .any(|window| window == bytes.as_bytes())
    }

    fn wait_for_bytes(&self, bytes: &str) {
        self.wait(bytes, |_| self.sent(bytes));
    }

    fn scripted(pace: &str) -> Self {
        let session = Self::start(&scripted(), &[pace], (80, 24));
        session.wait_for("idle");
        session
    }

    fn send(&mut self, bytes: &str) {
        self.writer.write_all(bytes.as_bytes()).unwrap();
        self.writer.flush().unwrap();
    }

    /// Waits until the terminal is as `wanted`.
    fn wait(&self, what: &str, wanted: impl Fn(&vt100::Screen) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        let mut parser = self.shown.parser.lock().unwrap();
        while !wanted(parser.screen()) {
            let left = deadline.saturating_duration_since(Instant::now());
            let contents = parser.screen().contents();
            assert!(
                !left.is_zero(),
                "waited for {what}; the screen is\n{contents}"
            );
            parser = self.shown.news.wait_timeout(parser, left).unwrap().0;
        }
    }

    fn wait_for(&self, text: &str) {
        self.wait(text, |screen| screen.contents().contains(text));
    }

    fn contents(&self) -> String {
        self.shown.parser.lock().unwrap().screen().contents()
    }

    fn settings(&self) -> String {
        format!("{:?}", self.master.get_termios().unwrap())
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.id, signal).unwrap();
    }

    fn resize(&self, columns: u16, rows: u16) {
        let mut parser = self.shown.parser.lock().unwrap();
        parser.screen_mut().set_size(cells(rows), cells(columns));
        drop(parser);
        self.master.resize(size(columns, rows)).unwrap();
    }

    /// Waits for the end, and checks that the terminal is as it was. The exit code, and what is left on the screen.
    fn end(mut self) -> (u32, String) {
        let deadline = Instant::now() + DEADLINE;
        let status: ExitStatus = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > deadline {
                self.child.kill().unwrap();
                panic!("it did not end; the screen is\n{}", self.contents());
            }
            std::thread::yield_now();
        };
        assert_eq!(self.settings(), self.before, "the settings of the terminal");
        // What the program wrote last may still be on its way; this comes behind it.
        let mut terminal = std::fs::OpenOptions::new()
            .write(true)
            .custom_flags(OFlags::NOCTTY.bits().cast_signed())
            .open(self.master.tty_name().unwrap())
            .unwrap();
        terminal.write_all(b"\r\nTHE-END").unwrap();
        self.wait_for("THE-END");
        self.wait("a normal terminal", |screen| {
            !screen.alternate_screen() && !screen.hide_cursor() && !screen.bracketed_paste()
        });
        (status.exit_code(), self.contents())
    }
}

/// The session that every screen must play, whatever engine it has.
fn whole_session(mut session: Session) {
    session.wait_for("effort max");
    session.send("hello there\r");
    // The message, in the response pane.
    session.wait_for("> hello there");
    // Reasoning and answer, and the figures of the turn.
    session.wait_for("# on: hello there");
    session.wait_for("of answer; first after");
    session.wait_for("idle");
    session.send("\x14");
    session.wait_for("thinking off");
    session.send("/effort low\r");
    session.wait_for("effort low");
    session.send("/reset\r");
    session.wait_for("The conversation starts anew.");
    assert!(!session.contents().contains("hello there"));
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
}

#[test]
fn a_whole_session_on_a_script() {
    whole_session(Session::scripted("2"));
}

#[test]
fn a_whole_session_on_the_demo_model() {
    let program = Path::new(env!("CARGO_BIN_EXE_k3-tui"));
    whole_session(Session::start(program, &["--demo"], (80, 24)));
}

#[test]
fn quit_works_while_the_model_is_busy() {
    let mut session = Session::scripted("2");
    session.send("hold\r");
    session.wait_for("answering");
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
}

#[test]
fn reset_while_busy_cancels_first() {
    let mut session = Session::scripted("2");
    session.send("hold\r");
    session.wait_for("answering");
    session.send("/reset\r");
    session.wait_for("The conversation starts anew.");
    session.send("again\r");
    session.wait_for("You wrote: again.");
    session.send("\x03\x03\x04");
    assert_eq!(session.end().0, 0);
}

#[test]
fn a_signal_gives_the_terminal_back() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut session = Session::scripted("2");
        session.send("hold\r");
        session.wait_for("answering");
        session.signal(signal);
        assert_eq!(session.end().0, 5, "{signal:?}");
    }
}

#[test]
fn a_panic_in_the_engine_leaves_the_conversation_and_its_words_for_later() {
    let mut session = Session::scripted("2");
    session.send("panic\r");
    session.wait_for("The engine has stopped");
    let contents = session.contents();
    assert!(contents.contains("You wrote: panic."), "{contents}");
    assert!(!contents.contains("planted"), "{contents}");
    session.send("/quit\r");
    let (code, left) = session.end();
    assert_eq!(code, 1);
    assert!(left.contains("planted in the engine's thread"), "{left}");
}

/// The real engine on the demo model: a fault in the middle of an answer. What stood before it is in the history, what it had said
/// in the journal, and the next start goes on from there.
#[test]
fn a_panic_in_the_network_of_the_demo_model_loses_no_word() {
    let home = tempfile::tempdir().unwrap();
    let kept = tempfile::tempdir().unwrap();
    let history = kept.path().join("talk.jsonl");
    let path = history.to_str().unwrap();
    // The demo has five layers of experts, and an answer takes some sixty passes.
    let mut session = Session::start_in(
        home,
        &examples::example("failing_engine"),
        &[path, "500"],
        (80, 24),
        &[],
    );
    session.wait_for("effort max");
    session.send("hello\r");
    session.wait_for("of answer; first after");
    for turn in 1.. {
        assert!(turn < 20, "the fault never came");
        session.send("what is the ring?\r");
        session.wait("an end of the turn", |screen| {
            let text = screen.contents();
            text.contains("The engine has stopped") || text.matches("of answer;").count() > turn
        });
        if session.contents().contains("The engine has stopped") {
            break;
        }
    }
    let contents = session.contents();
    // Its reason is told; what the thread itself printed is not in the picture.
    assert!(contents.contains("planted in the experts"), "{contents}");
    assert!(!contents.contains("panicked at"), "{contents}");
    session.send("/quit\r");
    let (code, left) = session.end();
    assert_eq!(code, 1);
    assert!(left.contains("planted in the experts of layer"), "{left}");

    let saved = std::fs::read_to_string(&history).unwrap();
    assert!(saved.contains("hello"), "{saved}");
    let mut session = Session::start(
        Path::new(env!("CARGO_BIN_EXE_k3-tui")),
        &["--demo", "--history", path],
        (80, 24),
    );
    session.wait_for("what is the ring?");
    // A network that was put together by hand has no identity, so its half answer stays in the journal, and the message that
    // has no answer gets one.
    session.wait_for("it stays in the journal");
    session.wait_for("The ring is a few slots");
    session.wait_for("of answer; first after");
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
}

#[test]
fn an_engine_that_stops_is_reported_at_the_end() {
    let mut session = Session::scripted("2");
    session.send("stop\r");
    session.wait_for("The engine has stopped: the script says so.");
    session.send("\x04");
    let (code, left) = session.end();
    assert_eq!(code, 1);
    assert!(
        left.contains("the engine stopped: the script says so"),
        "{left}"
    );
}

#[test]
fn a_dropped_expert_is_on_the_first_row() {
    let mut session = Session::scripted("2");
    session.send("drop\r");
    session.wait_for("!! 1 expert could not be read");
    session.wait_for("cut: an expert of layer 47");
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
}

#[test]
fn escape_characters_of_the_model_are_shown_not_obeyed() {
    let mut session = Session::scripted("2");
    session.send("escape\r");
    session.wait_for("before ␛[2J␛[31m␇ ␛]0;title␇ after");
    session.send("/quit\r");
    session.end();
}

#[test]
fn a_paste_of_several_lines_is_not_sent() {
    let mut session = Session::scripted("2");
    session.send("\x1b[200~one\r\ntwo\x1b[201~");
    session.wait_for("> one");
    session.wait_for("  two");
    session.wait_for("idle");
    session.send("\r");
    session.wait_for("You wrote: one");
    session.send("/quit\r");
    session.end();
}

#[test]
fn sizes_may_change_at_any_time() {
    let mut session = Session::scripted("2");
    session.send("long\r");
    for (columns, rows) in [(200, 60), (30, 5), (40, 10), (1, 1), (120, 40)] {
        session.resize(columns, rows);
    }
    session.wait_for("Telemetry");
    session.wait_for("79: streaming 漢字");
    session.resize(30, 5);
    session.wait_for("too small");
    session.resize(80, 24);
    session.wait_for("79: streaming 漢字");
    session.send("/quit\r");
    session.end();
}

#[test]
fn a_sleep_gives_the_terminal_back_and_takes_it_again() {
    let mut session = Session::scripted("2");
    session.send("hello\r");
    session.wait_for("of answer; first after");
    session.send("\x1a");
    session.wait("a normal terminal", |screen| !screen.alternate_screen());
    // Not before it sleeps: told to go on too early it would sleep on.
    let stopped = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(session.id), stopped).unwrap();
    assert_eq!(session.settings(), session.before);
    session.signal(Signal::CONT);
    session.wait_for("You wrote: hello.");
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
}

#[test]
fn without_a_terminal_it_is_refused_at_once() {
    let output = std::process::Command::new(scripted())
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("`k3 chat` works without one"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn what_is_typed_while_the_model_is_busy_is_sent_afterwards() {
    let mut session = Session::scripted("2");
    session.send("hold\r");
    session.wait_for("answering");
    session.send("first\rsecond\r");
    session.wait_for("2 queued");
    // The last one back, and away again.
    session.send("\x1b[A");
    session.wait_for("1 queued");
    session.wait_for("> second");
    session.send("\x15\x1b");
    session.wait_for("not sent yet");
    session.send("\r");
    session.wait_for("You wrote: first.");
    session.send("/quit\r");
    let (code, left) = session.end();
    assert_eq!(code, 0);
    assert!(
        left.contains("k3-tui: 2 answers"),
        "the summary stays: {left}"
    );
}

#[test]
fn an_editor_gets_the_terminal_and_the_message() {
    // Not sed itself: what it wrote to the terminal would be seen.
    let mut session = Session::start_with(
        &scripted(),
        &["2"],
        (80, 24),
        &[("VISUAL", ""), ("EDITOR", "sed -i s/word/sentence/")],
    );
    session.wait_for("idle");
    session.send("a word\x07");
    session.wait_for("> a sentence");
    session.send("\r");
    session.wait_for("You wrote: a sentence.");
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
}

#[test]
fn copying_asks_the_terminal_and_writes_a_file() {
    let mut session = Session::scripted("2");
    session.send("hi\r");
    session.wait_for("of answer; first after");
    session.send("/copy\r");
    session.wait_for("The answer is copied");
    // "You wrote: hi."
    assert!(session.sent("\x1b]52;c;WW91IHdyb3RlOiBoaS4"));
    session.send("/quit\r");
    session.end();
}

#[test]
fn a_whole_evening_on_the_demo_model() {
    let mut session = Session::demo(&[]);
    session.wait_for_bytes("\x1b]2;k3-tui: idle\x1b\\");
    session.send("What is the ring?\r");
    session.wait_for("# on: What is the ring?");
    // Another plan, and a halt, in the middle of it.
    session.send("/preset ultra\r");
    session.send("/pause\r");
    session.wait_for("halted");
    session.send("/continue\r");
    session.wait_for("of answer; first after");
    session.send("/temp 0.5\r");
    session.wait_for("temperature 0.5");
    session.send("/system Be kind.\r");
    session.wait_for("system message: Be kind.");
    session.send("/rename Rings\r");
    session.wait_for("is called Rings");
    session.send("/fork\r");
    session.wait_for("Going on from 3 messages.");
    session.send("/sessions\r");
    session.wait_for("Rings (copy)");
    session.send("\x1b[B");
    session.wait_for("▸");
    session.send("\r");
    session.wait_for("Going on from 3 messages.");
    session.send("/stats\r");
    session.wait_for("tokens of thinking");
    session.send("q");
    let file = session.home.path().join("out.md");
    session.send(&format!("/export {}\r", file.display()));
    session.wait_for("Written to");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains("## You\n\nWhat is the ring?"), "{text}");
    session.send("/quit\r");
    let (code, left) = session.end();
    assert_eq!(code, 0);
    assert!(left.contains("--history"), "{left}");
}

#[test]
fn conversations_are_kept_only_if_something_was_said() {
    let folder = |session: &Session| session.home.path().join("k3-tui/conversations");
    let mut session = Session::demo(&[]);
    let kept = folder(&session);
    assert_eq!(
        std::fs::read_dir(&kept)
            .unwrap()
            .filter(|e| e
                .as_ref()
                .unwrap()
                .path()
                .extension()
                .is_some_and(|e| e == "jsonl"))
            .count(),
        1
    );
    session.send("/quit\r");
    let home = session.leave_home();
    session.end();
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0);
    drop(home);
}

#[test]
fn settings_are_obeyed_and_flags_win() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("s.toml");
    std::fs::write(
        &file,
        "effort = \"low\"\nkeep = false\nthink = \"line\"\ntitles = false\n",
    )
    .unwrap();
    let name = file.to_str().unwrap();
    let mut session = Session::demo(&["--settings", name]);
    session.wait_for("effort low");
    assert!(!session.home.path().join("k3-tui/conversations").exists());
    assert!(!session.sent("\x1b]2;"));
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
    let mut session = Session::demo(&["--settings", name, "--thinking-effort", "high"]);
    session.wait_for("effort high");
    session.send("/quit\r");
    session.end();
    std::fs::write(&file, "efort = \"low\"\n").unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_k3-tui"))
        .args(["--settings", name])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("s.toml") && said.contains("efort"), "{said}");
}

#[test]
fn a_large_paste_is_taken_whole_at_once() {
    let mut session = Session::scripted("2");
    let text = "word ".repeat(20_000);
    session.send(&format!("\x1b[200~{text}THE-LAST\x1b[201~"));
    session.wait_for("THE-LAST");
    session.send("\x15");
    session.wait("an empty line", |screen| {
        !screen.contents().contains("THE-LAST")
    });
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
}

fn a_dumb_one_is_refused(program: &Path, argument: &str) {
    let dumb = Session::start_with(program, &[argument], (80, 24), &[("TERM", "dumb")]);
    let (code, left) = dumb.end();
    assert_eq!(code, 2);
    assert!(left.contains("k3 chat"), "{left}");
}

#[test]
fn terminals_that_can_not_are_refused_or_waited_for() {
    a_dumb_one_is_refused(&scripted(), "2");
    // Some terminals say 0x0 before they are laid out.
    let mut session = Session::scripted("2");
    session.master.resize(size(0, 0)).unwrap();
    session.send("x");
    session.master.resize(size(80, 24)).unwrap();
    session.send("y");
    session.wait_for("> xy");
    session.send("\x15\x15");
    session.send("\x03\x03");
    assert_eq!(session.end().0, 0);
}

#[test]
fn the_demo_model_goes_on_where_it_was_closed() {
    let mut session = Session::demo(&[]);
    session.send("What is the ring?\r");
    session.wait_for("of answer; first after");
    session.send("/quit\r");
    let home = session.leave_home();
    let (code, left) = session.end();
    assert_eq!(code, 0);
    let file = left.split("--history ").nth(1).unwrap();
    // The terminal broke the row.
    let file: String = file
        .split("THE-END")
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    let mut session = Session::demo_in(home, &["--history", &file]);
    session.wait_for("> What is the ring?");
    session.send("/regen\r");
    session.wait_for("of answer; first after");
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
}

#[test]
fn the_demo_model_is_halted_resized_and_told_to_end() {
    let mut session = Session::demo(&[]);
    session.ask_and_halt("What is the ring?");
    session.send("/continue\r");
    for round in 0..20 {
        let (columns, rows) = [(200, 60), (40, 10), (30, 5), (1, 1), (120, 40)][round % 5];
        session.resize(columns, rows);
    }
    session.wait_for("Telemetry");
    session.resize(80, 24);
    session.wait_for("of answer; first after");
    session.ask_and_halt("What is a preset?");
    session.signal(Signal::TERM);
    let home = session.leave_home();
    assert_eq!(session.end().0, 5);
    let kept = std::fs::read_dir(home.path().join("k3-tui/conversations")).unwrap();
    let history = kept
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let text = std::fs::read_to_string(history.unwrap()).unwrap();
    assert!(text.contains("What is a preset?"), "{text}");
}

#[test]
fn the_demo_model_takes_a_large_paste_and_refuses_what_is_too_long_for_it() {
    let mut session = Session::demo(&[]);
    let text = "word ".repeat(20_000);
    session.send(&format!("\x1b[200~{text}THE-LAST\x1b[201~"));
    session.wait_for("THE-LAST");
    session.send("\r");
    // More than the context: refused, and back in the line.
    session.wait_for("The message was not sent");
    session.wait_for("THE-LAST");
    session.send("\x03");
    session.wait("an empty line", |screen| {
        !screen.contents().contains("THE-LAST")
    });
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
}

#[test]
fn the_demo_model_on_terminals_that_can_not() {
    let program = Path::new(env!("CARGO_BIN_EXE_k3-tui"));
    a_dumb_one_is_refused(program, "--demo");
    let mut session = Session::demo(&[]);
    session.master.resize(size(0, 0)).unwrap();
    session.send("hello\r");
    session.master.resize(size(80, 24)).unwrap();
    session.wait_for("# on: hello");
    session.send("\x1b");
    session.wait_for("idle");
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
}

#[test]
fn what_was_written_and_not_sent_survives_a_kill() {
    let mut session = Session::demo(&[]);
    session.send("a thought that was n");
    session.wait_for("> a thought that was n");
    let folder = session.home.path().join("k3-tui/conversations");
    let deadline = Instant::now() + DEADLINE;
    let kept = || {
        let entries = std::fs::read_dir(&folder).unwrap();
        let drafts = entries.map(|entry| entry.unwrap().path());
        drafts
            .filter(|path| path.extension().is_some_and(|end| end == "draft"))
            .any(|path| std::fs::read_to_string(path).is_ok_and(|text| text.contains("was n\"")))
    };
    while !kept() {
        assert!(Instant::now() < deadline, "nothing is kept");
        std::thread::yield_now();
    }
    session.signal(Signal::KILL);
    session.child.wait().unwrap();
    let home = session.leave_home();
    let mut session = Session::demo_in(home, &[]);
    session.wait_for("> a thought that was n");
    session.wait_for("is here again");
    session.send("\x03\x03");
    let home = session.leave_home();
    assert_eq!(session.end().0, 0);
    // What was given back once does not come again.
    let mut session = Session::demo_in(home, &[]);
    assert!(!session.contents().contains("a thought"));
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
}

#[test]
fn telemetry_is_looked_at_recorded_and_plans_are_made_on_the_demo_model() {
    let mut session = Session::demo(&["--preset", "ultra"]);
    session.resize(120, 40);
    session.send("What is the ring?\r");
    session.wait_for("of answer; first after");
    // The keys go to the telemetry, and one part has all the room.
    session.send("\t\t\t");
    session.wait_for("▸ Telemetry");
    session.send("\x1b[B\r");
    session.wait_for("disk, of most");
    session.send("\r");
    session.wait_for("last token");
    let file = session.home.path().join("out.csv");
    session.send(&format!("/record {}\r", file.display()));
    session.wait_for("Written to");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.lines().count() > 1 && text.contains("making"),
        "{text}"
    );
    session.send("/tune\r");
    session.wait_for("Memory plans");
    session.wait_for("the plan of the start");
    // Below the presets: the slider of the ring, a slot less.
    session.send(&"\x1b[B".repeat(9));
    session.send("\x1b[D");
    session.wait_for("3 slots");
    session.send("\r");
    session.wait_for("Preset ultra: up to");
    session.send("/quit\r");
    assert_eq!(session.end().0, 0);
}

#[test]
fn keys_that_come_in_pieces_are_put_together() {
    let mut session = Session::scripted("2");
    session.send("hold\r");
    session.wait_for("answering");
    session.send("one");
    session.wait_for("> one");
    // The two pieces of Left; as a lone Esc the first would stop the answer.
    session.send("\x1b");
    session.send("[D");
    session.send("X");
    session.wait_for("> onXe");
    assert!(session.contents().contains("answering"));
    session.send("\x1b");
    session.wait_for("stopped by you");
    session.send("\x03/quit\r");
    assert_eq!(session.end().0, 0);
}

#[test]
fn line_by_line_says_the_same_facts() {
    let home = tempfile::tempdir().unwrap();
    let mut program = assert_cmd::Command::new(env!("CARGO_BIN_EXE_k3-tui"));
    for folder in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
        program.env(folder, home.path());
    }
    let output = program
        .args(["--demo", "--plain"])
        .write_stdin("Hello, who are you?\n/exit\n")
        .output()
        .unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("demo model") && said.contains("s reading"),
        "{said}"
    );
    assert!(!output.stdout.contains(&0x1b));
}

/// A session with the model of a server that plays a script.
fn with_server(address: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Session {
    let program = Path::new(env!("CARGO_BIN_EXE_k3-tui"));
    let arguments = [&["--remote", address], arguments].concat();
    Session::start_with(program, &arguments, (120, 40), variables)
}

#[test]
fn a_whole_session_with_a_server_and_on_to_the_model_here() {
    let mut script = server::Script::always(server::whole("They greet.", "Hi from far away."));
    let metrics = "sglang:num_running_reqs 7\nsglang:num_queue_reqs 2\nsglang:token_usage 0.25\n";
    script.metrics = server::with(200, &[], metrics);
    let server = server::Server::start(script);
    let mut session = with_server(
        &server.address,
        &["--gen", "5"],
        &[("K3_API_KEY", "sk-secret")],
    );
    session.wait_for("idle");
    session.wait_for("k3 on 127.0.0.1");
    session.wait_for("SGLang");
    session.send("hello there\r");
    session.wait_for("# on: hello there");
    session.wait_for("Hi from far away.");
    session.wait_for("of answer; first after");
    session.wait("the queue", |screen| {
        let contents = screen.contents();
        let row = contents
            .lines()
            .find(|row| row.contains("requests that wait"));
        row.is_some_and(|row| row.trim_end().ends_with(" 2"))
    });
    session.send("/preset laptop\r");
    session.wait_for("the model runs on a server");
    session.send("/backend\r");
    session.wait_for("in use");
    // The same conversation, on this computer.
    session.send("/backend local\r");
    session.wait_for("ring slots in flight");
    session.wait_for("> hello there");
    session.wait_for("Hi from far away.");
    session.send("and the ring?\r");
    session.wait_for("first after");
    session.wait_for("idle");
    session.send("/backend remote\r");
    session.wait_for("SGLang");
    session.send("thanks\r");
    session.wait_for("> thanks");
    session.wait_for("first after");
    session.wait_for("idle");
    session.send("/quit\r");
    let (code, left) = session.end();
    assert_eq!(code, 0);
    assert!(left.contains("answers"), "{left}");
    let questions = server.questions();
    assert_eq!(questions.len(), 2);
    assert_eq!(questions[0]["max_tokens"], 5);
    let messages = questions[1]["messages"].as_array().unwrap();
    assert_eq!(messages[2]["content"], "and the ring?");
    let keyed = |seen: &server::Seen| {
        seen.headers
            .iter()
            .any(|line| line.ends_with("Bearer sk-secret"))
    };
    assert!(server.seen().iter().all(keyed));
}

#[test]
fn a_server_that_is_refused_is_refused_before_the_screen() {
    let program = Path::new(env!("CARGO_BIN_EXE_k3-tui"));
    let home = tempfile::tempdir().unwrap();
    let settings = home.path().join("settings.toml");
    let text =
        "backend = \"far\"\n[servers.far]\nurl = \"http://box:1\"\nkey_env = \"K3_NO_SUCH_KEY\"\n";
    std::fs::write(&settings, text).unwrap();
    let settings = settings.to_str().unwrap();
    let run = |arguments: &[&str]| {
        let output = std::process::Command::new(program)
            .args(arguments)
            .envs(["HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"].map(|name| (name, home.path())))
            .env("K3_API_KEY", "two words")
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        said
    };
    for (arguments, part) in [
        (&["--remote", "box:8000"][..], "K3_API_KEY holds no key"),
        (&["--model", "k3"], "--remote"),
        (
            &["--settings", settings],
            "the environment has no K3_NO_SUCH_KEY",
        ),
        (
            &["--settings", settings, "--plain"],
            "--plain talks to the model on this computer",
        ),
    ] {
        let said = run(arguments);
        assert!(said.contains(part) && !said.contains("two words"), "{said}");
    }
}
