//! `k3 chat` killed while it chats and saves: no turn that ended is lost, every token that was printed is kept, and what goes
//! on afterwards is what nothing killed.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use k3::chat::Store;
use k3::checkpoint::demo;
use k3::text::{
    Channel, CompletionParser, Event, Markers, Message, Role, Thinking, Tokenizer, history,
};

use crate::draw::XorShift;
use crate::{Blow, CALLS, Tally, can_trace, counted, names, striking, tracer};

/// What is said.
pub const SAID: [&str; 3] = ["hello", "thanks", "what is the ring?"];
/// The history file.
pub const HISTORY: &str = "talk.jsonl";
/// When something comes over a process.
#[derive(Clone, Debug)]
enum Moment {
    /// As one of its threads begins this call for the n-th time.
    Call(&'static str, usize, Blow),
    /// When so many bytes of the answer have been read.
    Printed(usize),
}

/// What a process said until its end.
#[derive(Debug)]
struct Said {
    killed: bool,
    code: Option<i32>,
    out: String,
    err: String,
}

/// What is kept of each answer, in ids, as the next start will find it.
#[derive(Debug)]
struct Kept {
    messages: Vec<Message>,
    answers: Vec<Vec<u32>>,
    /// Whether a turn is there that did not end.
    partial: bool,
}

impl Kept {
    fn tokens(&self) -> usize {
        self.answers.iter().map(Vec::len).sum()
    }

    fn users(&self) -> usize {
        let users = self.messages.iter().filter(|m| m.role == Role::User);
        users.count()
    }
}

/// The conversation as nothing killed it.
pub struct Whole {
    home: tempfile::TempDir,
    tokenizer: Tokenizer,
    markers: Markers,
    history: Vec<u8>,
    messages: Vec<Message>,
    answers: Vec<Vec<u32>>,
    out: String,
    /// The most that one thread makes of each call. Empty where calls cannot be counted.
    calls: BTreeMap<&'static str, usize>,
}

/// The command that talks, with its files in `folder`.
pub fn command(folder: &Path, home: &Path, tracer: &[String]) -> Command {
    let k3 = env!("CARGO_BIN_EXE_k3");
    let mut words = tracer.iter().map(String::as_str).chain([k3]);
    let mut command = Command::new(words.next().unwrap());
    command
        .args(words)
        .args(["chat", "--demo", "--thinking-effort", "low", "--history"])
        .arg(folder.join(HISTORY))
        .arg("--state-dir")
        .arg(folder.join("states"))
        .env_remove("LD_LIBRARY_PATH")
        .env("HOME", home)
        .env("XDG_CACHE_HOME", home);
    command
}

fn chat(folder: &Path, home: &Path, tracer: &[String], said: &[&str], printed: usize) -> Said {
    let mut child = command(folder, home, tracer)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = said.iter().map(|line| format!("{line}\n")).collect();
    // Who was killed early reads nothing.
    let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
    let mut err = child.stderr.take().unwrap();
    let listen = std::thread::spawn(move || {
        let mut text = String::new();
        err.read_to_string(&mut text).map(|_| text)
    });
    let mut pipe = child.stdout.take().unwrap();
    let mut out = Vec::new();
    let read = (&mut pipe).take(printed as u64).read_to_end(&mut out);
    if read.unwrap() == printed {
        child.kill().unwrap();
    }
    pipe.read_to_end(&mut out).unwrap();
    let status = child.wait().unwrap();
    Said {
        killed: status.signal().is_some(),
        code: status.code(),
        out: String::from_utf8(out).unwrap(),
        err: listen.join().unwrap().unwrap(),
    }
}

/// A conversation of one message in a folder of its own, under this tracer.
pub fn short(home: &Path, tracer: &[String]) {
    let folder = tempfile::tempdir().unwrap();
    let said = chat(folder.path(), home, tracer, &SAID[..1], usize::MAX);
    assert_eq!(said.code, Some(0), "{}", said.err);
}

impl Whole {
    /// Talks, and counts calls.
    pub fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let model = demo::unpack(&home.path().join("k3-tui")).unwrap();
        let tokenizer = Tokenizer::load(&model).unwrap();
        let markers = Markers::find(&tokenizer).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let log = home.path().join("calls");
        let traced = can_trace();
        let words = match traced {
            true => tracer(&log, &[]),
            false => {
                println!("kills at system calls: NOT RUN, there is no strace that may trace");
                Vec::new()
            }
        };
        let said = chat(folder.path(), home.path(), &words, &SAID, usize::MAX);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let mut calls = BTreeMap::new();
        if traced {
            calls = counted(&CALLS, &log);
            assert!(calls["fdatasync"] > 40 && calls["fsync"] > 5, "{calls:?}");
        }
        let kept = kept(folder.path());
        assert!(!kept.partial && kept.answers.len() == SAID.len());
        Self {
            tokenizer,
            markers,
            history: std::fs::read(folder.path().join(HISTORY)).unwrap(),
            messages: kept.messages,
            answers: kept.answers,
            out: said.out,
            calls,
            home,
        }
    }

