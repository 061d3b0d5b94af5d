//! How fast the screen is: drawing, keys, the first frame, loading, bytes to the terminal, and what it costs when nothing
//! happens. The program runs in a pseudo-terminal where that is what counts.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use k3::chat::{Sampling, Store};
use k3::engine::telemetry::SlotState;
use k3::engine::{Activity, Event, ModelFacts, Rates, Telemetry};
use k3::text::{Channel, Effort, Message as Said};
use k3::tui::{Message, State, Theme, update, view};
use portable_pty::{CommandBuilder, PtySize, native_pty_system};
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};

const SIZE: (u16, u16) = (200, 60);

/// A paragraph of an answer as models write them.
const PIECE: &str = "## Why the trunk is read again\n\nEvery token goes through **every layer**, and memory holds only *some* of them at a time; so \
what is not pinned comes from disk once more. See `stream::ring`.\n\n- a segment is read\n- it is computed on\n- its slot is free again\n\n\
| part | GB |\n|---|--:|\n| trunk | 109.1 |\n| experts | 25.8 |\n\n```rust\nfor segment in walk {\n    compute(segment);\n}\n```\n\n\
漢字かな交じり文も幅を数える。 And a last line with 👩‍🚀 in it.\n\n";

fn main() {
    draw();
    bytes();
    load();
    first_frame();
    keys(Beside::Nothing);
    keys(Beside::Threads);
    keys(Beside::Engine);
    idle();
}

/// Counts what would go to a terminal.
#[derive(Clone, Default)]
struct Count(Arc<AtomicUsize>);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.fetch_add(bytes.len(), Ordering::Relaxed);
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn terminal(count: &Count) -> Terminal<CrosstermBackend<Count>> {
    let options = TerminalOptions {
        viewport: Viewport::Fixed(Rect::new(0, 0, SIZE.0, SIZE.1)),
    };
    Terminal::with_options(CrosstermBackend::new(count.clone()), options).unwrap()
}

fn ready(messages: Vec<Said>) -> Message {
    Message::Engine(Event::Ready {
        model: ModelFacts {
            name: "Kimi-K3".to_owned(),
            demo: false,
            layers: 93,
            context: 8192,
            server: None,
        },
        messages,
        effort: Some(Effort::Max),
        open: None,
        sampling: Sampling::Greedy,
        history: None,
    })
}

fn delta(text: &str) -> Message {
    Message::Engine(Event::Delta {
        channel: Some(Channel::Response),
        text: text.to_owned(),
    })
}

/// In the middle of token `n`, look `look` of it.
fn telemetry(n: usize, look: usize) -> Message {
    let layer = 5 * look % 93;
    Message::Telemetry(Box::new(Telemetry {
        activity: Activity::Decode,
        positions: (n, 8192),
        tokens_per_minute: Some(12.0 + (n % 3) as f64 / 10.0),
        layer: Some((layer, 93)),
        elapsed: Some(Duration::from_millis(250 * look as u64)),
        trunk: Rates {
            second: Some(3.0 + (look % 7) as f64 / 10.0),
            ten: Some(3.2),
        },
        slots: (0..4)
            .map(|slot| match (slot + look) % 3 {
                0 => SlotState::Computing,
                1 => SlotState::Ready,
                _ => SlotState::Reading {
                    percent: (13 * look % 100) as u8,
                },
            })
            .collect(),
        rss_bytes: Some(12_000_000_000 + 4096 * look as u64),
        ..Telemetry::default()
    }))
}

/// A transcript of so many bytes.
fn transcript(bytes: usize) -> Vec<Said> {
    let mut messages = Vec::new();
    for turn in 0..bytes / (8 * PIECE.len()) {
        messages.push(Said::user(format!(
            "Question {turn}: why is it read again?"
        )));
        messages.push(Said::assistant(
            Some("They ask why.".to_owned()),
            PIECE.repeat(8),
        ));
    }
    messages
}

fn quantiles(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "{name:48} median {:7.2} ms   p99 {:7.2} ms   max {:7.2} ms",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

/// A token, its telemetry and a drawing, beside a transcript of 4 MiB.
fn draw() {
    let count = Count::default();
    let mut terminal = terminal(&count);
    let mut state = State::new(SIZE, Theme::Auto);
    update(&mut state, ready(transcript(4 << 20)));
    let mut times = Vec::new();
    for n in 0..2000 {
        let start = Instant::now();
        update(&mut state, telemetry(n, n));
        update(
            &mut state,
            delta(if n % 40 == 39 { PIECE } else { "word " }),
        );
        terminal.draw(|frame| view(&state, frame)).unwrap();
        times.push(start.elapsed());
    }
    quantiles("token and drawing, 200x60, 4 MiB", times);
    let mut times = Vec::new();
    for n in 0..200 {
        let start = Instant::now();
        // Reading back through all of it, a page at a time.
        let key = if n < 100 {
            crossterm::event::KeyCode::PageUp
        } else {
            crossterm::event::KeyCode::PageDown
        };
        update(&mut state, Message::Key(key.into()));
        terminal.draw(|frame| view(&state, frame)).unwrap();
        times.push(start.elapsed());
    }
    quantiles("a page back or on, 200x60, 4 MiB", times);
}

/// Bytes to the terminal while a token takes five seconds.
fn bytes() {
    let count = Count::default();
    let mut terminal = terminal(&count);
    let mut state = State::new(SIZE, Theme::Auto);
    update(&mut state, ready(transcript(1 << 16)));
    terminal.draw(|frame| view(&state, frame)).unwrap();
    let before = count.0.load(Ordering::Relaxed);
    let tokens = 40;
    for n in 0..tokens {
        update(&mut state, delta("word "));
        for look in 0..20 {
            let now = Duration::from_millis(5000 * n as u64 + 250 * look as u64);
            update(&mut state, Message::Now(now));
            update(&mut state, telemetry(n, look));
            terminal.draw(|frame| view(&state, frame)).unwrap();
        }
    }
    let sent = count.0.load(Ordering::Relaxed) - before;
    println!(
        "{:48} {:.0} bytes a second",
        "to the terminal, a token in 5 s, 200x60",
        sent as f64 / (5.0 * tokens as f64)
    );
}

/// A history of 10 MiB: read, shown, drawn.
fn load() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("talk.jsonl");
    let lines: String = transcript(10 << 20)
        .iter()
        .map(|m| serde_json::to_string(m).unwrap() + "\n")
        .collect();
    std::fs::write(&path, &lines).unwrap();
    let mut times = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        let (_store, opened) = Store::open(&path).unwrap();
        let mut state = State::new(SIZE, Theme::Auto);
        update(&mut state, ready(opened.messages));
        let mut terminal = terminal(&Count::default());
        terminal.draw(|frame| view(&state, frame)).unwrap();
        times.push(start.elapsed());
    }
    quantiles("history of 10 MiB: read, shown, drawn", times);
}

/// The program in a terminal.
struct Running {
    writer: Box<dyn Write + Send>,
    child: Box<dyn portable_pty::Child + Send + Sync>,
    /// When something came, and what.
    news: Receiver<(Instant, Vec<u8>)>,
    _master: Box<dyn portable_pty::MasterPty + Send>,
    _home: tempfile::TempDir,
}

impl Running {
    fn start(home: tempfile::TempDir) -> Self {
        let size = PtySize {
            rows: SIZE.1,
            cols: SIZE.0,
            pixel_width: 0,
            pixel_height: 0,
        };
        let pair = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(Path::new(env!("CARGO_BIN_EXE_k3-tui")));
        command.args(["--demo"]);
        command.env("TERM", "xterm-256color");
        for folder in ["HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"] {
            command.env(folder, home.path());
        }
        let child = pair.slave.spawn_command(command).unwrap();
        let (sender, news) = channel();
        let mut reader = pair.master.try_clone_reader().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 65536];
            while let Ok(n @ 1..) = reader.read(&mut bytes) {
                if sender.send((Instant::now(), bytes[..n].to_vec())).is_err() {
                    return;
                }
            }
        });
        Self {
            writer: pair.master.take_writer().unwrap(),
            child,
            news,
            _master: pair.master,
            _home: home,
        }
    }

    /// When the drawing came that key `n` brought about: a tilde, which nothing else draws, or any after the key that
    /// takes the tildes back.
    fn wait_for_drawn(&self, n: usize) -> Instant {
        loop {
            let (at, bytes) = self.news.recv_timeout(Duration::from_secs(10)).unwrap();
            if n % 20 == 19 || bytes.contains(&b'~') {
                return at;
            }
        }
    }

    /// Seconds of processor that it has taken.
    fn seconds_computed(&self) -> f64 {
        let id = self.child.process_id().unwrap();
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        // Ticks of a hundredth of a second.
        let ticks = |at: usize| fields[at].parse::<f64>().unwrap();
        (ticks(11) + ticks(12)) / 100.0
    }

    /// When these bytes came.
    fn wait_for(&self, wanted: &str) -> Instant {
        let mut all = Vec::new();
        loop {
            let (at, bytes) = self
                .news
                .recv_timeout(Duration::from_secs(60))
                .expect(wanted);
            all.extend(bytes);
            if all
                .windows(wanted.len())
                .any(|window| window == wanted.as_bytes())
            {
                return at;
            }
        }
    }

    fn end(mut self) -> tempfile::TempDir {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self._home
    }
}