    fn moment(&self, draw: &mut XorShift, blows: &[Blow]) -> Moment {
        let calls: Vec<_> = self.calls.iter().collect();
        match calls.is_empty() || draw.below(4) == 0 {
            true => Moment::Printed(1 + draw.below(self.out.len())),
            false => {
                let (call, most) = calls[draw.below(calls.len())];
                let blow = blows[draw.below(blows.len())];
                Moment::Call(call, 1 + draw.below(*most), blow)
            }
        }
    }

    fn run(&self, folder: &Path, moment: Option<&Moment>, said: &[&str]) -> Said {
        let (words, printed) = match moment {
            None => (Vec::new(), usize::MAX),
            Some(Moment::Printed(bytes)) => (Vec::new(), *bytes),
            Some(Moment::Call(call, n, blow)) => (striking(call, *n, *blow), usize::MAX),
        };
        chat(folder, self.home.path(), &words, said, printed)
    }

    /// What `k3 chat` prints of answers of which it has these ids.
    fn printed(&self, answers: &[Vec<u32>]) -> String {
        let mut text = String::new();
        for (ids, whole) in answers.iter().zip(&self.answers) {
            let mut parser = CompletionParser::new(Thinking::On(None));
            let mut speaking = None::<Channel>;
            for id in ids {
                for event in parser.push(&self.tokenizer, &self.markers, *id).unwrap() {
                    let Event::Text(channel, said) = event else {
                        continue;
                    };
                    if speaking != Some(channel) {
                        if let Some(open) = speaking {
                            text += &format!("</{open}>\n");
                        }
                        text += &format!("<{channel}>");
                        speaking = Some(channel);
                    }
                    text += &said;
                }
            }
            if ids == whole {
                text += &format!("</{}>\n", speaking.unwrap());
            }
        }
        text
    }

    /// Checks what a kill left, and gives it.
    fn check(&self, folder: &Path, said: &Said, before: &Kept, moment: &Moment) -> Kept {
        let path = folder.join(HISTORY);
        if path.exists() {
            history::read(&path).expect("a history always parses");
        }
        let kept = kept(folder);
        for (at, ids) in kept.answers.iter().enumerate() {
            assert!(self.answers[at].starts_with(ids), "answer {at} is another");
        }
        for (got, want) in kept.messages.iter().zip(&self.messages) {
            assert_eq!(got.role, want.role);
            assert!(want.content.starts_with(&got.content));
        }
        // Only the last answer may be a part.
        let whole = |kept: &Kept| {
            let pairs = kept.answers.iter().zip(&self.answers);
            pairs.filter(|(ids, whole)| ids == whole).count()
        };
        assert!(whole(&kept) + 1 >= kept.answers.len());
        // One that was stopped by a signal is told as well, and is to be gone on with.
        let told = said.err.matches("tokens a second").count();
        let stopped = said.err.matches("stopped; /continue").count();
        let ended = told - stopped;
        let saved = kept.messages.iter().filter(|m| m.role == Role::Assistant);
        // One that was killed behind its last id is told as ended by the next start.
        let last = before.answers.len().checked_sub(1);
        let untold =
            last.is_some_and(|at| before.partial && before.answers[at] == self.answers[at]);
        let ended = ended + whole(before) - usize::from(untold);
        assert!(
            saved.count() >= ended && whole(&kept) >= ended,
            "a turn that had ended is missing: {moment:?}, {said:?}, before {before:?}, now {kept:?}"
        );
        assert!(kept.tokens() >= before.tokens(), "what was kept is gone");
        // A token is printed after it is on the drive.
        if before.tokens() == 0 {
            let all = self.printed(&kept.answers);
            // An answer that was stopped closes its channel, though it is gone on with later.
            let out = match stopped > 0 && !all.ends_with(">\n") {
                true => said.out.rsplit_once("</").map_or("", |(out, _)| out),
                false => &said.out,
            };
            assert!(all.starts_with(out), "{out:?}\n{all:?}");
        }
        // Each flush is a token: the one whose flush was not let through may be gone, no other.
        if let Moment::Call("fdatasync", n, _) = moment
            && said.killed
        {
            assert!(kept.tokens() + 1 >= before.tokens() + n);
        }
        kept
    }

    /// Kills once or more, then lets it end.
    fn case(&self, draw: &mut XorShift, blows: &[Blow], tally: &mut Tally) {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut kept = Kept {
            messages: Vec::new(),
            answers: Vec::new(),
            partial: false,
        };
        loop {
            let moment = self.moment(draw, blows);
            let said = self.run(folder, Some(&moment), &SAID[kept.users()..]);
            let place = format!("{moment:?}: {}", said.err);
            let struck = said.killed || said.code == Some(5);
            assert!(struck || said.code == Some(0), "{place}");
            assert!(!said.err.contains("panicked"), "{place}");
            let by = match &moment {
                Moment::Call(call, ..) => call,
                Moment::Printed(_) => "printed",
            };
            tally.note(by, struck);
            kept = self.check(folder, &said, &kept, &moment);
            tally.partial += usize::from(kept.partial);
            if !struck || draw.below(4) > 0 {
                break;
            }
        }
        let said = self.run(folder, None, &SAID[kept.users()..]);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let last = kept.messages.last().map(|message| message.role);
        let last_answer = kept.answers.len().checked_sub(1);
        if kept.partial && last_answer.is_some_and(|at| kept.answers[at] != self.answers[at]) {
            assert!(said.err.contains("going on with it"), "{}", said.err);
        } else if !kept.partial && last == Some(Role::User) {
            assert!(said.err.contains("answering it"), "{}", said.err);
        }
        let history = std::fs::read(folder.join(HISTORY)).unwrap();
        assert!(history == self.history, "the same as if nothing had come");
        let end = self::kept(folder);
        assert_eq!(end.answers, self.answers);
        let lock = format!("{HISTORY}.lock");
        let mine = [HISTORY, &format!("{HISTORY}.k3"), &lock, "states"];
        for name in names(folder) {
            assert!(mine.contains(&name.as_str()), "{name} is left over");
        }
        for name in names(&folder.join("states")) {
            assert!(name == "lock" || name.ends_with(".k3state"), "{name}");
        }
    }

    fn campaign(&self, seed: u32, blows: &[Blow], cases: usize) -> Tally {
        let mut draw = XorShift::new(seed);
        let mut tally = Tally::default();
        while tally.kills < cases {
            self.case(&mut draw, blows, &mut tally);
        }
        tally
    }
}

/// What the next start will find, looked up in a copy: opening tidies up.
fn kept(folder: &Path) -> Kept {
    let copy = tempfile::tempdir().unwrap();
    for name in names(folder) {
        let from: PathBuf = folder.join(&name);
        if from.is_file() {
            std::fs::copy(from, copy.path().join(&name)).unwrap();
        }
    }
    let (_store, opened) = Store::open(&copy.path().join(HISTORY)).unwrap();
    // Facts are saved before the history: a kill in between leaves some of a message that is still in the journal alone.
    let told = |note: &&String| !note.contains("what was known about them is not used");
    let notes: Vec<_> = opened.notes.iter().filter(told).collect();
    assert!(notes.is_empty(), "{notes:?}");
    // What stands at the place of a turn that did not end is its beginning; the facts may be of more already.
    let whole = match &opened.partial {
        Some(partial) => partial.messages,
        None => opened.messages.len(),
    };
    let answers = opened.messages.iter().zip(&opened.facts).take(whole);
    let mut answers: Vec<Vec<u32>> = answers
        .filter(|(message, _)| message.role == Role::Assistant)
        .map(|(_, facts)| facts.clone().unwrap().answer.unwrap().ids)
        .collect();
    let partial = opened.partial.is_some();
    answers.extend(opened.partial.map(|partial| partial.ids));
    Kept {
        messages: opened.messages,
        answers,
        partial,
    }
}