fn first_frame() {
    // Once before, so that the demo model is unpacked.
    let mut home = tempfile::tempdir().unwrap();
    let mut times = Vec::new();
    for round in 0..11 {
        let start = Instant::now();
        let running = Running::start(home);
        let at = running.wait_for("Response");
        if round > 0 {
            times.push(at - start);
        }
        running.wait_for("idle");
        home = running.end();
    }
    quantiles("start to the first frame, 200x60", times);
}

/// What goes on while keys are pressed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beside {
    Nothing,
    /// A thread that only computes, on every core.
    Threads,
    /// The engine itself answers, with as many threads as there are cores.
    Engine,
}

/// A question that is asked again when it is answered.
const QUESTION: &str = "What is the ring?\r";

/// From a key to the first byte that it brings about.
fn keys(beside: Beside) {
    let mut running = Running::start(tempfile::tempdir().unwrap());
    running.wait_for("idle");
    let stop = Arc::new(AtomicBool::new(false));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let burning = if beside == Beside::Threads { cores } else { 0 };
    let burners: Vec<_> = (0..burning)
        .map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || {
                let mut n = 0_u64;
                while !stop.load(Ordering::Relaxed) {
                    n = std::hint::black_box(n.wrapping_mul(3).wrapping_add(1));
                }
            })
        })
        .collect();
    let (mut computed, began) = (0.0, Instant::now());
    if beside == Beside::Engine {
        computed = running.seconds_computed();
        // The first that is written down is answered; the others wait in the queue, so that it never rests.
        for _ in 0..40 {
            running.writer.write_all(QUESTION.as_bytes()).unwrap();
        }
        running.wait_for("on: What is the ring?");
    }
    let mut times = Vec::new();
    for n in 0..300 {
        std::thread::sleep(Duration::from_millis(25));
        while running.news.try_recv().is_ok() {}
        let start = Instant::now();
        let key = if n % 20 == 19 { "\x15" } else { "~" };
        running.writer.write_all(key.as_bytes()).unwrap();
        running.writer.flush().unwrap();
        // A drawing that something else brought about is not the one: the letter itself is waited for.
        times.push(running.wait_for_drawn(n) - start);
    }
    if beside == Beside::Engine {
        let share = (running.seconds_computed() - computed) / began.elapsed().as_secs_f64();
        println!("{:48} {share:.2} cores at work", "the engine meanwhile");
    }
    stop.store(true, Ordering::Relaxed);
    for burner in burners {
        burner.join().unwrap();
    }
    running.end();
    let name = match beside {
        Beside::Nothing => "key to bytes, idle",
        Beside::Threads => "key to bytes, other threads on every core",
        Beside::Engine => "key to bytes, the engine on every core",
    };
    quantiles(name, times);
}

/// What it costs to have it open and do nothing.
fn idle() {
    let running = Running::start(tempfile::tempdir().unwrap());
    running.wait_for("idle");
    std::thread::sleep(Duration::from_secs(2));
    let (before, start) = (running.seconds_computed(), Instant::now());
    std::thread::sleep(Duration::from_secs(20));
    let share = (running.seconds_computed() - before) / start.elapsed().as_secs_f64() * 100.0;
    running.end();
    println!("{:48} {share:.2} % of a core", "idle");
}