#[test]
fn a_kill_loses_nothing_but_the_token_that_is_being_computed() {
    let tally = Whole::new().campaign(20_261_129, &[Blow::Kill], 12);
    println!("chat, seed 20261129: {tally:?}");
}

#[test]
#[ignore = "takes minutes: cargo test --test kills -- --ignored --nocapture"]
fn what_four_hundred_kills_of_a_chat_leave() {
    let seed = 1;
    let tally = Whole::new().campaign(seed, &[Blow::Kill], 400);
    println!("chat, seed {seed}: {tally:?}");
}

/// What ends programs, but can be heard: the answer stops between two layers, is kept, and is gone on with.
const SIGNALS: [Blow; 3] = [
    Blow::Signal("SIGTERM"),
    Blow::Signal("SIGHUP"),
    Blow::Signal("SIGINT"),
];

#[test]
fn a_signal_at_any_moment_keeps_all_that_was_said() {
    if !can_trace() {
        println!("signals: NOT RUN, there is no strace that may trace");
        return;
    }
    let tally = Whole::new().campaign(20_261_130, &SIGNALS, 8);
    println!("signals, seed 20261130: {tally:?}");
}

#[test]
#[ignore = "takes minutes: cargo test --test kills -- --ignored --nocapture"]
fn what_a_hundred_signals_leave() {
    let seed = 4;
    let tally = Whole::new().campaign(seed, &SIGNALS, 100);
    println!("signals, seed {seed}: {tally:?}");
}

/// Errors of the system while it talks: it goes on or ends with words, never by a panic; nothing that was told as kept is lost,
/// and once the system is well the conversation is finished as if nothing had come.
impl Whole {
    /// One error; whether the program ended by it.
    pub fn fault(&self, call: &'static str, n: usize, blow: Blow) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let moment = Moment::Call(call, n, blow);
        let said = self.run(folder, Some(&moment), &SAID);
        let place = format!("{moment:?}: {}", said.err);
        crate::faults::ended_in_words(said.killed, said.code, &said.err, &place, call == "write");
        let path = folder.join(HISTORY);
        if path.exists() {
            history::read(&path).expect("a history always parses");
        }
        // A message that cannot be saved is refused, and the next one begins in its place: another conversation. Where
        // messages cannot be written either, nobody can know.
        let refused = said.err.contains("cannot be saved") || call == "write";
        if refused {
            let again = self.run(folder, None, &[]);
            assert_eq!(again.code, Some(0), "{place}: {}", again.err);
        } else {
            if said.code == Some(0) {
                let history = std::fs::read(&path).unwrap_or_default();
                assert!(history == self.history, "{place}");
            }
            self.finish(folder, &place);
        }
        said.code != Some(0)
    }

    /// Checks what a process left that was not killed, finishes the conversation and compares it.
    pub fn finish(&self, folder: &Path, place: &str) {
        let kept = kept(folder);
        for (at, ids) in kept.answers.iter().enumerate() {
            assert!(self.answers[at].starts_with(ids), "{place}: another answer");
        }
        let said = self.run(folder, None, &SAID[kept.users()..]);
        assert_eq!(said.code, Some(0), "{place}: {}", said.err);
        let history = std::fs::read(folder.join(HISTORY)).unwrap();
        assert!(history == self.history, "{place}: not gone on with");
    }

    /// What is printed when nothing comes.
    pub fn out(&self) -> &str {
        &self.out
    }

    /// The folder in which its demo model is.
    pub fn home(&self) -> &Path {
        self.home.path()
    }
}
